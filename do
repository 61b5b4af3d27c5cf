#!/usr/bin/env bash
# The one entry point for people and for CI: ./do help
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

build_dir=build/release
packages=(build-essential cmake ninja-build ccache mold libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  protobuf-compiler libprotobuf-dev libsqlite3-dev libxgboost-dev libsimdjson-dev)
# The C runtime of artifacts is compiled for both architectures.
case $(uname -m) in
  x86_64) packages+=(gcc-aarch64-linux-gnu) ;;
  aarch64) packages+=(gcc-x86-64-linux-gnu) ;;
esac
# PoCL runs the schedules of GPUs on machines without one.
test_packages=(git libgtest-dev libgmock-dev libbenchmark-dev libonnx-testdata pocl-opencl-icd ocl-icd-libopencl1)
# A real server for the tests of databases, which skip without it. libpq is opened when a URL asks for it.
test_packages+=(postgresql)
# The example in C#; the compilers of the other languages are large.
test_packages+=(mono-mcs mono-runtime)
language_packages=(rustc golang-go default-jdk-headless)
# Training networks; it brings 290 other packages.
# Without OpenBLAS libtorch multiplies by the reference BLAS, tens of times slower.
train_packages=(libtorch-dev libopenblas0-openmp)
# The first is the tested one; Tessera compiles with each of them.
llvm_packages=(llvm-19-dev llvm-18-dev llvm-20-dev llvm-21-dev llvm-22-dev llvm-17-dev llvm-16-dev)

usage() {
  cat <<'USAGE'
usage: ./do COMMAND [ARGUMENTS]

  deps [--train | --languages]
                  install the packages that are missing, for the tests too (Debian 12, Ubuntu 24.04; needs root or
                  sudo); --train: also libtorch, without which `tessera train` knows only trees; --languages: also Rust, Go
                  and Java, to test their examples
  peers [--torch] install the libraries that `tessera bench --peers` compares with, and build their modules;
                  --torch: PyTorch also where its only build on offer brings CUDA along
  build           build build/release/bin/tessera
  test [ARGS]     deps, build, then every test except nightly and perf; ARGS go to ctest
  demo [--short]  install what the program needs, build it, name a hand-written digit, then tune a small network for about
                  three minutes (--short: ten seconds) and write it as a library and the tuning as a page
  bench [ARGS]    build, then `tessera bench ARGS` (default: the core suite beside all peers)
  results [--check]
                  build, then write docs/results and the tables of README.md from the runs in bench/results, which
                  bench/record.sh adds to, and bench/papers, which tessera study adds to; --check: write nothing, fail if they differ
  docs            build, then write docs/reference/conformance.md and the outputs shown in the documents again
  format          rewrite the sources with clang-format 14
  package [--arch x86_64|aarch64]
                  build/tessera-VERSION-linux-ARCH.tar.xz, which needs nothing but glibc
  deb [--arch x86_64|aarch64]
                  build/tessera_VERSION_ARCH.deb of the same files: /usr/bin/tessera, manual pages, completions, headers
  wheel [--arch x86_64|aarch64]
                  build/wheel/tessera_compiler-VERSION-*.whl, the Python package, and its tests in an environment of their own
  walk            a new user's first hour from the package: own model, C, C++, Python, cross, signals, full disk
  lint [--all | --since REVISION] [--budget SECONDS]
                  check the wording and the length of documents, the format of the files and clang-tidy 14 on the lines
                  changed since main (or REVISION), or all; --budget: clang-tidy as far as it allows, newest files first
  sanitize [--since REVISION] [--budget SECONDS]
                  the tests of every folder under sanitizers; --since: of the folders that changed and of those that
                  include them, as far as the budget allows
  nightly         what is too long for every change: all tests but those labelled perf, the package, planted bugs, the
                  Python package beside PyTorch, sanitizers on every folder, the fuzzers for an hour
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

# install_for GROUP...: what building needs, and the given lists of packages.
install_for() {
  if ! is_debian; then
    say "no apt-get here; the build needs the equivalents of: $* ${llvm_packages[0]}"
    return
  fi
  local llvm
  llvm=$(missing_llvm)
  install_missing "$@" ${llvm:+"$llvm"}
}

cmd_deps() {
  case ${1-} in
    '') install_for "${packages[@]}" "${test_packages[@]}" ;;
    --train) install_for "${packages[@]}" "${test_packages[@]}" "${train_packages[@]}" ;;
    --languages) install_for "${packages[@]}" "${test_packages[@]}" "${language_packages[@]}" ;;
    *) usage >&2; exit 2 ;;
  esac
}

