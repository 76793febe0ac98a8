(module (memory (export "memory") 1) (global (export "world.steps") i64 (i64.const 0)) (func (export "_start")))
