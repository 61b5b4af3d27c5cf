#!/usr/bin/env bash
# The Python package from the sources, with libtessera.so of a build, and where torch.compile finds it:
# python_package.sh BUILD FOLDER. PYTHONPATH=FOLDER TESSERA_PROGRAM=BUILD/bin/tessera python3 uses it. 77: no Python.h.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1") folder=$2 python=${PYTHON:-python3}
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
[ -f "$include/Python.h" ] || { echo "skipped: no $include/Python.h (package python3-dev)"; exit 77; }
rm -rf "$folder/tessera"
mkdir -p "$folder/tessera_compiler-0.dist-info"
cp -r python/tessera "$folder/tessera"
printf 'Metadata-Version: 2.1\nName: tessera-compiler\nVersion: 0\n' >"$folder/tessera_compiler-0.dist-info/METADATA"
cp python/entry_points.txt "$folder/tessera_compiler-0.dist-info/"
${CC:-cc} -O2 -Wall -Wextra -Werror -shared -fPIC -I"$include" -Itessera/app/capi/include -I. python/native*.c \
  "$build/lib/libtessera.so" -Wl,-rpath,"$build/lib" -o "$folder/tessera/_native.abi3.so"
