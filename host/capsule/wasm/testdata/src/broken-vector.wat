(module (memory (export "memory") 1) (func (export "_start") (drop (v128.const i32x4 0 0 0 0))))
