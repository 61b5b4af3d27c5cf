#!/usr/bin/env bash
# container_test.sh SOURCES: builds the image of Containerfile and runs it. Where no registry can be reached, buildah builds
# on base images that debootstrap made, and takes the archive of `./do package`. Without an engine that works, only what
# can be seen without one is checked. 77: skipped.
set -euo pipefail
cd "$1"
root_tool=$PWD/tools/clean_root.sh
fail() { echo "failed: $*"; exit 1; }
skip() { echo "skipped: $*; RUN lines and packages were checked"; exit 77; }
verified() { grep -q verified "$1" || { cat "$1"; fail "the image does not run"; }; }

# The commands of RUN lines are commands, the packages exist, and the folders that are copied are there.
sed -n 's/^RUN //p' Containerfile | bash -n || fail "a RUN line is no command"
if command -v apt-cache >/dev/null && apt-cache show git >/dev/null 2>&1; then
  for package in $(grep -o 'no-install-recommends [a-z0-9 -]*' Containerfile | cut -d' ' -f2-); do
    case $package in -*) ;; *) apt-cache show "$package" >/dev/null 2>&1 || fail "no package $package" ;; esac
  done
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/tessera-image.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
for engine in podman docker; do
  if command -v "$engine" >/dev/null && "$engine" info >/dev/null 2>&1 && "$engine" pull -q debian:12 >/dev/null 2>&1; then
    "$engine" build -f Containerfile -t tessera-test .
    "$engine" run --rm tessera-test bench zoo:mlp --samples 3 --time-limit 0.5 >"$work/out"
    verified "$work/out"
    exit 0
  fi
done

command -v buildah >/dev/null || skip "no engine can build an image here (podman, docker, buildah)"
reason=$("$root_tool" possible) || skip "no registry, and no clean root: $reason"
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = bookworm ] || skip "no registry, and this machine is not Debian 12"
archive=$(ls build/tessera-*-linux-"$(uname -m)".tar.xz 2>/dev/null | tail -n 1) || true
[ -n "$archive" ] || skip "no registry, and no archive (./do package)"
# Storage of its own, and no kernel features that a container around this one may lack.
engine() { STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot buildah --root "$work/storage" --runroot "$work/run" "$@"; }
engine from --name base scratch >/dev/null 2>&1 || skip "buildah cannot make an image here"
"$root_tool" make "$work/base"
engine add -q base "$work/base" / >/dev/null
rm -rf --one-file-system "$work/base"
engine commit -q base docker.io/library/debian:12 >/dev/null
engine tag docker.io/library/debian:12 docker.io/library/debian:12-slim
engine rm base >/dev/null
echo "building with $archive"
engine bud -q --pull-never --build-arg "PACKAGE=$archive" -f Containerfile -t tessera-test . >"$work/log" 2>&1 ||
  { tail -n 30 "$work/log"; fail "the image was not built"; }
engine from --name run --pull-never tessera-test >/dev/null
# As the engine would: the entry point with arguments, in its folder. It has a C compiler, too.
entry=$(engine inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' run)
[ "$entry" = tessera ] || fail "the entry point is '$entry'"
engine run run -- "$entry" bench zoo:mlp --samples 3 --time-limit 0.5 >"$work/out"
verified "$work/out"
engine run run -- "$entry" compile zoo:mlp -o out >"$work/out"
grep -q libmlp.so "$work/out" || { cat "$work/out"; fail "the image compiles no model"; }
if engine run run -- ls /src >/dev/null 2>&1; then fail "the image has the sources"; fi
echo "built and run with buildah"
