// Takes few steps that are long: hours of drawing numbers.
#include "wasi.h"

WASI("random_get") int random_get(void *at, size_t length);

void _start(void) {
	__builtin_wasm_memory_grow(0, 800);
	for (;;) random_get(&__heap_base, 800 * 65536);
}
