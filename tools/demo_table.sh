#!/usr/bin/env bash
# The table at the end of ./do demo: demo_table.sh TUNING BENCH LEARNED. TUNING is what `tessera tune` printed, BENCH what
# `tessera bench MODEL --plan TUNED --beside loops,defaults,LEARNED --peers ort` did; LEARNED is the plan of a learned model.
# What the tuning gained is told as it told it, by its own turns with the defaults; all others took turns in BENCH.
set -euo pipefail
[ $# -eq 3 ] || { echo "usage: demo_table.sh TUNING BENCH LEARNED" >&2; exit 2; }
awk -v tuning="$1" -v learned="$3" '
  function us(number, unit) { return number * (unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "ns" ? 1e-3 : 1) }
  function row(name, time, speed, remark) {
    if (speed == "") speed = sprintf(time > 12 * was ? "%.3f" : "%.2f", was / time)
    printf "  %-18s %10.2f ms %8sx%s\n", name, time / 1000, speed, remark
  }
  # Times of BENCH, as if its defaults had taken what they took beside the tuned plan.
  function other(name, peer) {
    if (!(peer in time)) { printf "  %-18s %s\n", name, absent[peer] == "" ? "not installed" : absent[peer]; return }
    row(name, time[peer] * was / time["defaults"], "", remark[peer])
  }
  FILENAME == tuning {
    if ($4 == "->" && $7 ~ /^\([0-9.]+x\)/) {
      was = us($2, $3); is = us($5, $6); gain = substr($7, 2, index($7, "x") - 2); busy = /\(busy\)/ ? " (busy machine)" : ""
    }
    next
  }
  $1 == "threads" { ours = 1; next }
  ours { time["ours"] = $2; busy_ours = /\(busy machine\)/ ? " (busy machine)" : ""; wrong = /WRONG/; ours = 0; next }
  /^    / && $2 == "absent:" && !/not installed|libonnxruntime/ { absent[$1] = "not compared" substr($0, index($0, ":")) }
  /^    / && $3 == "us" {
    time[$1] = $2
    remark[$1] = /outputs differ/ ? "  its outputs differ" : /\(busy machine\)/ ? " (busy machine)" : ""
  }
  END {
    if (!("defaults" in time) || !("ours" in time)) { print "demo_table.sh: the defaults were not timed" >"/dev/stderr"; exit 1 }
    if (was == 0) { was = time["defaults"]; is = time["ours"]; busy = busy_ours }  # the budget was too short to time the model
    printf "  %-18s %13s %9s\n", "", "time", "speed"
    other("loops as written", "loops")
    row("our default", was, "1.00")
    if (learned in time) other("learned default", learned)
    else row("learned default", was, "1.00", "  the learned model keeps our default here")
    row("tuned in place", is, gain, wrong ? "  its outputs differ" : busy)
    other("ONNX Runtime", "ort")
  }' "$1" "$2"
