#!/bin/sh
# Puts libonnxruntime.so.1 for this machine's architecture into DIR, from the first source of ort.txt that answers.
# Usage: peers/fetch_ort.sh DIR
set -eu

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
table=$(cd "$(dirname "$0")" && pwd)/ort.txt
python=${TESSERA_PEERS_PYTHON:-python3}
arch=$(uname -m)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
# What an earlier run left, if the table still has it.
if [ -f "$dir/libonnxruntime.so.1" ] && [ -f "$dir/source.txt" ] && grep -qF " $(cat "$dir/source.txt") " "$table"; then
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# FILE of the Python registry into the scratch folder. A wheel's name says which interpreter and platform it is for; they
# need not be those of the pip at hand.
from_pypi() {
  "$python" -m pip --version >/dev/null 2>&1 || { echo "no pip" && return 1; }
  name=${1%.whl} && platform=${name##*-} && name=${name%-*} && abi=${name##*-} && name=${name%-*} && tag=${name##*-}
  name=${name%-*}
  "$python" -m pip download -q -q --no-deps --only-binary=:all: --implementation cp --python-version "${tag#cp}" \
    --abi "$abi" --platform "$platform" -d "$scratch" "${name%-*}==${name##*-}" 2>&1
}

from_npm() {
  command -v npm >/dev/null || { echo "no npm" && return 1; }
  name=${1%.tgz}
  (cd "$scratch" && npm pack --silent --ignore-scripts "${name%-*}@${name##*-}") 2>&1
}

# Writes MEMBER of the archive FILE to standard output.
extract() {
  case $1 in
    *.whl) "$python" -c 'import sys, zipfile
sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$1" "$2" ;;
    *) tar -xzOf "$1" "$2" ;;
  esac
}

reasons=
while read -r source for_arch sum file member; do
  case $source in '' | '#'*) continue ;; esac
  [ "$for_arch" = "$arch" ] || continue
  reasons="$reasons
  $source: "
  if ! said=$("from_$source" "$file"); then
    reasons="$reasons${said:-no answer}"
  elif [ ! -f "$scratch/$file" ]; then
    reasons="${reasons}it has no $file"
  elif ! echo "$sum  $scratch/$file" | sha256sum --check --status; then
    reasons="$reasons$file has the checksum $(sha256sum "$scratch/$file" | cut -d ' ' -f 1), not $sum"
  else
    extract "$scratch/$file" "$member" >"$dir/.libonnxruntime.so.1"
    # Moved last and within one file system, so that an interrupted run leaves no partial library.
    mv "$dir/.libonnxruntime.so.1" "$dir/libonnxruntime.so.1"
    echo "$file" >"$dir/source.txt"
    exit 0
  fi
done <"$table"
echo "$0: no ONNX Runtime for $arch:${reasons:- $table lists none}" >&2
exit 1
