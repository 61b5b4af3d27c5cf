#!/usr/bin/env bash
# Records the fifteen networks of bench/suites/networks.txt on this machine beside the libraries that are installed, for
# `./do results`. Usage: bench/record.sh cpu|cuda [FOLDER]
#   cpu   ONNX Runtime and OpenVINO (in f32, and as it comes) with 1, 2, 4, 16 threads (as far as there are cores) and
#         with all cores, PyTorch with 1 and all; with 1 and all also int8 and, where AMX multiplies it, bf16, beside
#         ONNX Runtime and OpenVINO as it comes
#   cuda  torch.compile and XLA, in f32 (exact, and as they come) and f16 at batch 1; batches of 8 and 32 of four
#         networks; torch.compile with all of its search on two
# The libraries of a group of networks load and compile side by side; then one network at a time is timed, while nothing
# else runs. What Tessera, cuDNN and XLA decide by timing on a GPU is decided by one process at a time, too; what
# torch.compile times while it compiles is not.
# Environment: TESSERA, the program; GROUP, networks that are prepared together (16; fewer take less memory); PREPARE_S,
# seconds after which those that are not prepared are given up (600); SERIES, the parts to record, such as "1 16 low"
# or "f16 f32 batches max"; NETWORKS, instead of the fifteen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tessera=${TESSERA:-build/release/bin/tessera}
folder=${2:-bench/results}
networks=${NETWORKS:-$(grep -v '^#' bench/suites/networks.txt)}
prepare_s=${PREPARE_S:-600}
timing=(--samples 7 --time-limit 0.5)
gates=$(mktemp -d)
trap 'rm -rf "$gates"' EXIT
failed=0

# Until FILE exists, or the process PID has ended or has taken too long since the shell's second SINCE.
wait_for() {
  local file=$1 pid=$2 since=$3
  while [ ! -e "$file" ] && kill -0 "$pid" 2>/dev/null; do
    if [ $((SECONDS - since)) -gt "$prepare_s" ]; then kill "$pid"; fi
    sleep 0.1
  done
}

# One group: `runs` has the arguments of each, `pids` and the folders in `gates` belong to them by number.
prepare_and_time() {
  local one peers first last gate i since=$SECONDS pids=()
  for i in "${!runs[@]}"; do
    read -r -a one <<<"${runs[i]}"
    peers=$(sed 's/.*--peers \([^ ]*\).*/\1/' <<<"${runs[i]}")
    first=${peers%%,*} last=${peers##*,} gate=$gates/$i
    mkdir "$gate"
    touch "$gate/$first.prepare.hold" "$gate/$last.time.hold"
    TESSERA_PEERS_GATE=$gate "$tessera" bench "${one[@]}" "${timing[@]}" --record "$folder" >"$gate/log" 2>&1 &
    pids+=("$!")
    wait_for "$gate/$first.prepare" "$!" "$since"
  done
  rm -f "$gates"/*/*.prepare.hold
  for i in "${!runs[@]}"; do wait_for "$(echo "$gates/$i"/*.time.hold | sed 's/.hold$//')" "${pids[i]}" "$since"; done
  echo "$((SECONDS - since)) s to prepare ${#runs[@]}"
  for i in "${!runs[@]}"; do
    rm -f "$gates/$i"/*.time.hold
    if ! wait "${pids[i]}"; then failed=1; echo "failed: ${runs[i]}"; fi
    cat "$gates/$i/log"
  done
  rm -rf "${gates:?}"/*
}

# The runs whose arguments are read, in groups.
record() {
  local runs=() line
  while read -r line; do
    runs+=("$line")
    if [ "${#runs[@]}" -eq "${GROUP:-16}" ]; then prepare_and_time; runs=(); fi
  done
  if [ "${#runs[@]}" -gt 0 ]; then prepare_and_time; fi
}

# bf16 where the processor multiplies it, and int8.
low_precision() {
  local model arguments="--threads $1 --peers ort,openvino_default"
  if grep -q amx_bf16 /proc/cpuinfo; then
    record < <(for model in $networks; do echo "$model --dtype bf16 $arguments"; done)
  fi
  record < <(for model in resnet18 resnet50 mobilenet_v2; do echo "zoo:$model@quant=qdq $arguments"; done)
}

on_processor() {
  local cores threads peers model
  cores=$(nproc)
  for threads in ${SERIES:-$(printf '%s\n' 1 2 4 16 "$cores" | sort -nu) low}; do
    if [ "$threads" = low ]; then
      low_precision 1
      if [ "$cores" -gt 1 ]; then low_precision "$cores"; fi
      continue
    fi
    if [ "$threads" -gt "$cores" ]; then continue; fi
    peers=ort,openvino,openvino_default
    if [ "$threads" -eq 1 ] || [ "$threads" -eq "$cores" ]; then peers+=,torch; fi
    record < <(for model in $networks; do echo "$model --threads $threads --peers $peers"; done)
  done
}

# The arguments of `models`, every second one with XLA first: XLA compiles in one process at a time, PyTorch in many.
on_gpu_with() {
  local models=$1 torch=$2 xla=$3 model peers=$2,$3
  for model in $models; do
    echo "$model --target cuda ${*:4} --peers $peers"
    if [ "$peers" = "$torch,$xla" ]; then peers=$xla,$torch; else peers=$torch,$xla; fi
  done
}

on_gpu() {
  local series batch few="zoo:resnet50 zoo:mobilenet_v2 zoo:bert_base zoo:vit_b_16"
  export TORCHINDUCTOR_COMPILE_THREADS=${TORCHINDUCTOR_COMPILE_THREADS:-4}
  for series in ${SERIES:-f16 f32 batches max}; do
    case $series in
      f16) record < <(on_gpu_with "$networks" torch_compile xla --dtype f16) ;;
      f32) GROUP=${GROUP:-8} record < <(on_gpu_with "$networks" torch_compile,torch_compile_default xla,xla_default) ;;
      batches)
        record < <(for batch in 8 32; do on_gpu_with "$few" torch_compile xla --batch "$batch" --dtype f16; done) ;;
      max)
        unset TORCHINDUCTOR_COMPILE_THREADS
        GROUP=1 record < <(on_gpu_with "zoo:bert_base zoo:resnet50" torch_compile,torch_max xla --dtype f16) ;;
    esac
  done
}

case ${1-} in
  cpu) on_processor ;;
  cuda) on_gpu ;;
  *) sed -n '2,/^set/s/^# //p' "$0" >&2; exit 2 ;;
esac
exit "$failed"
