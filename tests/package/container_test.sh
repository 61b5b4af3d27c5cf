#!/usr/bin/env bash
# container_test.sh SOURCES: builds the image of Containerfile and runs it. Without an engine that works, only what can be
# seen without one is checked. 77: skipped.
set -euo pipefail
cd "$1"
fail() { echo "failed: $*"; exit 1; }

# The commands of RUN lines are commands, the packages exist, and the folders that are copied are there.
sed -n 's/^RUN //p' Containerfile | bash -n || fail "a RUN line is no command"
if command -v apt-cache >/dev/null && apt-cache show git >/dev/null 2>&1; then
  for package in $(grep -o 'no-install-recommends [a-z0-9 -]*' Containerfile | cut -d' ' -f2-); do
    case $package in -*) ;; *) apt-cache show "$package" >/dev/null 2>&1 || fail "no package $package" ;; esac
  done
fi
for engine in podman docker; do
  if command -v "$engine" >/dev/null && "$engine" info >/dev/null 2>&1; then
    "$engine" build -f Containerfile -t tessera-test .
    "$engine" run --rm tessera-test bench zoo:mlp --samples 3 --time-limit 0.5 | grep -q verified || fail "the image does not run"
    exit 0
  fi
done
echo "skipped: neither podman nor docker can build an image here; RUN lines and packages were checked"
exit 77
