#!/usr/bin/env bash
# An example of one language, by the commands that its first lines show: languages.sh TESSERA rust|go|java|csharp
# 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tessera=$(realpath "$1") language=$2 source=$PWD
export TESSERA_CACHE=off

need() { command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; exit 77; }; }
case $language in
  rust) need rustc; file=rust/digits.rs ;;
  go) need go; need cc; export GOCACHE GOFLAGS=-mod=mod GO111MODULE=off; file=go/digits.go ;;
  java)
    need javac; need cc; file=java/Digits.java
    JAVA_HOME=${JAVA_HOME:-$(dirname "$(dirname "$(realpath "$(command -v javac)")")")}
    export JAVA_HOME
    [ -f "$JAVA_HOME/include/jni.h" ] || { echo "skipped: no $JAVA_HOME/include/jni.h"; exit 77; }
    ;;
  csharp) need mcs; need mono; file=csharp/Digits.cs ;;
  *) echo "languages.sh: no language $language" >&2; exit 2 ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-languages.XXXXXX")
trap 'rm -rf "$work"' EXIT
GOCACHE=$work/go-cache
ln -s "$source/examples" "$work/examples"
mkdir "$work/bin"
ln -s "$tessera" "$work/bin/tessera"
PATH=$work/bin:$PATH
cd "$work"

# The indented commands of the first comment; remarks in brackets are not part of them.
sed -n '1,24p' "examples/$file" |
  sed -nE 's,^(//!|//| \*)[[:space:]]+((tessera|rustc|CGO_|javac|cc|-Wl|java|mcs|LD_|\./).*)$,\2,p' |
  sed -E 's/ {2,}\(.*\)$//' >commands.sh
[ "$(wc -l <commands.sh)" -ge 3 ] || { echo "examples/$file shows no commands"; exit 1; }
# A machine without a linker has no shared libraries to call.
bash -euo pipefail commands.sh >out.txt 2>err.txt || { cat commands.sh out.txt err.txt >&2; exit 1; }
tail -n 1 out.txt
[[ $(tail -n 1 out.txt) =~ ^7\ with\ probability\ (1\.000|0\.99[0-9])$ ]]

# What is no picture is refused with a reason, not read.
last=$(tail -n 1 commands.sh)
printf 'short' >short.npy
code=0
bash -c "${last% *} short.npy" >out.txt 2>err.txt || code=$?
[ "$code" -ne 0 ] || { echo "a file of five bytes was taken for a picture"; exit 1; }
