// Says why on stderr, and fails.
#include "wasi.h"

void _start(void) {
	say("{\"half\":");
	put(2, "broken on purpose\n", 18);
	proc_exit(3);
}
