(module (memory (export "memory") 1025) (func (export "_start")))
