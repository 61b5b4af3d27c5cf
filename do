#!/usr/bin/env bash
# The one entry point for people and for CI: ./do help
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

build_dir=build/release
packages=(build-essential cmake ninja-build pkgconf git ccache mold libfmt-dev libcli11-dev
  nlohmann-json3-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev protobuf-compiler libprotobuf-dev
  libonnx-testdata libsqlite3-dev libxgboost-dev libsimdjson-dev)
# The first is the tested one; Tessera compiles with each of them.
llvm_packages=(llvm-19-dev llvm-18-dev llvm-20-dev llvm-21-dev llvm-22-dev llvm-17-dev llvm-16-dev)

usage() {
  cat <<'USAGE'
usage: ./do COMMAND [ARGUMENTS]

  deps            install the packages that are missing (Debian 12, Ubuntu 24.04; needs root or sudo)
  peers           install the libraries that `tessera bench --peers` compares with, and build their modules
  build           build build/release/bin/tessera
  test [ARGS]     deps, build, then every test except nightly and perf; ARGS go to ctest
  demo            build, then tune a small network for about three minutes and write it as a library
  bench [ARGS]    build, then `tessera bench ARGS` (default: the core suite beside all peers)
  docs            build, then write docs/conformance.md and the outputs shown in the documents again
  format          rewrite the sources with clang-format 14
  lint [--all]    check format, then clang-tidy 14 on the files changed since main (or all)
  fuzz [SECONDS]  build the fuzzers with clang and run each for SECONDS (60)
  clean           remove build/
  help            this text
USAGE
}

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf './do: %s\n' "$*" >&2; exit 1; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints the LLVM package to install; nothing if a supported one is there.
missing_llvm() {
  local package
  for package in "${llvm_packages[@]}"; do
    if installed "$package"; then return; fi
  done
  for package in "${llvm_packages[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then echo "$package"; return; fi
  done
  echo "${llvm_packages[0]}"
}

# Installs those of the given packages that are not; touches neither network nor privileges when all are.
install_missing() {
  local missing=() package as_root=()
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "all packages are installed"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "missing packages, and neither root nor sudo to install them. As root, run:
  apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # The lists may be absent or old: refresh them when the first attempt fails.
  "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null && return
  say "refreshing the package lists"
  "${as_root[@]}" apt-get update -q </dev/null
  "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null ||
    fail "could not install: ${missing[*]}"
}

is_debian() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

cmd_deps() {
  if ! is_debian; then
    say "no apt-get here; the build needs the equivalents of: ${packages[*]} ${llvm_packages[0]}"
    return
  fi
  local llvm
  llvm=$(missing_llvm)
  install_missing "${packages[@]}" ${llvm:+"$llvm"}
  # For training alone: without it `tessera train` knows only trees.
  if ! installed libtorch-dev && apt-cache show libtorch-dev >/dev/null 2>&1; then install_missing libtorch-dev; fi
}

# peers/packages.txt: one package a line, optionally followed by the only architecture that has it.
cmd_peers() {
  is_debian || fail "the peers come from Debian or Ubuntu packages (peers/packages.txt); no apt-get here"
  local wanted=() package arch host_arch
  host_arch=$(dpkg --print-architecture)
  while read -r package arch _ || [ -n "$package" ]; do
    case $package in '' | '#'*) continue ;; esac
    if [ -z "$arch" ] || [ "$arch" = "$host_arch" ]; then wanted+=("$package"); fi
  done <peers/packages.txt
  # Asked for as commands: whoever has npm or pip may have them from elsewhere, in conflict with Debian's packages.
  if ! command -v npm >/dev/null && ! python3 -m pip --version >/dev/null 2>&1; then wanted+=(python3-pip); fi
  install_missing "${wanted[@]}"
  say "fetching ONNX Runtime"
  peers/fetch_ort.sh "$build_dir/lib/peers/ort"
  # A first configuration may have recorded the libraries as absent.
  if [ -f "$build_dir/CMakeCache.txt" ]; then cmake -U 'TESSERA_PEER_*' "$build_dir" >/dev/null; fi
  cmd_build
}

# configure_and_build PRESET [CMAKE ARGUMENTS...]
configure_and_build() {
  local preset=$1
  shift
  say "building build/$preset"
  cmake --preset "$preset" --log-level=WARNING "$@"
  cmake --build --preset "$preset" --parallel "$(nproc)"
}

cmd_build() { configure_and_build release; }

cmd_test() {
  cmd_deps
  cmd_build
  say "testing"
  ctest --preset release "$@"
}

# The main job on a fresh machine: a small network, tuned for about three minutes.
cmd_demo() {
  cmd_build
  local tessera="$build_dir/bin/tessera" model=zoo:squeezenet1_1 out=build/demo threads
  threads=$(nproc)
  if [ "$threads" -gt 4 ]; then threads=4; fi
  mkdir -p "$out"
  if [ ! -f "$build_dir/lib/peers/ort/libonnxruntime.so.1" ]; then
    if command -v npm >/dev/null; then
      say "fetching ONNX Runtime to compare with"
      peers/fetch_ort.sh "$build_dir/lib/peers/ort" || say "no ONNX Runtime: nothing to compare with"
    else
      say "no npm to fetch ONNX Runtime with: nothing to compare with (./do peers)"
    fi
  fi
  say "$model as it is compiled without tuning"
  "$tessera" bench "$model" --threads "$threads" --samples 5 --time-limit 2
  say "tuning it for 150 s on $threads threads; Ctrl-C keeps the best so far, ./do demo again goes on from there"
  "$tessera" tune "$model" --budget 150s --threads "$threads" --db "$out/tessera.db" --plan "$out/squeezenet.plan" \
    -o "$out/squeezenet"
  say "the artifact, through its C interface: $out/squeezenet"
  "$tessera" bench "$out/squeezenet" --threads "$threads" --samples 5 --time-limit 2
  say "next: docs/tuning.md tunes your own model; docs/models.md and docs/artifacts.md run it"
}

