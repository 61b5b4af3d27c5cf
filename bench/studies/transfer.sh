#!/bin/sh
# TenSet's transfer settings 1 and 2: what a trained model adds to 40 measured trials of every task.
#
#   bench/studies/transfer.sh [-b TESSERA] [-m FILES] [-n 40] [-l 10] [-t THREADS] [-s SEED]
#                             [-d FOLDER] MODEL...
#
# Each task of MODEL gets 40 trials without a trained model; the local model learns from them. From
# there on twice, each with the same records: 10 more a task with the trained model (-m: as tune
# --cost-model takes it; default shipped) and the local one, and 10 with the local one alone.
# Setting 1 is the fastest of all 50 trials, setting 2 that of the last 10. Both are sums over the
# tasks of the model, each times its uses, in ms; the table is Markdown. The databases stay in
# FOLDER (default: a temporary one, removed at the end), and the same command with it goes on.
set -eu

options=b:m:n:l:t:s:d:h
trials=40
last=10
. "$(dirname "$0")/study.sh"
first=$trials

# tune NAME MODEL TRIALS PRETRAINED: FOLDER/NAME.db and NAME.json
tune() {
  "$tessera" tune "$2" --trials-per-task "$3" --cost-model "$4" --threads "$threads" \
    --seed "$seed" --no-recombine --peers none --db "$folder/$1.db" --plan "$folder/$1.plan" \
    --json > "$folder/$1.part"
  mv "$folder/$1.part" "$folder/$1.json"
}

# row TEXT WITHOUT WITH, in us
row() {
  awk -v text="$1" -v a="$2" -v b="$3" 'BEGIN {
    if (a <= 0 || b <= 0) { printf "%s | - | - | - |\n", text; exit }
    printf "%s | %.4f | %.4f | %.3f |\n", text, a / 1000, b / 1000, a / b
  }'
}

count=0
rows=
for model in "$@"; do
  count=$((count + 1))
  echo "$model: $first trials a task, the local model alone" >&2
  [ -f "$folder/$count-first.json" ] || tune "$count-first" "$model" "$first" none
  for how in without with; do
    # One that was interrupted begins again: its last trials must be of one session.
    [ ! -f "$folder/$count-$how.json" ] || continue
    rm -f "$folder/$count-$how.db" "$folder/$count-$how.db-wal" "$folder/$count-$how.db-shm"
    "$tessera" db export --db "$folder/$count-first.db" -o "$folder/$count-first.jsonl" >&2
    "$tessera" db import "$folder/$count-first.jsonl" --db "$folder/$count-$how.db" >&2
    pretrained=none
    [ $how = without ] || pretrained=$models
    echo "$model: $last more, $how the trained model" >&2
    tune "$count-$how" "$model" $((first + last)) "$pretrained"
  done
  default=$(number "$count-first" sum_default_us | awk '{ printf "%.4f", $1 / 1000 }')
  for key in best session; do
    setting=1
    [ $key = best ] || setting=2
    rows="$rows$(row "| $model | $default | $setting" "$(number "$count-without" "sum_${key}_us")" \
      "$(number "$count-with" "sum_${key}_us")")
"
  done
done
echo "| model | default ms | setting | without ms | with ms | without / with |"
echo "|---|---:|---:|---:|---:|---:|"
printf '%s' "$rows"
