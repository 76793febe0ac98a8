(module (memory (export "memory") 1) (func (export "_start") (global.set 0 (i64.const 9)) ))
