;; Calls itself without end.
(module (memory (export "memory") 1) (func $f (export "_start") (local i64 i64) (call $f) (call $f)))
