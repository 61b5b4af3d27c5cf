#!/usr/bin/env bash
# The hand-written digits of the demo: the drawing, the answer, and the pictures that were held out: digits.sh TESSERA
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../examples/digits"
tessera=$1
export TESSERA_CACHE=off
fail() { echo "digits.sh: $*" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-digits.XXXXXX")
trap 'rm -rf "$work"' EXIT

./run.sh "$tessera" >"$work/out.txt"
[ "$(wc -l <"$work/out.txt")" -eq 9 ] || fail "a drawing has eight lines, and one is the answer"
[ "$(head -n 8 "$work/out.txt" | tr -d ' \n' | wc -c)" -gt 20 ] || fail "nothing is drawn"
grep -qE '^7 with probability (1\.000|0\.99[0-9])$' "$work/out.txt" || fail "$(tail -n 1 "$work/out.txt")"
if ./run.sh "$tessera" "$work/absent.npy" 2>"$work/err.txt"; then fail "a picture that is absent was drawn"; fi
grep -q "no picture $work/absent.npy" "$work/err.txt" || fail "$(cat "$work/err.txt")"
[ "$(stat -c %s digits.onnx)" -lt 60000 ] || fail "the model has $(stat -c %s digits.onnx) bytes"

# held_out.npz also has the answers, which are no input: --inputs takes what the model knows.
command -v unzip >/dev/null || { echo "skipped: unzip is not installed"; exit 77; }
unzip -q held_out.npz -d "$work"
count=$(($(stat -c %s "$work/answer.npy") - 128))
"$tessera" run digits.onnx --batch "$count" --inputs "$work/picture.npy" -o "$work/found.npy" >/dev/null
tail -c $((40 * count)) "$work/found.npy" | od -An -v -tf4 -w40 | awk '
  { best = 1; for (i = 2; i <= 10; ++i) if ($i + 0 > $best + 0) best = i; print best - 1 }' >"$work/found.txt"
tail -c "$count" "$work/answer.npy" | od -An -v -tu1 -w1 | tr -d ' ' >"$work/answers.txt"
right=$(paste "$work/found.txt" "$work/answers.txt" | awk '$1 == $2 { ++n } END { print n + 0 }')
echo "$right of $count held-out digits are named right"
[ "$count" -gt 300 ] && [ $((100 * right)) -ge $((95 * count)) ]
