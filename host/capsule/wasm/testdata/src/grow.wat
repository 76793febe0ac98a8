;; Asks for more memory than a run may have, page by page, and tells how much it got.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\0e\00\00\00")
  (data (i32.const 16) "{\"pages\":    }")
  (func (export "_start") (local $n i32) (local $at i32)
    (loop
      (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    (local.set $n (memory.size))
    (local.set $at (i32.const 28))
    (loop
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (local.set $n (i32.div_u (local.get $n) (i32.const 10)))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (br_if 0 (local.get $n)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
