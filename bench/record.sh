#!/usr/bin/env bash
# Records the fifteen networks of bench/suites/networks.txt on this machine beside the libraries that are installed, for
# `./do results`. Usage: bench/record.sh cpu|cuda [FOLDER]
#   cpu   ONNX Runtime and OpenVINO (in f32, and as it comes) with 1, 2, 4, 16 threads (as far as there are cores) and
#         with all cores, PyTorch with 1 and all
#   cuda  torch.compile and XLA, in f32 (exact, and as they come) and f16 at batch 1; batches of 8 and 32 of four
#         networks; torch.compile with all of its search on two
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tessera=${TESSERA:-build/release/bin/tessera}
folder=${2:-bench/results}
suite=bench/suites/networks.txt
timing=(--samples 9 --time-limit 0.6)

on_processor() {
  local cores threads peers
  cores=$(nproc)
  for threads in $(printf '%s\n' 1 2 4 16 "$cores" | sort -nu); do
    if [ "$threads" -gt "$cores" ]; then continue; fi
    peers=ort,openvino,openvino_default
    if [ "$threads" -eq 1 ] || [ "$threads" -eq "$cores" ]; then peers+=,torch; fi
    "$tessera" bench --suite "$suite" --threads "$threads" --peers "$peers" "${timing[@]}" --record "$folder"
  done
}

on_gpu() {
  local model batch
  "$tessera" bench --suite "$suite" --target cuda --dtype f16 --peers torch_compile,xla "${timing[@]}" --record "$folder"
  "$tessera" bench --suite "$suite" --target cuda --peers torch_compile,torch_compile_default,xla,xla_default \
    "${timing[@]}" --record "$folder"
  for batch in 8 32; do
    for model in resnet50 mobilenet_v2 bert_base vit_b_16; do
      "$tessera" bench "zoo:$model" --batch "$batch" --target cuda --dtype f16 --peers torch_compile,xla "${timing[@]}" \
        --record "$folder"
    done
  done
  for model in resnet50 bert_base; do
    "$tessera" bench "zoo:$model" --target cuda --dtype f16 --peers torch_max "${timing[@]}" --record "$folder"
  done
}

case ${1-} in
  cpu) on_processor ;;
  cuda) on_gpu ;;
  *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
