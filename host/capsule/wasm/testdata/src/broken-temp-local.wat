(module (memory (export "memory") 1) (func (export "_start") (drop (f64.add (f64.const 1) (local.get 0)))))
