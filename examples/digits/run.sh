#!/usr/bin/env bash
# Draws a hand-written digit and names it with the model of this folder: run.sh TESSERA [PICTURE.npy]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { echo "usage: run.sh TESSERA [PICTURE.npy]" >&2; exit 2; }
tessera=$1 picture=${2:-$here/digit.npy}
[ -f "$picture" ] || { echo "run.sh: no picture $picture" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-digits.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The end of the file are 64 bytes of ink, from 0 to 16.
tail -c 64 "$picture" | od -An -v -tu1 -w8 | awk '{
  line = "    "
  for (i = 1; i <= NF; ++i) { ink = substr(" .:-=+*#%@", 1 + int($i * 9 / 16), 1); line = line ink ink }
  print line
}'
"$tessera" run "$here/digits.onnx" --inputs "$picture" -o "$work/probabilities.npy" >"$work/said.txt" ||
  { cat "$work/said.txt" >&2; exit 1; }
tail -c 40 "$work/probabilities.npy" | od -An -v -tf4 -w4 | awk '
  NR == 1 || $1 > most { most = $1; best = NR - 1 }
  END { printf "%d with probability %.3f\n", best, most }'
