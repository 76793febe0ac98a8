(module (memory (export "memory") 1) (func $f (export "_start") (return_call $f)))
