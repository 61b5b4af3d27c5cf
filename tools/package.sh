#!/usr/bin/env bash
# ./do package [--arch x86_64|aarch64]: build/tessera-VERSION-linux-ARCH.tar.xz with the programs, the C library and
# everything they need but glibc. Another architecture is built with Debian's cross compiler and its packages unpacked
# into build/sysroot-ARCH. With --stage the folder that would be packed is printed instead: build/package/stage/NAME.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf './do package: %s\n' "$*" >&2; exit 1; }

host=$(uname -m)
arch=$host
stage_only=""
while [ $# -gt 0 ]; do
  case $1 in
    --arch) arch=${2-}; shift 2 || shift ;;
    --stage) stage_only=1; shift ;;
    *) fail "usage: ./do package [--arch x86_64|aarch64]" ;;
  esac
done
case $arch in
  x86_64 | aarch64) ;;
  *) fail "no architecture '$arch': x86_64 or aarch64" ;;
esac
for tool in readelf xz cmake; do
  command -v "$tool" >/dev/null || fail "$tool is not installed (packages: binutils xz-utils cmake)"
done

cc=gcc sysroot="" arguments=() build=build/package
if [ "$arch" != "$host" ]; then
  build=build/package-$arch sysroot=$PWD/build/sysroot-$arch cc="$arch-linux-gnu-gcc --sysroot=$sysroot"
  command -v "$arch-linux-gnu-g++" >/dev/null ||
    fail "$arch-linux-gnu-g++ is not installed (package g++-${arch/_/-}-linux-gnu)"
  tools/sysroot.sh "$arch" "$sysroot"
  arguments=(--toolchain "cmake/$arch-linux.cmake" -B "$build" -DTESSERA_SYSROOT="$sysroot"
    -DLLVM_DIR="$(echo "$sysroot"/usr/lib/llvm-*/lib/cmake/llvm)")
  # Manual pages and completions are the same everywhere: a program that runs here writes them, or the new one under qemu.
  writer=""
  for program in build/package/bin/tessera build/release/bin/tessera; do
    if [ -x "$program" ]; then writer=-DTESSERA_HOST_PROGRAM=$PWD/$program; break; fi
  done
  if [ -z "$writer" ]; then
    qemu=$(command -v "qemu-$arch-static") ||
      fail "manual pages and completions need ./do build first, or qemu-$arch-static (package qemu-user-static)"
    writer="-DCMAKE_CROSSCOMPILING_EMULATOR=$qemu;-cpu;max;-L;$sysroot"
  fi
  arguments+=("$writer")
fi
say "building $build"
cmake --preset package --log-level=WARNING "${arguments[@]}" >&2
cmake --build "$build" --parallel "$(nproc)" --target tessera tessera-runner tessera_shared tessera_manual \
  tessera_peer_ort tessera_peer_cublas tessera_peer_cudnn >&2

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=tessera-$version-linux-$arch
stage=$build/stage/$name
rm -rf "$build/stage"
cmake --install "$build" --strip --prefix "$stage" >/dev/null

# The Debian package that a file came from.
owner_of() {
  if [ -n "$sysroot" ]; then
    grep -lx ".${1#"$sysroot"}" "$sysroot"/packages/*.list | head -n 1 | sed 's|.*/||; s|\.list$||'
  else
    # Either of the two names that a file has where /lib is a link to /usr/lib.
    { dpkg -S "$1" "${1#/usr}" 2>/dev/null || true; } | head -n 1 | sed 's/:.*//'
  fi
}

# add_licence PACKAGE: its copyright file, once.
add_licence() {
  local from=$sysroot/usr/share/doc/$1/copyright to=$stage/share/doc/tessera/licences/$1
  [ -f "$from" ] || fail "no licence text of package $1"
  mkdir -p "${to%/*}"
  cp -L "$from" "$to"
}

# add_libraries FILE: what FILE needs and what that needs in turn, glibc's own libraries left out.
add_libraries() {
  local library path
  for library in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux* | libtessera.so*) continue ;;
    esac
    if [ -e "$stage/lib/$library" ]; then continue; fi
    # A cross compiler prefers its own run-time libraries to those of the packages.
    path=$sysroot/usr/lib/$arch-linux-gnu/$library
    if [ -z "$sysroot" ] || [ ! -e "$path" ]; then path=$($cc -print-file-name="$library"); fi
    [ "$path" != "$library" ] || fail "$1 needs $library, which is not there"
    path=$(realpath "$path")
    install -m 644 "$path" "$stage/lib/$library"
    add_licence "$(owner_of "$path")"
    add_libraries "$path"
  done
}

say "adding libraries and licences"
for file in "$stage"/bin/* "$stage"/lib/libtessera*.so "$stage"/lib/tessera/peers/*.so; do add_libraries "$file"; done
# Those that are inside the programs.
llvm=$(sed -n 's/^LLVM_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")
add_licence "$(owner_of "$(realpath "$llvm/LLVMConfig.cmake")")"
for package in libprotobuf-dev nlohmann-json3-dev libcli11-dev; do add_licence "$package"; done
# The texts that those files name.
grep -ohE '/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?' "$stage"/share/doc/tessera/licences/* | sort -u |
  while read -r text; do
    if [ -f "$text" ]; then cp -L "$text" "$stage/share/doc/tessera/licences/"; fi
  done

if [ -n "$stage_only" ]; then
  echo "$stage"
  exit
fi
say "packing"
tar -C "$build/stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$name" |
  xz -9 >"build/$name.tar.xz.new"
mv "build/$name.tar.xz.new" "build/$name.tar.xz"
du -h --apparent-size "build/$name.tar.xz"
