#!/bin/sh
# Builds the modules of these tests, and those of the golden vectors, from their sources.
# They are kept beside them, so that tests need no compiler: run this after a change, and
# look at what `git diff` shows. The same compilers give the same bytes.
# On Debian 12: apt-get install clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32 wabt
set -eu
cd "$(dirname "$0")"
flags="--target=wasm32-wasi -Os -Wall -Wextra -Wno-unused-function -Werror -Wl,--strip-all"

# place tells where a module belongs: beside the golden vectors if they run it.
place() {
	case $1 in
	echo | numbers | surroundings | exits | fails | spin | grow | nottext) echo "../vectors/$1.wasm" ;;
	*) echo "bin/$1.wasm" ;;
	esac
}

mkdir -p bin
for file in src/*.c; do
	clang-16 $flags -nostdlib -fno-builtin -mbulk-memory -msign-ext -mnontrapping-fptoint -mmultivalue \
		-Wl,--export-memory -Wl,-z,stack-size=16384 -o "$(place "$(basename "$file" .c)")" "$file"
done
# Those that are broken on purpose would not be written otherwise.
for file in src/*.wat; do
	wat2wasm --enable-tail-call --no-check --debug-names -o "$(place "$(basename "$file" .wat)")" "$file"
done
clang-16 $flags -o tally/tally.wasm tally/tally.c
cp tally/tally.wasm ../vectors/
chmod 644 bin/*.wasm tally/*.wasm ../vectors/*.wasm
