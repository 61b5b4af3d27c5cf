#!/usr/bin/env bash
# deb_test.sh FOLDER VERSION: what `./do deb` made for this machine: its control file and, in a clean root where one can
# be made, an installation that compiles a model. 77: skipped.
set -euo pipefail
arch=$(dpkg --print-architecture 2>/dev/null) || { echo "skipped: no dpkg"; exit 77; }
package=$1/tessera_$2_$arch.deb
root_tool=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/clean_root.sh

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "failed: $*"; exit 1; }

[ -f "$package" ] || skip "no $package (./do deb)"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/tessera-deb.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
dpkg-deb --info "$package" >"$work/info"
grep -q "^ Depends: libc6 (>= 2\.[0-9]*)$" "$work/info" || { cat "$work/info"; fail "it depends on more than glibc"; }
dpkg-deb -x "$package" "$work/tree"
for file in bin/tessera include/tessera/tessera.hpp lib/cmake/Tessera/TesseraConfig.cmake share/man/man1/tessera.1.gz \
  share/bash-completion/completions/tessera share/zsh/vendor-completions/_tessera \
  share/fish/vendor_completions.d/tessera.fish share/doc/tessera/copyright share/doc/tessera/changelog.gz; do
  [ -e "$work/tree/usr/$file" ] || fail "no /usr/$file"
done
"$work/tree/usr/bin/tessera" bench zoo:mlp --samples 3 --time-limit 0.5 | grep -q verified || fail "it does not run unpacked"

reason=$("$root_tool" possible) || { echo "no clean root: $reason; not installed"; exit 0; }
"$root_tool" make "$work/clean" gcc libc6-dev
cp "$package" "$work/clean/tmp/"
"$root_tool" run "$work/clean" dpkg -i "/tmp/${package##*/}"
"$root_tool" run "$work/clean" tessera compile zoo:mlp -o /tmp/out
[ -f "$work/clean/tmp/out/libmlp.so" ] || fail "no artifact was written"
"$root_tool" run "$work/clean" dpkg -r tessera
[ ! -e "$work/clean/usr/lib/tessera" ] || fail "removing it leaves /usr/lib/tessera"
