#!/usr/bin/env bash
# ./do wheel [--arch x86_64|aarch64]: build/wheel/tessera_compiler-VERSION-cp311-abi3-manylinux_*.whl, the Python package with
# everything it needs but glibc and NumPy; then its tests in a virtual environment of their own, where the machine can
# run them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf './do wheel: %s\n' "$*" >&2; exit 1; }

host=$(uname -m)
arch=$host
if [ "${1-}" = --arch ]; then arch=${2-}; elif [ $# -gt 0 ]; then fail "usage: ./do wheel [--arch x86_64|aarch64]"; fi
python=${PYTHON:-python3}
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])') || fail "python3 is not installed"
[ -f "$include/Python.h" ] || fail "no $include/Python.h (package python3-dev)"

stage=$(tools/package.sh --stage --arch "$arch")
work=build/wheel/$arch
rm -rf "$work"
mkdir -p "$work/tessera/lib" "$work/tessera/bin" "$work/tessera/share/tessera/weights"
cp -r python/tessera/. "$work/tessera/"
find "$work/tessera" -name __pycache__ -prune -exec rm -rf {} +
# A wheel has no links: one copy of each library, by the name it is loaded by.
for library in "$stage"/lib/*.so*; do
  case ${library##*/} in
    libtessera.so | libtessera.so.*.*) ;;
    *) cp -L "$library" "$work/tessera/lib/" ;;
  esac
done
cp "$stage/bin/tessera" "$work/tessera/bin/"
cp weights/README.md weights/{"$arch",cpu,cuda}-*.safetensors "$work/tessera/share/tessera/weights/"
cp -r "$stage/share/doc/tessera/licences" "$work/tessera/share/"

cc=(gcc) more=()
if [ "$arch" != "$host" ]; then
  cc=("$arch-linux-gnu-gcc" --sysroot="$PWD/build/sysroot-$arch")
  # Debian keeps the configuration by architecture; that of the stable ABI is the same on both.
  for config in /usr/include/"$host"-linux-gnu/python3.*/pyconfig.h; do
    if [ -f "$config" ]; then
      install -D -m 644 "$config" "build/wheel/include/$arch-linux-gnu/$(basename "$(dirname "$config")")/pyconfig.h"
    fi
  done
  more=(-Ibuild/wheel/include)
fi
say "compiling the extension"
"${cc[@]}" -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden "${more[@]}" -I"$include" -I"$stage/include" \
  python/native*.c "$stage/lib/libtessera.so" -Wl,-rpath,'$ORIGIN/lib' -Wl,-z,noexecstack -s -o "$work/tessera/_native.abi3.so"

say "packing"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "build/package${arch:+$([ "$arch" = "$host" ] || echo "-$arch")}/CMakeCache.txt")
wheel=$("$python" tools/wheel.py "$work" "$version" "$arch" build/wheel)
du -h --apparent-size "$wheel" >&2
if [ "$arch" = "$host" ]; then tests/python/run.sh --wheel "$wheel" || { code=$?; [ "$code" -eq 77 ] || exit "$code"; }; fi
echo "$wheel"
