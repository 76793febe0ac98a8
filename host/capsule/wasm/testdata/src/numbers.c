// Does what WebAssembly, or a compiler for it, could leave open: results that are no
// number, rounding, conversions, shifts, tables of functions, bulk memory.
#include "wasi.h"

static double f64(uint64_t bits) {
	double d;
	__builtin_memcpy(&d, &bits, 8);
	return d;
}

static float f32(uint32_t bits) {
	float f;
	__builtin_memcpy(&f, &bits, 4);
	return f;
}

static uint64_t bits64(double d) {
	uint64_t b;
	__builtin_memcpy(&b, &d, 8);
	return b;
}

static uint64_t bits32(float f) {
	uint32_t b;
	__builtin_memcpy(&b, &f, 4);
	return b;
}

static int first = 1;

static void item(uint64_t v) {
	if (!first) say(",");
	first = 0;
	say_hex(v);
}

static void list(const char *name) {
	say(first ? "{\"" : "],\"");
	say(name);
	say("\":[");
	first = 1;
}

// Two numbers that the compiler does not know, and no numbers of several kinds.
static volatile uint64_t some64[] = {
	0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbfb999999999999a, 0x7ff0000000000000, 0xfff0000000000000,
	0x7ff8000000000000, 0xfff8000000000000, 0x7ff8000000000123, 0xfffc0000deadbeef, 0x0000000000000001, 0x7fefffffffffffff, 0x43e0000000000000,
};
static volatile uint32_t some32[] = {
	0x00000000, 0x80000000, 0x3f800000, 0xbdcccccd, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fc00123, 0xffe0beef, 0x00000001, 0x7f7fffff, 0x5f000000,
};
#define COUNT 13

static uint64_t mix(uint64_t h, uint64_t v) {
	h ^= v;
	h *= 0x9e3779b97f4a7c15;
	return h << 23 | h >> 41;
}

static uint64_t half(uint64_t v) { return v / 2; }
static uint64_t twice(uint64_t v) { return v * 2; }
static uint64_t odd(uint64_t v) { return v & 1; }
static uint64_t (*volatile table[])(uint64_t) = {half, twice, odd};

static int branch(int n) {
	switch (n) {
	case 0: return 7;
	case 1: return 11;
	case 2: return branch(1) * 2;
	case 5: return 13;
	case 6: return branch(5) - 1;
	default: return -1;
	}
}

