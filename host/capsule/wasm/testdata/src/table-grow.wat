;; Asks for a table of gigabytes.
(module (memory (export "memory") 1) (table 1 externref)
  (func (export "_start") (if (i32.ne (table.grow 0 (ref.null extern) (i32.const 0x7ffffff)) (i32.const -1)) (then unreachable)) unreachable))
