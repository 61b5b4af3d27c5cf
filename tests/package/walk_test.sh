#!/usr/bin/env bash
# walk_test.sh SOURCES: a new user's first hour (tests/walk/walk.sh) in a clean root that has C and C++ compilers, one for
# the other architecture without its C library, CMake and Python, from the archive that `./do package` made and the wheel of `./do wheel`. 77: skipped.
set -euo pipefail
source=$(realpath "$1")
root_tool=$source/tools/clean_root.sh

skip() { echo "skipped: $*"; exit 77; }

ls "$source"/build/tessera-*-linux-"$(uname -m)".tar.xz >/dev/null 2>&1 || skip "no archive (./do package)"
reason=$("$root_tool" possible) || skip "no clean root: $reason"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/tessera-walk-root.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
other=aarch64
if [ "$(uname -m)" = aarch64 ]; then other=x86-64; fi
"$root_tool" make "$work/clean" gcc g++ libc6-dev "gcc-$other-linux-gnu" cmake make man-db python3 python3-venv python3-numpy \
  xz-utils
mkdir -p "$work/clean/mnt/sources"
"$root_tool" run "$work/clean" --bind-ro "$source:/mnt/sources" env LC_ALL=C.UTF-8 /mnt/sources/tests/walk/walk.sh
