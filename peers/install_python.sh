#!/bin/sh
# Makes a virtual environment with the peers that `tessera bench` runs from Python, as far as they have wheels for this
# machine. What fails is said in a line and left out.
# Usage: peers/install_python.sh [--torch] FOLDER
#   --torch  PyTorch, and with it LiteRT, also where its only build on offer brings CUDA along
set -eu

with_cuda=
if [ "${1-}" = --torch ]; then
  with_cuda=1
  shift
fi
if [ $# -ne 1 ]; then
  echo "usage: $0 [--torch] FOLDER" >&2
  exit 2
fi
requirements=$(cd "$(dirname "$0")" && pwd)/python/requirements
venv=$1
[ -x "$venv/bin/python3" ] || "${TESSERA_PEERS_PYTHON:-python3}" -m venv "$venv"

say() { echo "    $*" >&2; }

pip() { "$venv/bin/python3" -m pip --disable-pip-version-check "$@"; }

# install NAME [FLAGS...]: what requirements/NAME.txt lists.
install() {
  name=$1
  shift
  if said=$(pip install -q --only-binary=:all: "$@" -r "$requirements/$name.txt" 2>&1); then
    say "$name: installed"
  else
    say "$name: absent: $(printf '%s\n' "$said" | grep -m 1 '^ERROR' || printf '%s\n' "$said" | tail -n 1)"
    return 1
  fi
}

# The packages of NVIDIA that PyTorch would bring, one a line.
cuda_packages() {
  pip install -q --dry-run --only-binary=:all: --report - -r "$requirements/torch.txt" 2>/dev/null |
    tr ',{' '\n\n' | sed -n 's/.*"name": "\(nvidia-[^"]*\)".*/\1/p'
}

install common --no-deps --require-hashes || exit 1
for name in openvino iree xla; do install "$name" --no-deps --require-hashes || true; done
count=$(cuda_packages | wc -l)
if [ "$count" -gt 0 ] && [ -z "$with_cuda" ]; then
  say "torch, litert: left out: pip offers PyTorch only with $count packages of CUDA, several GB; --torch takes it"
elif install torch; then
  install litert --no-deps --require-hashes || true
fi