void _start(void) {
	list("unary64");
	for (int i = 0; i < COUNT; i++) {
		double a = f64(some64[i]);
		uint64_t h = 0;
		h = mix(h, bits64(__builtin_sqrt(a)));
		h = mix(h, bits64(__builtin_ceil(a)));
		h = mix(h, bits64(__builtin_floor(a)));
		h = mix(h, bits64(__builtin_trunc(a)));
		h = mix(h, bits64(__builtin_nearbyint(a)));
		h = mix(h, bits64(__builtin_fabs(a)));
		h = mix(h, bits64(-a));
		h = mix(h, bits32((float)a));
		item(h);
	}
	list("unary32");
	for (int i = 0; i < COUNT; i++) {
		float a = f32(some32[i]);
		uint64_t h = 0;
		h = mix(h, bits32(__builtin_sqrtf(a)));
		h = mix(h, bits32(__builtin_ceilf(a)));
		h = mix(h, bits32(__builtin_floorf(a)));
		h = mix(h, bits32(__builtin_truncf(a)));
		h = mix(h, bits32(__builtin_nearbyintf(a)));
		h = mix(h, bits32(__builtin_fabsf(a)));
		h = mix(h, bits32(-a));
		h = mix(h, bits64((double)a));
		item(h);
	}
	list("binary64");
	for (int i = 0; i < COUNT; i++) {
		uint64_t h = 0;
		for (int j = 0; j < COUNT; j++) {
			double a = f64(some64[i]), b = f64(some64[j]);
			h = mix(h, bits64(a + b));
			h = mix(h, bits64(a - b));
			h = mix(h, bits64(a * b));
			h = mix(h, bits64(a / b));
			h = mix(h, bits64(__builtin_wasm_min_f64(a, b)));
			h = mix(h, bits64(__builtin_wasm_max_f64(a, b)));
			h = mix(h, bits64(__builtin_copysign(a, b)));
			h = mix(h, (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3);
		}
		item(h);
	}
	list("binary32");
	for (int i = 0; i < COUNT; i++) {
		uint64_t h = 0;
		for (int j = 0; j < COUNT; j++) {
			float a = f32(some32[i]), b = f32(some32[j]);
			h = mix(h, bits32(a + b));
			h = mix(h, bits32(a - b));
			h = mix(h, bits32(a * b));
			h = mix(h, bits32(a / b));
			h = mix(h, bits32(__builtin_wasm_min_f32(a, b)));
			h = mix(h, bits32(__builtin_wasm_max_f32(a, b)));
			h = mix(h, bits32(__builtin_copysignf(a, b)));
			h = mix(h, (a > b) | (a >= b) << 1 | (a == b) << 2 | (a != b) << 3);
		}
		item(h);
	}
	list("nan");
	item(bits64(f64(some64[0]) / f64(some64[1])));
	item(bits64(f64(some64[9]) + f64(some64[8])));
	item(bits32(f32(some32[4]) - f32(some32[4])));
	item(bits32((float)f64(some64[9])));
	list("saturated");
	for (int i = 0; i < COUNT; i++) {
		double a = f64(some64[i]);
		float b = f32(some32[i]);
		uint64_t h = 0;
		h = mix(h, (uint32_t)__builtin_wasm_trunc_saturate_s_i32_f64(a));
		h = mix(h, (uint32_t)__builtin_wasm_trunc_saturate_u_i32_f64(a));
		h = mix(h, (uint64_t)__builtin_wasm_trunc_saturate_s_i64_f64(a));
		h = mix(h, (uint64_t)__builtin_wasm_trunc_saturate_u_i64_f64(a));
		h = mix(h, (uint32_t)__builtin_wasm_trunc_saturate_s_i32_f32(b));
		h = mix(h, (uint32_t)__builtin_wasm_trunc_saturate_u_i32_f32(b));
		h = mix(h, (uint64_t)__builtin_wasm_trunc_saturate_s_i64_f32(b));
		h = mix(h, (uint64_t)__builtin_wasm_trunc_saturate_u_i64_f32(b));
		item(h);
	}
	list("integers");
	for (int i = 0; i < COUNT; i++) {
		uint64_t a = some64[i], b = some64[(i + 5) % COUNT] | 1, h = 0;
		int64_t s = (int64_t)a >> 1;
		uint32_t c = some32[i], d = some32[(i + 5) % COUNT] | 1;
		h = mix(h, a / b + a % b);
		h = mix(h, (uint64_t)(s / (int64_t)b + s % (int64_t)b));
		h = mix(h, c / d + c % d);
		h = mix(h, (uint64_t)((int32_t)(c >> 1) / (int32_t)d));
		h = mix(h, (uint64_t)((int64_t)a >> (b & 63)) + (a << (d & 63)) + (a >> (d & 63)));
		h = mix(h, a ? (uint64_t)__builtin_clzll(a) * 1000 + (uint64_t)__builtin_ctzll(a) : 64);
		h = mix(h, (uint64_t)__builtin_popcountll(a) + (uint64_t)__builtin_popcount(c));
		h = mix(h, (uint64_t)(int64_t)(int8_t)a + (uint64_t)(int64_t)(int16_t)a + (uint64_t)(int64_t)(int32_t)a);
		h = mix(h, bits64((double)a) + bits64((double)s) + bits32((float)a) + bits32((float)(int32_t)c));
		h = mix(h, c << (d & 31) | c >> (-d & 31));
		item(h);
	}
	list("control");
	for (int i = 0; i < 3; i++) item(table[i](some64[3]));
	for (int i = 0; i < 9; i++) item((uint64_t)branch(i));
	list("memory");
	char *at = &__heap_base;
	__builtin_memset(at, 0xa5, 1000);
	__builtin_memcpy(at + 300, (const void *)some64, sizeof some64);
	__builtin_memmove(at + 310, at + 290, 500);
	uint64_t h = 0;
	for (int i = 0; i < 1000; i++) h = mix(h, (uint8_t)at[i]);
	item(h);
	item(__builtin_wasm_memory_size(0));
	item(__builtin_wasm_memory_grow(0, 3));
	item(__builtin_wasm_memory_grow(0, 1 << 15));
	item(__builtin_wasm_memory_size(0));
	say("]}");
}
