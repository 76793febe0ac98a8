(module (import "env" "g" (global i64)) (memory (export "memory") 1) (func (export "_start")))
