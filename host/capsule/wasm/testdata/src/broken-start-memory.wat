(module (memory (export "memory") 1) (export "_start" (memory 0)))
