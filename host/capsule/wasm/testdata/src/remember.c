// Tries to keep something from one run to the next.
#include "wasi.h"

static int runs = 1;

void _start(void) {
	char *left = &__heap_base;
	say("{\"run\":");
	say_number((uint64_t)runs++);
	say(",\"left\":");
	say_number((uint64_t)left[100]++);
	say(",\"pages\":");
	say_number(__builtin_wasm_memory_size(0));
	say("}");
	__builtin_wasm_memory_grow(0, 5);
}