# peers/packages.txt: one package a line, optionally followed by the only architecture that has it.
cmd_peers() {
  case $# in 0) ;; 1) [ "$1" = --torch ] || { usage >&2; exit 2; } ;; *) usage >&2; exit 2 ;; esac
  is_debian || fail "the peers come from Debian or Ubuntu packages (peers/packages.txt); no apt-get here"
  local wanted=() package arch host_arch
  host_arch=$(dpkg --print-architecture)
  while read -r package arch _ || [ -n "$package" ]; do
    case $package in '' | '#'*) continue ;; esac
    if [ -z "$arch" ] || [ "$arch" = "$host_arch" ]; then wanted+=("$package"); fi
  done <peers/packages.txt
  # Asked for as commands: whoever has npm or Python may have them from elsewhere, in conflict with Debian's packages.
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then wanted+=(python3-venv); fi
  if ! command -v npm >/dev/null && ! python3 -m pip --version >/dev/null 2>&1; then wanted+=(python3-pip); fi
  install_missing "${wanted[@]}"
  say "fetching ONNX Runtime"
  peers/fetch_ort.sh "$build_dir/lib/peers/ort"
  say "installing the peers that run from Python"
  peers/install_python.sh "$@" "$build_dir/lib/peers/venv" || say "no peers that run from Python"
  # A first configuration may have recorded the libraries as absent.
  if [ -f "$build_dir/CMakeCache.txt" ]; then cmake -U 'TESSERA_PEER_*' "$build_dir" >/dev/null; fi
  cmd_build
}

