// What the programs of these tests share: WASI preview 1 without a C library.
#include <stddef.h>
#include <stdint.h>

#define WASI(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(name)))

typedef struct {
	const void *at;
	size_t length;
} span;

WASI("fd_read") int fd_read(int fd, const span *spans, size_t count, size_t *done);
WASI("fd_write") int fd_write(int fd, const span *spans, size_t count, size_t *done);
WASI("proc_exit") _Noreturn void proc_exit(int code);

extern char __heap_base;

// slurp reads stdin to its end behind the heap's base, and gives its length.
static size_t slurp(char **text) {
	size_t length = 0, room;
	*text = &__heap_base;
	for (;;) {
		room = (size_t)__builtin_wasm_memory_size(0) * 65536 - (size_t)*text - length;
		if (room == 0) {
			if (__builtin_wasm_memory_grow(0, 16) == (size_t)-1) proc_exit(70);
			continue;
		}
		span s = {*text + length, room};
		size_t done = 0;
		if (fd_read(0, &s, 1, &done) != 0) proc_exit(71);
		if (done == 0) return length;
		length += done;
	}
}

static void put(int fd, const void *at, size_t length) {
	while (length > 0) {
		span s = {at, length};
		size_t done = 0;
		if (fd_write(fd, &s, 1, &done) != 0) proc_exit(72);
		at = (const char *)at + done;
		length -= done;
	}
}

static size_t length_of(const char *text) {
	size_t n = 0;
	while (text[n]) n++;
	return n;
}

static void say(const char *text) { put(1, text, length_of(text)); }

static void say_hex(uint64_t v) {
	char digits[16];
	for (int i = 15; i >= 0; i--, v >>= 4) digits[i] = "0123456789abcdef"[v & 15];
	say("\"");
	put(1, digits, 16);
	say("\"");
}

static void say_number(uint64_t v) {
	char digits[20];
	int at = 20;
	do digits[--at] = '0' + v % 10;
	while (v /= 10);
	put(1, digits + at, 20 - at);
}
