;; Ends without a word.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