# configure_and_build PRESET [CMAKE ARGUMENTS...] [-- TARGETS...]
configure_and_build() {
  local preset=$1 arguments=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    arguments+=("$1")
    shift
  done
  if [ $# -gt 0 ]; then shift; fi
  say "building build/$preset"
  cmake --preset "$preset" --log-level=WARNING "${arguments[@]}"
  cmake --build --preset "$preset" --parallel "$(nproc)" ${*:+--target "$@"}
}

# build_programs TARGET...: without the tests, whose packages may be absent.
build_programs() {
  local arguments=()
  if [ ! -f "$build_dir/CMakeCache.txt" ]; then arguments=(-DTESSERA_TESTS=OFF); fi
  configure_and_build release "${arguments[@]}" -- "$@"
}

cmd_build() { build_programs programs; }

cmd_test() {
  cmd_deps
  configure_and_build release -DTESSERA_TESTS=ON
  say "testing"
  ctest --preset release "$@"
}

# The main job on a fresh machine, at most three minutes after the build: a small network is tuned for most of them.
cmd_demo() {
  local budget="" limit=3
  case ${1-} in
    '') ;;
    --short) budget=10 limit=1 ;;
    *) usage >&2; exit 2 ;;
  esac
  install_for "${packages[@]}"
  # Not the trainer, the runner and the other peers, which ./do build adds.
  local programs=(tessera tessera_peer_ort) python=""
  if python3 -c 'import numpy' 2>/dev/null; then python=1 programs+=(tessera_shared); fi
  build_programs "${programs[@]}"
  local tessera="$build_dir/bin/tessera" model=zoo:squeezenet1_1 out=build/demo threads begin=$SECONDS
  threads=$(nproc)
  if [ "$threads" -gt 4 ]; then threads=4; fi
  mkdir -p "$out"
  if [ ! -f "$build_dir/lib/peers/ort/libonnxruntime.so.1" ]; then
    if command -v npm >/dev/null || python3 -m pip --version >/dev/null 2>&1; then
      say "fetching ONNX Runtime to compare with"
      peers/fetch_ort.sh "$build_dir/lib/peers/ort" || say "no ONNX Runtime: nothing to compare with"
    else
      say "neither pip nor npm to fetch ONNX Runtime with: nothing to compare with (./do peers)"
    fi
  fi
  say "a hand-written digit, and what a small network makes of it (examples/digits)"
  examples/digits/run.sh "$tessera"
  if [ -z "$python" ]; then
    say "not from Python: NumPy is not installed (package python3-numpy)"
  else
    say "the same from Python"
    if tools/python_package.sh "$build_dir" "$out/python"; then
      PYTHONPATH="$out/python" TESSERA_PROGRAM="$tessera" python3 examples/digits/run.py
    fi
  fi
  say "$model as it is compiled without tuning"
  "$tessera" bench "$model" --threads "$threads" --samples 5 --time-limit 2
  # What comes after the tuning takes some 45 s.
  if [ -z "$budget" ]; then budget=$((135 - (SECONDS - begin))); fi
  if [ "$budget" -lt 10 ]; then budget=10; fi
  say "tuning it for $budget s on $threads threads; Ctrl-C keeps the best so far, ./do demo again goes on from there"
  rm -f "$out/squeezenet.unproved.plan"
  "$tessera" tune "$model" --budget "${budget}s" --threads "$threads" --db "$out/tessera.db" \
    --plan "$out/squeezenet.plan" -o "$out/squeezenet" | tee "$out/tuning.txt"
  if [ -f "$out/squeezenet.unproved.plan" ]; then
    say "kernels were found that were faster by themselves; the whole model's times vary by more than they gain, so that
    they are not used, but kept: $out/squeezenet.unproved.plan"
  elif grep -qF '(1.00x)' "$out/tuning.txt"; then
    say "no schedule was found in this time that is faster than the default one; a longer ./do demo goes on from here"
  fi
  say "the artifact, through its C interface: $out/squeezenet"
  "$tessera" bench "$out/squeezenet" --threads "$threads" --samples 5 --time-limit 2
  say "what the tuning did, as a page: $PWD/$out/report.html"
  "$tessera" report "$out/tessera.db" -o "$out/report.html"
  say "what was gained, on $threads threads; each was timed in turns with our default, whose time is that of the tuning"
  "$tessera" compile "$model" --threads "$threads" --cost-model shipped --picked "$out/learned.plan" -o "$out/learned" >/dev/null
  local beside=loops,defaults
  if grep -q '"schedule"' "$out/learned.plan"; then beside+=",$out/learned.plan"; fi
  # Sums in another order may differ by more than is allowed (exit 4); the table says which did.
  "$tessera" bench "$model" --threads "$threads" --samples 5 --time-limit "$limit" --plan "$out/squeezenet.plan" \
    --beside "$beside" --peers ort >"$out/beside.txt" || [ $? -eq 4 ]
  tools/demo_table.sh "$out/tuning.txt" "$out/beside.txt" "$out/learned.plan"
  say "next: docs/guide/tuning.md tunes your own model; docs/guide/models.md and docs/guide/artifacts.md run it"
}

cmd_package() {
  install_for "${packages[@]}" libzstd-dev xz-utils git
  tools/package.sh "$@"
}

cmd_deb() {
  install_for "${packages[@]}" libzstd-dev xz-utils git
  tools/deb.sh "$@"
}

# Asked for as a command: whoever has Python may have it from elsewhere.
install_python() {
  if is_debian && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then install_missing python3-venv python3-dev; fi
}

cmd_wheel() {
  install_for "${packages[@]}" libzstd-dev xz-utils git
  install_python
  tools/wheel.sh "$@"
}

cmd_walk() { tests/walk/walk.sh "$@"; }

# The libraries, and the groups, that have tests of their own, those that others include first.
tested_folders() {
  local folder
  for folder in $(sed -n 's/^foreach(folder \(.*\))$/\1/p' tests/CMakeLists.txt); do
    if [ -n "$(sources_of "$folder")" ] && [ -f "tests/$folder/CMakeLists.txt" ]; then echo "$folder"; fi
  done
}

# sources_of NAME: the folder of a library or of a group of them.
sources_of() {
  local found
  for found in "tessera/$1" tessera/*/"$1"; do
    if [ -d "$found" ]; then echo "$found"; return; fi
  done
}

# deps_of NAME: the libraries that it may include, by DEPS of its CMakeLists.txt; of a group, what its libraries may.
deps_of() {
  find "$(sources_of "$1")" -name CMakeLists.txt -exec cat {} + | tr '\n' ' ' | grep -oE 'DEPS [^)]*' | sed 's/THIRD_PARTY.*//; s/^DEPS//' | tr ' ' '\n' |
    sed 's,/.*,,' | grep -v '^$' || true
}

