// Takes all the memory that it can get, and fails when there is no more.
#include "wasi.h"

void _start(void) {
	for (;;) {
		size_t from = __builtin_wasm_memory_grow(0, 64);
		if (from == (size_t)-1) proc_exit(9);
		char *at = (char *)(from * 65536);
		for (size_t i = 0; i < 64 * 65536; i += 4096) at[i] = 1;
	}
}
