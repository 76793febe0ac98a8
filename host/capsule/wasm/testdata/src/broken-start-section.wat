(module (memory (export "memory") 1) (func $f (export "_start")) (start $f))
