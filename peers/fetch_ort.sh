#!/bin/sh
# Puts libonnxruntime.so.1 for this machine's architecture into DIR, from the npm package onnxruntime-node.
# Usage: peers/fetch_ort.sh DIR
set -eu

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
if [ -f "$dir/libonnxruntime.so.1" ]; then
  exit 0
fi
case $(uname -m) in
  aarch64) arch=arm64 ;;
  x86_64) arch=x64 ;;
  *) echo "$0: onnxruntime-node has no library for $(uname -m)" >&2; exit 1 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && npm pack --silent --ignore-scripts "onnxruntime-node@${ORT_VERSION:-latest}" >/dev/null)
tar -xzf "$scratch"/onnxruntime-node-*.tgz -C "$scratch" --wildcards "package/bin/napi-v*/linux/$arch/libonnxruntime.so.1"
# Moved last and within one file system, so that an interrupted run leaves no partial library.
cp "$scratch"/package/bin/napi-v*/linux/"$arch"/libonnxruntime.so.1 "$dir/.libonnxruntime.so.1"
mv "$dir/.libonnxruntime.so.1" "$dir/libonnxruntime.so.1"
