;; Begins with a table of gigabytes.
(module (memory (export "memory") 1) (table 0x7ffffff externref) (func (export "_start")))
