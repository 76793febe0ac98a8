(module (memory (export "memory") 1) (func (export "_start") (i32.add) (drop)))
