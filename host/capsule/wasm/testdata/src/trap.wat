;; Traps, in a function that has a name.
(module
  (memory (export "memory") 1)
  (func $broken_on_purpose unreachable)
  (func (export "_start") (call $broken_on_purpose)))
