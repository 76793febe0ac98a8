// Ends by exit code 0 after all that it has to say.
#include "wasi.h"

void _start(void) {
	say("{\"exited\":true}");
	proc_exit(0);
}
