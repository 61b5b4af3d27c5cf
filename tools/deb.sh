#!/usr/bin/env bash
# ./do deb [--arch x86_64|aarch64]: build/tessera_VERSION_ARCH.deb with what ./do package packs. Its own libraries lie in
# /usr/lib/tessera, where no other program finds them; it depends on glibc alone and recommends a C compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf './do deb: %s\n' "$*" >&2; exit 1; }

command -v dpkg-deb >/dev/null || fail "dpkg-deb is not installed (package dpkg)"
arch=$(uname -m)
if [ "${1-}" = --arch ]; then arch=${2-}; elif [ $# -gt 0 ]; then fail "usage: ./do deb [--arch x86_64|aarch64]"; fi
case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) fail "no architecture '$arch'" ;; esac

stage=$(tools/package.sh --stage --arch "$arch")
version=${stage##*/tessera-}
version=${version%%-*}
work=build/deb-$arch root=build/deb-$arch/root
rm -rf "$work"
# The run paths of the programs are $ORIGIN/../lib: the tree stays together below /usr/lib/tessera, with links to it.
mkdir -p "$root/usr/lib/tessera" "$root/usr/bin" "$root/usr/share" "$root/DEBIAN"
cp -a "$stage/bin" "$stage/lib" "$stage/include" "$root/usr/lib/tessera/"
mkdir "$root/usr/lib/tessera/share"
cp -a "$stage/share/tessera" "$root/usr/lib/tessera/share/"
for program in "$stage"/bin/*; do ln -s "../lib/tessera/bin/${program##*/}" "$root/usr/bin/${program##*/}"; done
mkdir -p "$root/usr/include" "$root/usr/lib/cmake/Tessera"
ln -s ../lib/tessera/include/tessera "$root/usr/include/tessera"
# CMake looks for the files of a package from where it found it: links would lead it astray.
cp "$stage/lib/cmake/Tessera/TesseraConfigVersion.cmake" "$root/usr/lib/cmake/Tessera/"
echo 'include("${CMAKE_CURRENT_LIST_DIR}/../../tessera/lib/cmake/Tessera/TesseraConfig.cmake")' \
  >"$root/usr/lib/cmake/Tessera/TesseraConfig.cmake"
cp -a "$stage/share/man" "$stage/share/bash-completion" "$stage/share/fish" "$stage/share/doc" "$root/usr/share/"
# Debian's zsh reads those of vendors.
mkdir -p "$root/usr/share/zsh"
cp -a "$stage/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
gzip -9n "$root"/usr/share/man/man1/*.1
{ printf 'Tessera\n\n'; cat LICENSE; printf '\nThe libraries beside it: see licences/.\n'; } >"$root/usr/share/doc/tessera/copyright"
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/tessera/changelog.gz"

# The newest symbols of glibc that a file of the package asks for.
glibc=$(find "$root/usr/lib/tessera" -type f \( -perm -1 -o -name '*.so*' \) -exec readelf -V {} + 2>/dev/null |
  grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1 | sed 's/GLIBC_//')
cat >"$root/DEBIAN/control" <<CONTROL
Package: tessera
Version: $version
Architecture: $debian
Maintainer: ${DEBFULLNAME:-Tessera maintainers} <${DEBEMAIL:-maintainers@tessera.example}>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: libc6 (>= ${glibc:?no file of the package needs glibc})
Recommends: gcc | c-compiler
Section: devel
Priority: optional
Description: learned tensor compiler
 Compiles ONNX models to machine code for processors and GPUs, tunes them by
 measuring and by learned cost models, and writes them as libraries with a C
 header. Holds the program, the C and C++ interface, trained cost models,
 manual pages and completions.
CONTROL
say "packing"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) dpkg-deb --root-owner-group -Zxz -z9 --build "$root" "build/tessera_${version}_$debian.deb" >&2
du -h --apparent-size "build/tessera_${version}_$debian.deb"
