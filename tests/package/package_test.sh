#!/usr/bin/env bash
# package_test.sh FILE ARCH: unpacks the package into a clean root and runs a network there, under qemu where ARCH is
# not this machine's. 77: skipped.
set -euo pipefail
package=$1 arch=$2
root_tool=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/clean_root.sh

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "failed: $*"; exit 1; }

[ -f "$package" ] || skip "no $package (./do package --arch $arch)"
reason=$("$root_tool" possible) || skip "no clean root: $reason"
size=$(stat -c %s "$package")
[ "$size" -lt 60000000 ] || fail "$package has $size bytes, 60 MB or more"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/tessera-package.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root emulator=()
if [ "$arch" = "$(uname -m)" ]; then
  "$root_tool" make "$root"
else
  qemu=$(command -v "qemu-$arch-static") || skip "qemu-$arch-static is not installed (package qemu-user-static)"
  "$root_tool" make-foreign "$root" "$([ "$arch" = x86_64 ] && echo amd64 || echo arm64)"
  cp "$qemu" "$root/usr/bin/qemu"
  emulator=(/usr/bin/qemu -cpu max)
fi
mkdir -p "$root/opt"  # a foreign root is not set up
tar -C "$root/opt" -xJf "$package"
folder=$(cd "$root" && echo opt/*)

echo "a network"
"$root_tool" run "$root" "${emulator[@]}" "/$folder/bin/tessera" bench zoo:mobilenet_v2 --samples 3 --time-limit 1 |
  tee "$work/out"
grep -q verified "$work/out" || fail "the network's outputs were not verified"
for file in bin/tessera-runner include/tessera/tessera.h lib/libtessera.so share/tessera/weights/README.md \
  share/tessera/data/dataset.json share/doc/tessera/LICENSE share/doc/tessera/licences \
  share/man/man1/tessera-tune.1 share/bash-completion share/fish share/zsh; do
  [ -e "$root/$folder/$file" ] || fail "no $file"
done
"$root_tool" run "$root" "${emulator[@]}" "/$folder/bin/tessera-runner" --help >/dev/null
