#!/bin/sh
# What a trained model saves: a search with it against ten times the trials without.
#
#   bench/studies/pretrained.sh [-b TESSERA] [-m FILES] [-n 2000] [-t THREADS] [-s SEED]
#                               [-S SOURCES] [-d FOLDER] MODEL|OPERATION...
#
# Each MODEL, or OPERATION as `bench --op` takes it, is tuned three times: -n trials from scratch, a
# tenth of them from scratch, a tenth with the trained model (-m: as tune --cost-model takes it;
# default shipped). -S rules,templates leaves the schedules out that are written without measuring,
# so that nothing but the search finds a good one. The figures are sums over the tasks of the fastest
# that was found, each times its uses, in ms; the table is Markdown. With -d FOLDER the results stay
# there and the same command goes on.
set -eu

options=b:m:n:t:s:S:d:h
trials=2000
sources=
. "$(dirname "$0")/study.sh"
few=$((trials / 10))
if [ "$few" -lt 1 ]; then
  echo "-n $trials: a tenth of it is no trial" >&2
  exit 2
fi

# tune NAME SUBJECT TRIALS PRETRAINED: FOLDER/NAME.json, from an empty database
tune() {
  case $2 in
    zoo:*|*.onnx) kind= ;;
    *) kind=--op ;;
  esac
  echo "$2: $3 trials, trained model: $4" >&2
  "$tessera" tune $kind "$2" --trials "$3" --cost-model "$4" --threads "$threads" --seed "$seed" \
    ${sources:+--sources "$sources"} --no-recombine --peers none --db '' \
    --plan "$folder/$1.plan" --json > "$folder/$1.part"
  mv "$folder/$1.part" "$folder/$1.json"
}

# ms NAME: the sum over its tasks after its tuning
ms() {
  number "$1" sum_best_us | awk '{ if ($1 > 0) printf "%.4f", $1 / 1000; else printf "-" }'
}

count=0
rows=
for subject in "$@"; do
  count=$((count + 1))
  [ -f "$folder/$count-many.json" ] || tune "$count-many" "$subject" "$trials" none
  [ -f "$folder/$count-few.json" ] || tune "$count-few" "$subject" "$few" none
  [ -f "$folder/$count-trained.json" ] || tune "$count-trained" "$subject" "$few" "$models"
  rows="$rows| \`$subject\` | $(ms "$count-many") | $(ms "$count-few") | $(ms "$count-trained") |
"
done
echo "| | $trials trials, ms | $few trials | $few trials, trained model |"
echo "|---|---:|---:|---:|"
printf '%s' "$rows"
