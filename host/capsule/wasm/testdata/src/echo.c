// Writes its input as it is.
#include "wasi.h"

void _start(void) {
	char *text;
	size_t n = slurp(&text);
	put(1, text, n);
}
