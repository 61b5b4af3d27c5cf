#!/usr/bin/env bash
# A root folder with nothing but a minimal Debian or Ubuntu of this machine's release, to see what a user with a fresh
# machine sees. Needs root and debootstrap.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/clean_root.sh make FOLDER [PACKAGE...]
       tools/clean_root.sh make-foreign FOLDER ARCH
       tools/clean_root.sh run FOLDER [--bind FROM:TO]... [--bind-ro FROM:TO]... COMMAND [ARGUMENTS...]
       tools/clean_root.sh possible

  make          fill FOLDER, with PACKAGEs beside the minimal ones
  make-foreign  fill FOLDER with the minimal packages of ARCH (amd64, arm64), unpacked but not set up
  run           run COMMAND in it as root, with /proc, /sys, /dev and the FROMs mounted; the mounts go with the command
  possible      exit 0 if this machine lets us, else say why not
USAGE
}

fail() { printf 'clean_root: %s\n' "$*" >&2; exit 1; }

possible() {
  [ "$(id -u)" -eq 0 ] || { echo "not root"; return 1; }
  command -v debootstrap >/dev/null || { echo "debootstrap is not installed"; return 1; }
  exec unshare --mount --pid --fork chroot / true 2>/dev/null || { echo "mounts or chroot are not allowed here"; return 1; }
  [ -n "$(mirror)" ] || { echo "apt-get names no mirror of the release $(release)"; return 1; }
}

release() { . /etc/os-release && echo "$VERSION_CODENAME"; }

# Where this machine's own packages come from.
mirror() {
  apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$(release)" '$2 == release && $3 == "main" { print $1; exit }'
}

make_root() {
  local folder=$1 packages
  shift
  packages=$(IFS=,; echo "ca-certificates${*:+,$*}")
  debootstrap --variant=minbase --include="$packages" "$(release)" "$folder" "$(mirror)" >"$folder.log" 2>&1 ||
    { tail -n 20 "$folder.log" >&2; fail "debootstrap failed"; }
  rm -f "$folder.log"
  # A folder made by mktemp is closed to others; the root of a system is not.
  chmod 755 "$folder"
  # The same sources as here, through the same proxy; the keys came with the root.
  rm -f "$folder/etc/apt/sources.list"
  cp -a /etc/apt/sources.list* "$folder/etc/apt/"
  apt-config dump | grep -E '^Acquire::(https?|ftp)::Proxy ' >"$folder/etc/apt/apt.conf.d/01proxy" || true
  local file
  for file in resolv.conf hosts; do
    if [ -f "/etc/$file" ]; then cat "/etc/$file" >"$folder/etc/$file"; fi
  done
}

make_foreign() {
  debootstrap --foreign --arch="$2" --variant=minbase "$(release)" "$1" "$(mirror)" >"$1.log" 2>&1 ||
    { tail -n 20 "$1.log" >&2; fail "debootstrap failed"; }
  rm -f "$1.log"
}

# In a mount and process namespace of its own: nothing stays mounted or running, however it ends.
run_in_root() {
  local folder binds=()
  folder=$(realpath "$1")
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --bind | --bind-ro) binds+=("$1" "$2"); shift 2 ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || { usage >&2; exit 2; }
  unshare --mount --pid --fork --kill-child --propagation private "$0" enter "$folder" ${#binds[@]} \
    "${binds[@]}" "$@"
}

enter() {
  local folder=$1 count=$2 from to
  shift 2
  # A mount point, so that it can hold roots in turn.
  mount --bind "$folder" "$folder"
  cd "$folder"
  mount -t proc proc "$folder/proc"
  mount --rbind /sys "$folder/sys"
  mount --rbind /dev "$folder/dev"
  for ((; count > 0; count -= 2)); do
    from=${2%%:*} to=$folder${2#*:}
    mkdir -p "$to"
    mount --bind "$from" "$to"
    if [ "$1" = --bind-ro ]; then mount -o remount,bind,ro "$to"; fi
    shift 2
  done
  # What a user's shell has, and nothing of ours.
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$folder" "$@"
}

case ${1-} in
  make) [ $# -ge 2 ] || { usage >&2; exit 2; }; shift; make_root "$@" ;;
  run) [ $# -ge 3 ] || { usage >&2; exit 2; }; shift; run_in_root "$@" ;;
  make-foreign) [ $# -eq 3 ] || { usage >&2; exit 2; }; make_foreign "$2" "$3" ;;
  enter) shift; enter "$@" ;;
  possible) possible ;;
  *) usage >&2; exit 2 ;;
esac
