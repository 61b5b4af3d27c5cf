#!/usr/bin/env bash
# A new user's first hour, from the package: install, own model, C, C++, Python, a cross target, signals, a full disk.
#   walk.sh                 with build/tessera-VERSION-linux-ARCH.tar.xz (./do package)
#   walk.sh --prefix DIR    with an installation that is there (`cmake --install`)
# Runs in a folder of its own; what needs a tool that is absent is left out, and a line says so.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

prefix=""
if [ "${1-}" = --prefix ] && [ $# -eq 2 ]; then
  prefix=$(realpath "$2")
elif [ $# -gt 0 ]; then
  echo "usage: walk.sh [--prefix DIR]" >&2
  exit 2
fi

step=start
say() { step=$*; printf '==> walk: %s\n' "$*" >&2; }
fail() { printf 'walk: FAILED at "%s": %s\n' "$step" "$*" >&2; exit 1; }
left_out() { printf 'walk: LEFT OUT: %s\n' "$*" >&2; }
has() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "no '$2' in $1"; }; }

work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-walk.XXXXXX")
disk=""
clean() {
  if [ -n "$disk" ]; then umount "$disk" 2>/dev/null || true; fi
  rm -rf --one-file-system "$work"
}
trap clean EXIT
cd "$work"
# Nothing of the build, and a home of its own.
export HOME=$work/home XDG_CACHE_HOME=$work/home/.cache
mkdir -p "$HOME"

if [ -z "$prefix" ]; then
  package=$(ls "$source"/build/tessera-*-linux-"$(uname -m)".tar.xz 2>/dev/null | tail -n 1) ||
    { echo "walk: no package: ./do package" >&2; exit 1; }
  say "unpacking ${package##*/}"
  tar -xJf "$package"
  prefix=$work/$(basename "$package" .tar.xz)
fi
export PATH=$prefix/bin:$PATH

say "what is installed"
tessera --version >out.txt
has out.txt "tessera "
for file in bin/tessera-runner include/tessera/tessera.h include/tessera/tessera.hpp lib/libtessera.so \
  lib/cmake/Tessera/TesseraConfig.cmake share/man/man1/tessera-tune.1 share/bash-completion/completions/tessera \
  share/zsh/site-functions/_tessera share/fish/vendor_completions.d/tessera.fish share/tessera/weights/README.md \
  share/doc/tessera/CHANGELOG.md share/doc/tessera/LICENSE; do
  [ -e "$prefix/$file" ] || [ -e "$prefix/lib/$(uname -m)-linux-gnu/${file#lib/}" ] || fail "no $file"
done
bash -c "source '$prefix/share/bash-completion/completions/tessera' && complete -p tessera" >out.txt
if command -v man >/dev/null; then
  MANPATH=$prefix/share/man man tessera-tune 2>/dev/null | cat >out.txt
  has out.txt "budget"
else
  left_out "the manual: man is not installed"
fi

say "own model"
tessera zoo --export mlp --output own.onnx
tessera check own.onnx >out.txt
tessera bench own.onnx --threads 1 --samples 3 --time-limit 0.5 >out.txt
has out.txt verified
tessera compile own.onnx --threads 1 --cost-model shipped -o art >out.txt 2>err.txt
if grep -q "no trained weights" err.txt; then fail "the installed weights were not found"; fi

say "a copied program says that it has no weights"
mkdir copied
cp "$prefix/bin/tessera" copied/
if [ ! -e /usr/share/tessera ] && [ ! -e /usr/local/share/tessera ]; then
  LD_LIBRARY_PATH=$prefix/lib copied/tessera compile own.onnx --threads 1 --cost-model shipped -o art2 >out.txt 2>err.txt
  has err.txt "no trained weights"
fi
TESSERA_SHARE=$prefix/share/tessera LD_LIBRARY_PATH=$prefix/lib copied/tessera compile own.onnx --threads 1 --cost-model shipped -o art3 >out.txt 2>err.txt
if grep -q "no trained weights" err.txt; then fail "TESSERA_SHARE was not looked at"; fi

say "C, by the commands that the examples print"
cp "$source"/examples/c/*.c .
# The command in the comment of a source, with its names filled in.
printed() { sed -n '/^ \* cc /,/\*\//p' "$1" | sed 's|^ \* *||; s| *\*/$||; s|\\$||' | tr '\n' ' '; }
command=$(printed run_model.c)
bash -ec "${command//PREFIX/$prefix}"
./run_model own.onnx --threads 1 >out.txt
has out.txt "output f32 [1,10]"
command=$(printed run_artifact.c | sed "s|mlp|own|g")
bash -ec "${command//DIR/art}"
head -c 3136 /dev/zero >input.bin
./run_artifact --threads 1 input.bin output.bin >out.txt
has out.txt "f32, 40 bytes"

say "C++, by CMake"
if command -v cmake >/dev/null; then
  tessera compile zoo:mlp -o mlp >/dev/null 2>&1
  cmake -S "$source/examples/cpp" -B cpp -DCMAKE_PREFIX_PATH="$prefix" -Dmlp_DIR="$work/mlp" >cmake.txt 2>&1 ||
    { cat cmake.txt >&2; fail "cmake"; }
  cmake --build cpp >cmake.txt 2>&1 || { cat cmake.txt >&2; fail "cmake --build"; }
  cpp/run_model own.onnx >out.txt
  has out.txt "input input: f32 1 784"
  cpp/run_mlp >out.txt
  has out.txt "10 outputs"
  cpp/serve own.onnx 2 50 >out.txt
  has out.txt "50 requests, 2 sessions"
