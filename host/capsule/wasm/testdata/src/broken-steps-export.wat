(module (memory (export "memory") 1) (export "mine" (global 0)) (func (export "_start")))
