// A transition in C: counts the bytes, words and lines of a text.
//
// It is a WASI command like any other. The input, {"text": "..."}, is on stdin, and what
// goes to stdout is the answer. It judges its arguments itself, as every transition does:
// what does not fit is refused in plain words, with exit code 0.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(void) {
	size_t room = 1 << 16, length = 0, n;
	char *text = malloc(room);
	while (text && (n = fread(text + length, 1, room - length - 1, stdin)) > 0) {
		length += n;
		if (room - length < 2) text = realloc(text, room *= 2);
	}
	if (!text) {
		fputs("out of memory\n", stderr); // told to the operator
		exit(1);                          // a failed run
	}
	text[length] = 0;
	return text;
}

static void refuse(const char *why) {
	printf("{\"ok\":false,\"refused\":\"%s\"}", why);
	exit(0);
}

static const char *blank(const char *at) {
	while (isspace((unsigned char)*at)) at++;
	return at;
}

// letter reads one character of a JSON string, and gives what stands behind it. The input
// is JSON that the daemon has checked.
static const char *letter(const char *at, int *is_space, int *is_line, int *bytes) {
	unsigned c = (unsigned char)*at++;
	*bytes = 1;
	if (c == '\\') {
		c = (unsigned char)*at++;
		if (c == 'u') {
			char hex[5] = {at[0], at[1], at[2], at[3], 0};
			c = (unsigned)strtoul(hex, NULL, 16);
			at += 4;
			// Half of a pair counts two of its four bytes.
			*bytes = c < 0x80 ? 1 : c < 0x800 || (c >= 0xd800 && c < 0xe000) ? 2 : 3;
		} else if (c == 'n') c = '\n';
		else if (c == 't') c = '\t';
		else if (c == 'r') c = '\r';
	}
	*is_line = c == '\n';
	*is_space = c == ' ' || (c >= '\t' && c <= '\r');
	return at;
}

int main(void) {
	const char *at = blank(read_all());
	if (*at != '{') refuse("the arguments are no object");
	at = blank(at + 1);
	if (strncmp(at, "\"text\"", 6) != 0) refuse("tally needs text, and admits only that");
	at = blank(at + 6);
	at = blank(at + 1);
	if (*at++ != '"') refuse("text must be a string");
	unsigned long bytes = 0, words = 0, lines = 0;
	int in_word = 0;
	while (*at != '"') {
		int is_space, is_line, n;
		at = letter(at, &is_space, &is_line, &n);
		bytes += (unsigned long)n;
		lines += (unsigned long)is_line;
		if (!is_space && !in_word) words++;
		in_word = !is_space;
	}
	if (*blank(at + 1) != '}') refuse("tally needs text, and admits only that");
	printf("{\"ok\":true,\"bytes\":%lu,\"words\":%lu,\"lines\":%lu}", bytes, words, lines);
}