else
  left_out "C++: cmake is not installed"
fi

say "Python"
wheel=$(ls "$source"/build/wheel/*"$(uname -m)".whl 2>/dev/null | tail -n 1 || true)
if [ -z "$wheel" ]; then
  left_out "Python: no wheel (./do wheel)"
elif ! python3 -m venv --system-site-packages venv >/dev/null 2>&1 ||
  ! { venv/bin/python -c 'import numpy' 2>/dev/null || venv/bin/pip install -q numpy >pip.txt 2>&1; } ||
  ! venv/bin/pip install -q --no-deps "$wheel" >pip.txt 2>&1; then
  left_out "Python: no virtual environment with NumPy"
else
  venv/bin/python - <<'PYTHON' >out.txt
import numpy as np, tessera
model = tessera.compile("own.onnx", threads=1)
x = np.ones((1, 784), np.float32)
assert np.allclose(model(x), tessera.load("art")(x), rtol=1e-4)
assert np.allclose(model(x), tessera.InferenceSession("own.onnx").run(None, {"input": x})[0], rtol=1e-4)
print("python agrees")
PYTHON
  has out.txt "python agrees"
  venv/bin/tessera --version >out.txt
fi

say "another machine"
code=0
other=aarch64; target=neoverse-n1
if [ "$(uname -m)" = aarch64 ]; then other=x86_64 target=x86-64-v3; fi
tessera compile own.onnx -o cross --target "$target" >out.txt 2>err.txt || code=$?
if [ "$code" -eq 0 ]; then
  file_kind=$(od -An -tx1 -j18 -N2 cross/libown.so | tr -d ' ')
  [ "$file_kind" = "$([ $other = aarch64 ] && echo b700 || echo 3e00)" ] || fail "libown.so is not for $other"
elif command -v "$other-linux-gnu-gcc" >/dev/null; then
  # A compiler is all that it takes: no C library of the other machine.
  cat err.txt >&2
  fail "$other-linux-gnu-gcc is here, and libown.so was not linked"
else
  has err.txt "gcc-${other/_/-}-linux-gnu"
  left_out "linking libown.so for $other: no $other-linux-gnu-gcc"
fi

# Objects need nothing of the other architecture, nor a compiler.
PATH=$prefix/bin tessera compile own.onnx -o cross-object --target "$target" --emit obj >out.txt 2>err.txt ||
  { cat err.txt; fail "no object for $other without a compiler"; }
file_kind=$(od -An -tx1 -j18 -N2 cross-object/own.o | tr -d ' ')
[ "$file_kind" = "$([ $other = aarch64 ] && echo b700 || echo 3e00)" ] || fail "own.o is not for $other"

say "wrong words"
if tessera bench own.onnx --treads 1 >out.txt 2>err.txt; then fail "a flag that does not exist was taken"; fi
has err.txt "--threads"
if tessera benhc own.onnx >out.txt 2>err.txt; then fail "a command that does not exist was taken"; fi
has err.txt "bench"

# tune_until "SIGNAL..." EXIT: tunes the model, sends the signals once schedules were measured, expects the exit and a plan.
tune_until() {
  local code=0 signal tuner
  rm -f tuned.plan
  : >err.txt
  tessera tune own.onnx --budget 90s --threads 1 --peers none --db tune.db --plan tuned.plan >out.txt 2>err.txt &
  tuner=$!
  for _ in $(seq 600); do
    if tr '\r' '\n' <err.txt 2>/dev/null | grep -q '; [1-9][0-9]* trials'; then break; fi
    sleep 0.1
  done
  sleep 0.5
  for signal in $1; do
    kill "-$signal" "$tuner" 2>/dev/null || true
    sleep 0.1
  done
  wait "$tuner" || code=$?
  [ "$code" -eq "$2" ] || { cat err.txt >&2; fail "$1: exit $code, not $2"; }
  [ -s tuned.plan ] || { cat out.txt err.txt >&2; fail "$1: no plan"; }
}
say "signals end tuning with the best so far"
tune_until INT 130
tune_until "INT INT" 130
tune_until TERM 143
tune_until HUP 129
tessera compile own.onnx -o tuned --plan tuned.plan >out.txt 2>err.txt
tessera db list --db tune.db >out.txt
if grep -q running out.txt; then cat out.txt >&2; fail "a session that has ended counts as running"; fi
tessera report tune.db -o report.html --no-roofline >out.txt
has report.html "</html>"

say "a full disk"
if [ "$(id -u)" -eq 0 ] && mkdir full && mount -t tmpfs -o size=64k none full 2>/dev/null; then
  disk=$work/full
  code=0
  tessera compile own.onnx -o full/art >out.txt 2>err.txt || code=$?
  [ "$code" -ne 0 ] || fail "a full disk looked like success"
  has err.txt "tessera: "
  [ ! -e full/art ] || fail "half an artifact was left"
  code=0
  tessera tune own.onnx --budget 20s --threads 1 --peers none --db full/t.db --plan full/t.plan >out.txt 2>err.txt || code=$?
  [ "$code" -ne 0 ] || fail "a full disk under the database looked like success"
  has err.txt "no space is left"
else
  left_out "a full disk: no file system can be mounted here"
fi
say "done"
