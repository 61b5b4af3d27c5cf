#!/bin/sh
# fetch_ort.sh beside registries of its own: a pip and an npm that copy from a folder, or fail.
# Usage: fetch_ort_test.sh PEERS_FOLDER
set -eu

peers=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/peers" "$work/bin" "$work/registry"
cp "$peers/fetch_ort.sh" "$work/peers"
cd "$work"

wheel=onnxruntime-9.1.0-cp312-cp312-manylinux_2_28_x86_64.whl
packed=onnxruntime-node-9.1.0.tgz
python=$(command -v python3) || { echo "skipped: no python3"; exit 77; }
mkdir -p package/linux && echo "from npm" >package/linux/lib.so && tar -czf "registry/$packed" package
"$python" -c 'import sys, zipfile
zipfile.ZipFile(sys.argv[1], "w").writestr("capi/lib.so", "from pypi\n")' "registry/$wheel"

# A pip that answers when the folder registry has the wheel that its flags describe.
cat >bin/python3 <<FAKE
#!/bin/sh
if [ "\$1 \$2" != "-m pip" ]; then exec "$python" "\$@"; fi
[ -f "$work/registry/$wheel" ] || { echo "no pip answers"; exit 1; }
case "\$*" in *--version) exit 0 ;; esac
case "\$*" in *"--python-version 312 --abi cp312 --platform manylinux_2_28_x86_64 "*" onnxruntime==9.1.0") ;; *) exit 3 ;; esac
while [ "\$1" != -d ]; do shift; done
cp "$work/registry/$wheel" "\$2"
FAKE
cat >bin/npm <<FAKE
#!/bin/sh
[ -f "$work/registry/$packed" ] || { echo "404 Not Found"; exit 1; }
case "\$*" in *" onnxruntime-node@9.1.0") cp "$work/registry/$packed" . ;; *) exit 3 ;; esac
FAKE
printf '#!/bin/sh\necho x86_64\n' >bin/uname
chmod +x bin/*
export PATH="$work/bin:$PATH"
unset TESSERA_PEERS_PYTHON

sum_of() { sha256sum "registry/$1" | cut -d ' ' -f 1; }
good_wheel=$(sum_of "$wheel")
good_packed=$(sum_of "$packed")
table() { # CHECKSUM OF THE WHEEL
  echo "# comment" >peers/ort.txt
  echo "pypi aarch64 0 other.whl capi/lib.so" >>peers/ort.txt
  echo "pypi x86_64 $1 $wheel capi/lib.so" >>peers/ort.txt
  echo "npm  x86_64 $good_packed $packed package/linux/lib.so" >>peers/ort.txt
}
fail() { echo "FAILED: $*"; exit 1; }
expect() { # FOLDER TEXT
  [ "$(cat "$1/libonnxruntime.so.1" 2>/dev/null)" = "$2" ] || fail "$1: expected '$2'"
}

table "$good_wheel"
peers/fetch_ort.sh a || fail "pip answers"
expect a "from pypi"

none=$(printf %064d 0)
table "$none"
peers/fetch_ort.sh b || fail "npm is there when the wheel is not the pinned one"
expect b "from npm"

mv "registry/$packed" kept.tgz
if peers/fetch_ort.sh c 2>said; then fail "nothing valid was on offer"; fi
grep -q "pypi: $wheel has the checksum $good_wheel, not $none" said || fail "no checksum in: $(cat said)"
grep -q "npm: 404 Not Found" said || fail "no reason of npm in: $(cat said)"
[ -z "$(ls -A c)" ] || fail "a library of another checksum was left behind"

mv "registry/$wheel" kept.whl
peers/fetch_ort.sh b || fail "what an earlier run took from npm is kept"
expect b "from npm"
table "$good_wheel"
if peers/fetch_ort.sh d 2>said; then fail "no registry answered"; fi
grep -q "pypi: no pip" said || fail "no reason of pip in: $(cat said)"

# Another version is pinned: the library at hand is not the one.
mv kept.whl "registry/$wheel"
echo "onnxruntime-1.0.0.whl" >b/source.txt
peers/fetch_ort.sh b
expect b "from pypi"
echo passed
