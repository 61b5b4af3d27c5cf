#!/usr/bin/env bash
# The tests of the Python package, in a virtual environment of their own with NumPy. 77: skipped, with the reason.
#   run.sh --build FOLDER   the package from the sources, with libtessera.so of a build
#   run.sh --wheel FILE     a wheel that `./do wheel` made
# TESSERA_TEST_TORCH=1 also installs PyTorch, or skips all; without it, those tests skip where it is absent.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

skip() { echo "skipped: $*"; exit 77; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "python3 is not installed"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$("$python" --version) is older than 3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null || skip "no virtual environments (package python3-venv)"
work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-python.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
in_venv=$work/venv/bin/python
"$in_venv" -m pip install -q --disable-pip-version-check numpy >"$work/pip.log" 2>&1 ||
  skip "pip cannot install NumPy: $(tail -n 1 "$work/pip.log")"
if [ -n "${TESSERA_TEST_TORCH-}" ]; then
  "$in_venv" -m pip install -q --disable-pip-version-check torch >"$work/pip.log" 2>&1 ||
    skip "pip cannot install PyTorch: $(tail -n 1 "$work/pip.log")"
fi

case ${1-} in
  --wheel) "$in_venv" -m pip install -q --disable-pip-version-check --no-deps "$2" ;;
  --build)
    build=$(realpath "$2")
    PYTHON=$python tools/python_package.sh "$build" "$work"
    export PYTHONPATH=$work TESSERA_PROGRAM=$build/bin/tessera
    ;;
  *) echo "usage: run.sh --build FOLDER | --wheel FILE" >&2; exit 2 ;;
esac
TESSERA_CACHE=off "$in_venv" -m unittest discover -v -s tests/python -t tests/python
if [ "$1" = --wheel ]; then
  "$work/venv/bin/tessera" --version
  # What the guide promises: the weights for this architecture, for GPUs and for policy lm.
  for name in "$(uname -m)-default" cuda-default cpu-language cuda-language cpu-plans; do
    ls "$work"/venv/lib/python3*/site-packages/tessera/share/tessera/weights/"$name.safetensors" >/dev/null
  done
fi
