// Reaches for what its input names, and tells whether it got it.
#include "wasi.h"

WASI("args_sizes_get") int args_sizes_get(size_t *count, size_t *bytes);
WASI("environ_sizes_get") int environ_sizes_get(size_t *count, size_t *bytes);
WASI("clock_time_get") int clock_time_get(int clock, uint64_t precision, uint64_t *time);
WASI("random_get") int random_get(void *at, size_t length);
WASI("fd_prestat_get") int fd_prestat_get(int fd, void *at);
WASI("fd_close") int fd_close(int fd);
WASI("fd_renumber") int fd_renumber(int fd, int to);
WASI("path_open") int path_open(int fd, int flags, const char *path, size_t length, int how, uint64_t rights, uint64_t inherited, int more, int *opened);
WASI("path_create_directory") int path_create_directory(int fd, const char *path, size_t length);
WASI("sock_accept") int sock_accept(int fd, int flags, int *opened);

static int reaches(char what) {
	size_t count = 0, bytes = 0;
	uint64_t a = 0, b = 0;
	int fd;
	switch (what) {
	case 'a': // arguments beside the name
		args_sizes_get(&count, &bytes);
		return count != 1 || bytes != 5;
	case 'e': // environment
		environ_sizes_get(&count, &bytes);
		return count != 0;
	case 'c': // clocks
		for (int clock = 0; clock < 4; clock++) {
			if (clock_time_get(clock, 1, &a) == 0 && a != 1000000000) return 1;
			for (volatile int i = 0; i < 100000; i++);
			if (clock_time_get(clock, 1, &b) == 0 && b != a) return 1;
		}
		return 0;
	case 'r': // chance
		random_get(&a, 8);
		return a != 0xac8a366dce7e87d9;
	case 'f': // files
		for (fd = -2; fd < 100; fd++) {
			if (fd_prestat_get(fd, &a) == 0 && fd > 2) return 1;
			if (path_open(fd, 1, "/etc/passwd", 11, 0, 2, 2, 0, &(int){0}) == 0) return 1;
			if (path_open(fd, 1, "../../../../etc/passwd", 22, 0, 2, 2, 0, &(int){0}) == 0) return 1;
			if (path_create_directory(fd, "reached", 7) == 0) return 1;
		}
		return 0;
	case 'n': // network
		for (fd = -2; fd < 100; fd++)
			if (sock_accept(fd, 0, &(int){0}) == 0) return 1;
		return 0;
	case 'd': // other descriptors, by closing and renaming its own
		for (fd = 3; fd < 100; fd++)
			if (fd_renumber(fd, 0) == 0 || fd_close(fd) == 0) return 1;
		return 0;
	}
	return 1;
}

void _start(void) {
	char *text;
	slurp(&text);
	say(reaches(*text) ? "{\"reached\":true}" : "{\"reached\":false}");
}
