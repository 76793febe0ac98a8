// Tells all that it finds around it.
#include "wasi.h"

WASI("args_sizes_get") int args_sizes_get(size_t *count, size_t *bytes);
WASI("args_get") int args_get(char **args, char *bytes);
WASI("environ_sizes_get") int environ_sizes_get(size_t *count, size_t *bytes);
WASI("clock_time_get") int clock_time_get(int clock, uint64_t precision, uint64_t *time);
WASI("clock_res_get") int clock_res_get(int clock, uint64_t *time);
WASI("random_get") int random_get(void *at, size_t length);
WASI("fd_prestat_get") int fd_prestat_get(int fd, void *at);
WASI("fd_fdstat_get") int fd_fdstat_get(int fd, void *at);
WASI("fd_filestat_get") int fd_filestat_get(int fd, void *at);
WASI("fd_seek") int fd_seek(int fd, int64_t offset, int whence, uint64_t *at);
WASI("path_open") int path_open(int fd, int flags, const char *path, size_t length, int how, uint64_t rights, uint64_t inherited, int more, int *opened);
WASI("sock_accept") int sock_accept(int fd, int flags, int *opened);
WASI("poll_oneoff") int poll_oneoff(const void *in, void *out, size_t count, size_t *done);
WASI("sched_yield") int sched_yield(void);
WASI("proc_raise") int proc_raise(int signal);

static void name(const char *text) {
	say(",\"");
	say(text);
	say("\":");
}

void _start(void) {
	size_t count = 0, bytes = 0;
	uint64_t time = 1, buffer[16] = {0};
	int opened = 0;
	say("{\"args\":");
	say_number((uint64_t)args_sizes_get(&count, &bytes));
	name("argc");
	say_number(count);
	name("argv0");
	char *args[4], text[64];
	if (count <= 4 && bytes <= 64 && args_get(args, text) == 0) {
		say("\"");
		say(args[0]);
		say("\"");
	} else say("null");
	name("environ");
	environ_sizes_get(&count, &bytes);
	say_number(count);
	for (int clock = 0; clock < 4; clock++) {
		name((const char *[]){"realtime", "monotonic", "cputime", "threadtime"}[clock]);
		say("[");
		for (int i = 0; i < 2; i++) {
			say_number((uint64_t)clock_time_get(clock, 1, &time));
			say(",");
			say_number(time);
			say(",");
		}
		say_number((uint64_t)clock_res_get(clock, &time));
		say(",");
		say_number(time);
		say("]");
	}
	name("random");
	say("[");
	for (int i = 0; i < 3; i++) {
		random_get(buffer, 8);
		say_hex(buffer[0]);
		say(i < 2 ? "," : "]");
	}
	for (int fd = 0; fd < 5; fd++) {
		name((const char *[]){"fd0", "fd1", "fd2", "fd3", "fd4"}[fd]);
		say("[");
		say_number((uint64_t)fd_prestat_get(fd, buffer));
		for (int i = 0; i < 16; i++) buffer[i] = 0;
		say(",");
		say_number((uint64_t)fd_fdstat_get(fd, buffer));
		for (int i = 0; i < 3; i++) {
			say(",");
			say_hex(buffer[i]);
		}
		for (int i = 0; i < 16; i++) buffer[i] = 0;
		say(",");
		say_number((uint64_t)fd_filestat_get(fd, buffer));
		for (int i = 0; i < 8; i++) {
			say(",");
			say_hex(buffer[i]);
		}
		say(",");
		say_number((uint64_t)fd_seek(fd, 0, 1, buffer));
		say(",");
		say_number((uint64_t)path_open(fd, 0, "etc/passwd", 10, 0, 2, 2, 0, &opened));
		say(",");
		say_number((uint64_t)sock_accept(fd, 0, &opened));
		say("]");
	}
	// A timer of an hour on the clock, and stdin to be read.
	struct {
		uint64_t user;
		uint8_t kind, pad[7];
		uint64_t clock, timeout, precision;
		uint16_t flags, pad2[3];
	} want[2] = {{.user = 1, .kind = 0, .clock = 1, .timeout = 3600000000000}, {.user = 2, .kind = 1, .clock = 0}};
	name("poll");
	say("[");
	for (int i = 0; i < 2; i++) {
		size_t done = 0;
		say_number((uint64_t)poll_oneoff(want, buffer, i + 1, &done));
		say(",");
		say_number(done);
		say(i < 1 ? "," : "]");
	}
	name("yield");
	say_number((uint64_t)sched_yield());
	name("raise");
	say_number((uint64_t)proc_raise(9));
	say("}");
}