# touched_folders REVISION: those with changed sources or tests, then those that include one of them.
touched_folders() {
  local changed folder dep
  changed=$(git diff --name-only --diff-filter=d "$1" -- tessera tests |
    sed -nE 's,^(tessera/|tests/)([^/]+)/(([^/]+)/)?.*\.(cc|c|h)$,\2 \4,p' | tr ' ' '\n' | grep . | sort -u)
  if [ -z "$changed" ]; then return; fi
  tested_folders | grep -xF "$changed" || true
  while read -r folder; do
    while read -r dep; do
      if grep -qx "$dep" <<<"$changed"; then echo "$folder"; break; fi
    done < <(deps_of "$folder")
  done < <(tested_folders)
}

# Whether sources of the folder start threads or share memory between them.
has_threads() { grep -rqE 'std::(j?thread|atomic|mutex)|pthread_|support/parallel\.h' --include='*.cc' --include='*.c' --include='*.h' "$(sources_of "$1")"; }

# Whether the preset builds tests of the folder: those of the trainer need libtorch.
has_tests() {
  local targets
  targets=$(cmake --build --preset "$1" --target help) || return 0  # building them says why
  grep -q "^$2_tests:" <<<"$targets"
}

# sanitize_folder PRESET FOLDER [SECONDS]: 124 when building and running did not end in that time.
sanitize_folder() {
  local limit=() start=$SECONDS
  if [ $# -gt 2 ]; then limit=(timeout --kill-after=10 "$3"); fi
  "${limit[@]}" cmake --build --preset "$1" --parallel "$(nproc)" --target "$2_tests" >&2 || return
  if [ $# -gt 2 ]; then
    if [ $((SECONDS - start)) -ge "$3" ]; then return 124; fi
    limit[2]=$(($3 - (SECONDS - start)))
  fi
  "${limit[@]}" "build/$1/bin/$2_tests" --gtest_brief=1
}

# Address and undefined behaviour on every folder, threads where there are some. Without arguments all folders; --since
# REVISION: those that changed and those that include them, as far as --budget SECONDS allows, which are named.
cmd_sanitize() {
  local since="" budget=0 folders folder left=() failed=() preset
  while [ $# -gt 0 ]; do
    case $1 in
      --since) since=${2-}; shift 2 ;;
      --budget) budget=${2-}; shift 2 ;;
      *) usage >&2; exit 2 ;;
    esac
  done
  cmd_deps
  export TESSERA_CACHE=off  # of the user, as ctest has it
  # Allocations that cannot be are errors of ours, not ends of the test.
  # The leak checker of gcc 12 takes numbers for the dynamic thread storage of opened libraries, and crashes on them.
  export ASAN_OPTIONS=allocator_may_return_null=1:intercept_tls_get_addr=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
  # What PoCL does not free is not ours.
  export LSAN_OPTIONS=suppressions=$PWD/tests/testing/leaks.txt:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}
  # XGBoost and libtorch run their threads by an OpenMP that the thread sanitizer cannot follow.
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
  if [ -n "$since" ]; then
    folders=$(touched_folders "$since" | awk '!seen[$0]++')
  else
    folders=$(tested_folders)
  fi
  cmake --preset debug --log-level=WARNING
  cmake --preset tsan --log-level=WARNING
  local start=$SECONDS
  for folder in $folders; do
    for preset in debug tsan; do
      if [ "$preset" = tsan ] && ! has_threads "$folder"; then continue; fi
      local seconds=() status=0
      if [ "$budget" -gt 0 ]; then seconds=($((budget - (SECONDS - start)))); fi
      if [ "${seconds[0]-1}" -le 0 ]; then
        left+=("$folder ($preset)")
        continue
      fi
      if ! has_tests "$preset" "$folder"; then
        say "$folder, preset $preset: not built here (./do deps --train)"
        continue
      fi
      say "$folder, preset $preset"
      sanitize_folder "$preset" "$folder" "${seconds[@]}" || status=$?
      case $status in
        0) ;;
        124 | 137) left+=("$folder ($preset)") ;;
        *) failed+=("$folder ($preset)") ;;
      esac
    done
  done
  if [ ${#left[@]} -gt 0 ]; then say "no time left, ./do nightly runs them: ${left[*]}"; fi
  if [ ${#failed[@]} -gt 0 ]; then fail "sanitizers: ${failed[*]}"; fi
}

# Everything that takes too long for every change; docs/design/testing.md says what.
cmd_nightly() {
  [ $# -eq 0 ] || { usage >&2; exit 2; }
  local failed=() fuzzers status=0
  cmd_deps --train
  install_python
  if is_debian; then install_missing clang-14 libclang-rt-14-dev; fi
  configure_and_build release -DTESSERA_TESTS=ON
  say "the tests of every change"
  ctest --preset release || failed+=(tests)
  say "the tests that are only for the night"
  ctest --test-dir build/release -L nightly --parallel "$(nproc)" --output-on-failure || failed+=(nightly)
  say "the Python package beside PyTorch"
  TESSERA_TEST_TORCH=1 tests/python/run.sh --build "$build_dir" || status=$?
  case $status in
    0) ;;
    77) say "LEFT OUT: the Python package beside PyTorch" ;;
    *) failed+=(pytorch) ;;
  esac
  # As processes of their own: left of `||` this one would go on after any command of theirs that fails.
  say "the package, and its tests"
  { ./do package && ctest --test-dir build/release -L package --output-on-failure; } || failed+=(package)
  say "bugs that random models must find"
  { cmake --preset release -B build/planted --log-level=WARNING -DTESSERA_TESTS=ON -DTESSERA_PLANTED_BUGS=ON &&
    cmake --build build/planted --parallel "$(nproc)" --target random_graphs &&
    ctest --test-dir build/planted -L planted --parallel "$(nproc)" --output-on-failure; } || failed+=(planted)
  ./do sanitize || failed+=(sanitizers)
  fuzzers=$(grep -rhoE '^ *tessera_fuzzer\(' --include=CMakeLists.txt tests | wc -l)
  ./do fuzz $((3600 / (fuzzers > 0 ? fuzzers : 1))) || failed+=(fuzzers)
  if [ ${#failed[@]} -gt 0 ]; then fail "nightly: ${failed[*]}"; fi
  say "nightly: all passed"
}

cmd_bench() {
  cmd_build
  [ $# -gt 0 ] || set -- --suite bench/suites/core.txt --peers all
  "$build_dir/bin/tessera" bench "$@"
}

# What README.md shows; every machine has a page.
summary_machines=sapphirerapids-16,nvidia-h200

cmd_results() {
  case ${*-} in '' | --check) ;; *) usage >&2; exit 2 ;; esac
  local tessera=${TESSERA:-$build_dir/bin/tessera}
  if [ -z "${TESSERA-}" ]; then cmd_build; fi
  "$tessera" results bench/results --papers bench/papers --pages docs/results --summary README.md \
    --machines "$summary_machines" "$@"
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
  configure_and_build release -DTESSERA_TESTS=ON -- tessera cli_tests
  local cases=/usr/share/libonnx-testdata/data
  if [ -d "$cases" ]; then
    say "docs/reference/conformance.md"
    # 4: a case failed; the page says which.
    "$build_dir/bin/tessera" conformance "$cases" --markdown | replace_generated docs/reference/conformance.md || [ $? -eq 4 ]
  else
    say "docs/reference/conformance.md stays as it is: $cases is absent (package libonnx-testdata)"
  fi
  say "outputs of the commands in the documents"
  TESSERA_UPDATE_GOLDEN=1 "$build_dir/bin/cli_tests" --gtest_brief=1 --gtest_filter='Docs/*'
  git --no-pager diff --stat -- docs README.md
}

all_sources() { git ls-files --cached --others --exclude-standard -- '*.cc' '*.h'; }

# Files that differ from REVISION, those not yet committed included.
changed_sources() {
  { git diff --name-only --diff-filter=d "$1" -- '*.cc' '*.h'
    git ls-files --others --exclude-standard -- '*.cc' '*.h'; } | sort -u
}

# changed_lines REVISION FILE...: the lines that differ, as clang-tidy's --line-filter takes them.
changed_lines() {
  { git diff -U0 --diff-filter=d "$1" -- "${@:2}" | awk '
      /^\+\+\+ b\// { name = substr($0, 7) }
      /^@@/ {
        split(substr($3, 2), at, ",")
        count = at[2] == "" ? 1 : at[2]
        if (count > 0) printf "{\"name\":\"%s\",\"lines\":[[%d,%d]]}\n", name, at[1], at[1] + count - 1
      }'
    git ls-files --others --exclude-standard -- "${@:2}" | sed 's/.*/{"name":"&"}/'
  } | paste -sd, | sed 's/.*/[&]/'
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

# newest_first REVISION: sorts the names on stdin by the last commit since then that changed them, those not committed first.
newest_first() {
  awk 'NR == FNR { wanted[$0]; next } $0 in wanted && !seen[$0]++' - <(
    git diff --name-only HEAD
    git ls-files --others --exclude-standard
    git log --format= --name-only "$1..HEAD")
}

# lint_file TOOL REVISION END FILE: without a revision all of it, else the lines of it and its header that differ. After END
# (seconds of the clock; 0: never) it only prints the name.
# The analyzer takes half of the time and finds nothing in tests that their run does not.
lint_file() {
  local filter=()
  if [ "$3" -gt 0 ] && [ "$(date +%s)" -ge "$3" ]; then
    printf 'clang-tidy: no time left for %s\n' "$4"
    return
  fi
  set -- "$1" "$2" "$4"
  if [ -n "$2" ]; then filter=(--line-filter="$(changed_lines "$2" "$3" "${3%.cc}.h")"); fi
  if [[ $3 == tests/* ]]; then filter+=(--checks='-clang-analyzer-*'); fi
  "$1" -p build/lint --quiet "${filter[@]}" "$3"
}

cmd_lint() {
  local format tidy all="" since=main base="" budget=0 end=0 files
  while [ $# -gt 0 ]; do
    case $1 in
      --all) all=1; shift ;;
      --since) since=${2:-main}; shift $(($# > 1 ? 2 : 1)) ;;
      --budget) budget=${2-}; shift $(($# > 1 ? 2 : 1)) ;;
      *) usage >&2; exit 2 ;;
    esac
  done
  [[ $budget =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
  cmd_deps
  if is_debian; then install_missing clang-format-14 clang-tidy-14; fi
  format=$(pinned clang-format)
  tidy=$(pinned clang-tidy)
  if [ -n "$all" ]; then
    files=$(all_sources)
  else
    base=$(git merge-base HEAD "$since" 2>/dev/null) || fail "no revision '$since'"
    files=$(changed_sources "$base")
  fi
  say "the wording and the length of documents"
  tools/lint/documents.py
  say "clang-format"
  xargs -r "$format" --dry-run -Werror <<<"$files"
  # The peers, training and examples need what may not be installed.
  files=$(grep '\.cc$' <<<"$files" | grep -vE '^(cmake|examples|peers|tessera/learn/train|tests/(train|peers))/' || true)
  if [ -z "$files" ]; then
    say "clang-tidy: no changed source; --all checks every one"
    return
  fi
  # clang reads no precompiled headers of gcc; the generated headers must be there.
  configure_and_build lint -- tessera_onnx_proto tessera_commit
  say "clang-tidy on $(wc -l <<<"$files") files"
  export -f lint_file changed_lines
  if [ -n "$base" ]; then files=$(newest_first "$base" <<<"$files"); fi
  if [ "$budget" -gt 0 ]; then end=$(($(date +%s) + budget)); fi
  xargs -P "$(nproc)" -I FILE bash -c 'lint_file "$@"' _ "$tidy" "$base" "$end" FILE <<<"$files" | awk '
    /^clang-tidy: no time left for / { if (++left <= 10) print; next }
    { print }
    END { if (left > 10) printf "clang-tidy: nor for %d others; ./do lint without --budget checks all\n", left - 10 }'
}

cmd_fuzz() {
  local seconds=${1:-60} compiler fuzzer found=0 failed=()
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
    "$fuzzer" -max_total_time="$seconds" -artifact_prefix="$corpus-" "${dirs[@]}" || failed+=("${fuzzer##*/}")
  done
  [ "$found" -eq 1 ] || fail "no fuzzer was built in build/fuzz/bin"
  if [ ${#failed[@]} -gt 0 ]; then fail "fuzzers: ${failed[*]}; their inputs lie in build/fuzz/corpus"; fi
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
  deps | peers | build | test | demo | bench | docs | package | deb | wheel | results | nightly | walk | format | lint | sanitize | fuzz | clean) "cmd_$command" "$@" ;;
  help | -h | --help) usage ;;
  *)
    printf './do: no command %s\n' "$command" >&2
    usage >&2
    exit 2
    ;;
esac
