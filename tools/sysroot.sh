#!/usr/bin/env bash
# tools/sysroot.sh ARCH FOLDER: unpacks the development packages of another architecture, as this machine's mirror has
# them, into FOLDER. Nothing of this machine's own packages changes; needs no root.
set -euo pipefail

arch=$1 folder=$2
case $arch in
  x86_64) debian=amd64 ;;
  aarch64) debian=arm64 ;;
  *) echo "sysroot: no architecture '$arch'" >&2; exit 1 ;;
esac
packages=(libc6-dev libstdc++-12-dev llvm-19-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libzstd-dev
  libprotobuf-dev libsqlite3-dev libxgboost-dev libsimdjson-dev)
if [ -f "$folder/complete" ]; then exit 0; fi

say() { printf '==> %s\n' "$*" >&2; }
mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial} "$folder/packages"
: >"$folder/apt/status"
apt=(apt-get -q -o "APT::Architecture=$debian" -o "APT::Architectures=$debian" -o "Dir::State=$folder/apt/state"
  -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache" -o APT::Sandbox::User=
  -o Debug::NoLocking=1)
say "fetching the packages of $debian"
"${apt[@]}" update >/dev/null
"${apt[@]}" install -y --download-only --no-install-recommends "${packages[@]}" >/dev/null

say "unpacking them into $folder"
# As in a merged /usr, where each file has one name.
mkdir -p "$folder"/usr/{lib,bin,sbin}
for link in lib bin sbin; do ln -sfn "usr/$link" "$folder/$link"; done
if [ "$arch" = x86_64 ]; then mkdir -p "$folder/usr/lib64"; ln -sfn usr/lib64 "$folder/lib64"; fi
for deb in "$folder"/apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -C "$folder" --keep-directory-symlink -xf - --exclude='./dev/*'
  dpkg-deb --fsys-tarfile "$deb" | tar -tf - | sed 's|^\./lib/|./usr/lib/|' >"$folder/packages/$(dpkg-deb -f "$deb" Package).list"
done
# Links to absolute names lead back into the folder.
find "$folder/usr" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$folder$target")" "$link"
done
rm -rf "$folder/apt"
touch "$folder/complete"