cmd_bench() {
  cmd_build
  [ $# -gt 0 ] || set -- --suite bench/suites/core.txt --peers all
  "$build_dir/bin/tessera" bench "$@"
}

# Replaces the lines between the two markers of FILE by those of stdin, which must have some.
replace_generated() {
  awk '
    /^<!-- generated: end -->$/ { inside = 0 }
    !inside { print }
    /^<!-- generated: begin -->$/ {
      inside = 1
      while ((getline line < "/dev/stdin") > 0) { print line; ++lines }
    }
    END { exit lines == 0 }' "$1" >"$1.new" || { rm -f "$1.new"; fail "nothing to write to $1"; }
  mv "$1.new" "$1"
}

cmd_docs() {
  cmd_build
  local cases=/usr/share/libonnx-testdata/data
  if [ -d "$cases" ]; then
    say "docs/conformance.md"
    # 4: a case failed; the page says which.
    "$build_dir/bin/tessera" conformance "$cases" --markdown | replace_generated docs/conformance.md || [ $? -eq 4 ]
  else
    say "docs/conformance.md stays as it is: $cases is absent (package libonnx-testdata)"
  fi
  say "outputs of the commands in the documents"
  TESSERA_UPDATE_GOLDEN=1 "$build_dir/bin/cli_tests" --gtest_brief=1 --gtest_filter='Docs/*'
  git --no-pager diff --stat -- docs README.md
}

all_sources() { git ls-files --cached --others --exclude-standard -- '*.cc' '*.h'; }

# Files that differ from where this branch left main, those not yet committed included.
changed_sources() {
  local base
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  { git diff --name-only --diff-filter=d "$base" -- '*.cc' '*.h'
    git ls-files --others --exclude-standard -- '*.cc' '*.h'; } | sort -u
}

# Prints the command for TOOL at the pinned version.
pinned() {
  local tool
  for tool in "$1-14" "$1"; do
    if command -v "$tool" >/dev/null && "$tool" --version | grep -q 'version 14\.'; then
      echo "$tool"
      return
    fi
  done
  fail "$1 14 is not installed (package $1-14)"
}

cmd_format() {
  local tool
  tool=$(pinned clang-format)
  all_sources | xargs -r "$tool" -i
}

cmd_lint() {
  local format tidy files
  format=$(pinned clang-format)
  tidy=$(pinned clang-tidy)
  say "clang-format"
  all_sources | xargs -r "$format" --dry-run -Werror
  if [ "${1-}" = --all ]; then files=$(all_sources); else files=$(changed_sources); fi
  files=$(grep '\.cc$' <<<"$files" || true)
  if [ -z "$files" ]; then
    say "clang-tidy: no changed source; --all checks every one"
    return
  fi
  cmake --preset release --log-level=WARNING
  say "clang-tidy on $(wc -l <<<"$files") files"
  xargs -n 1 -P "$(nproc)" "$tidy" -p "$build_dir" --quiet <<<"$files"
}

cmd_fuzz() {
  local seconds=${1:-60} compiler fuzzer found=0
  [[ $seconds =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
  for compiler in clang++-14 clang++-18 clang++; do
    if command -v "$compiler" >/dev/null; then break; fi
  done
  command -v "$compiler" >/dev/null || fail "clang is not installed (packages clang-14 libclang-rt-14-dev)"
  configure_and_build fuzz -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="${compiler/clang++/clang}"
  for fuzzer in build/fuzz/bin/*_fuzzer; do
    [ -x "$fuzzer" ] || continue
    found=1
    local corpus="build/fuzz/corpus/${fuzzer##*/}"
    mkdir -p "$corpus"
    # What earlier runs found, in one file.
    local kept; kept="tests/fuzz/corpus/$(basename "$fuzzer" _fuzzer).tar.gz"
    if [ -f "$kept" ]; then tar -C "$corpus" -xzf "$kept"; fi
    say "${fuzzer##*/}: $seconds s"
    local dirs=("$corpus") seeds="tests/fuzz/corpus/$(basename "$fuzzer" _fuzzer)"
    if [ -d "$seeds" ]; then dirs+=("$seeds"); fi
    "$fuzzer" -max_total_time="$seconds" -artifact_prefix="$corpus-" "${dirs[@]}"
  done
  [ "$found" -eq 1 ] || fail "no fuzzer was built in build/fuzz/bin"
}

cmd_clean() {
  say "removing build/"
  rm -rf build
}

command=${1-}
if [ -z "$command" ]; then
  usage >&2
  exit 2
fi
shift
case $command in
  deps | peers | build | test | demo | bench | docs | format | lint | fuzz | clean) "cmd_$command" "$@" ;;
  help | -h | --help) usage ;;
  *)
    printf './do: no command %s\n' "$command" >&2
    usage >&2
    exit 2
    ;;
esac
