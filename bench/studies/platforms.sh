#!/bin/sh
# ATFormer's tables across platforms: a cost model trained on the records of one machine judges those of another.
#
#   bench/studies/platforms.sh [-b TESSERA] [-m MODEL] [-H SIZES] [-e EPOCHS] [-n FEW] [-s SEED] [-f FLAGS]
#                              [-d FOLDER] DATA MACHINE MACHINE...
#
# DATA is a dataset (`tessera dataset import LOG... -o DATA`), a MACHINE part of the name of its target or of the folder of
# its logs. Every machine trains a model (-m, default sequence, which needs no lowering) on its own training tasks; `all`
# learns from all of them. The first table has the pairwise accuracy and the top-1 / top-5 scores of each on the test tasks
# of each machine, which no model has seen. The second has, for FEW records (-n, default 32) of each training task of a
# machine, a model that learns from those alone and models of the others that go on with them (train --init); -n 0 leaves
# it out. FLAGS go to every `tessera train`.
# Models and scores stay in FOLDER (default: a temporary one, removed at the end); what is there is not trained again.
set -eu

tessera=tessera
model=sequence
sizes=hidden=96
epochs=6
few=32
seed=1
flags=
folder=
usage() {
  sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"
}
while getopts b:m:H:e:n:s:f:d:h flag; do
  case $flag in
    b) tessera=$OPTARG ;;
    m) model=$OPTARG ;;
    H) sizes=$OPTARG ;;
    e) epochs=$OPTARG ;;
    n) few=$OPTARG ;;
    s) seed=$OPTARG ;;
    f) flags=$OPTARG ;;
    d) folder=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -lt 3 ]; then
  usage >&2
  exit 2
fi
data=$1
shift
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 130' INT TERM
fi
mkdir -p "$folder"

# job NAME FLAGS...: one line of the trainings to do
job() {
  name=$1
  shift
  [ -f "$folder/$name.npz" ] || echo "-o $folder/$name.safetensors --scores $folder/$name.npz $*" >> "$folder/jobs"
}

: > "$folder/jobs"
job all
for a in "$@"; do job "$a" --machine "$a"; done
for b in "$@"; do
  [ "$few" -gt 0 ] || break
  job "few-$b" --machine "$b" --per-task "$few"
  for a in "$@"; do
    [ "$a" = "$b" ] || job "$a-to-$b" --machine "$b" --per-task "$few" --init "$folder/$a.safetensors"
  done
done
if [ -s "$folder/jobs" ]; then
  # shellcheck disable=SC2086 # flags are several words
  "$tessera" train --data "$data" --split by-task --model "$model" --hyper "$sizes" --loss rank --epochs "$epochs" \
    --patience 0 --seed "$seed" $flags --jobs "$folder/jobs" --json > "$folder/train.json"
fi

# scores B NAME...: lines "PAIRWISE, TOP-1 / TOP-5" of these models on the test tasks of machine B
scores() {
  on=$1
  shift
  files=
  for name in "$@"; do files="$files $name=$folder/$name.npz"; done
  # shellcheck disable=SC2086
  "$tessera" eval --data "$data" --split by-task --machine "$on" --scores $files --markdown > "$folder/eval-$on.md" ||
    : > "$folder/eval-$on.md" # no task of it is tested: empty cells
  for name in "$@"; do
    awk -F' *[|] *' -v name="$name" '
      $2 == "model" { for (i = 2; i <= NF; ++i) column[$i] = i }
      $2 == name && !done {
        printf "%.3f, %.3f / %.3f", $column["pairwise"], $column["top-1"], $column["top-5"]
        done = 1
      }' "$folder/eval-$on.md"
    echo
  done
}

line() {
  printf '|'
  for cell in "$@"; do printf ' %s |' "$cell"; done
  echo
}
rule() {
  printf '|---|'
  for cell in "$@"; do printf -- '---:|'; done
  echo
}

for b in "$@"; do scores "$b" "$@" all > "$folder/whole-$b"; done
line "trained on" "$@"
rule "$@"
row=0
for a in "$@" all; do
  row=$((row + 1))
  printf '| %s |' "$a"
  for b in "$@"; do printf ' %s |' "$(sed -n "${row}p" "$folder/whole-$b")"; done
  echo
done
[ "$few" -gt 0 ] || exit 0
echo
for b in "$@"; do
  names="few-$b"
  for a in "$@"; do [ "$a" = "$b" ] || names="$names $a-to-$b"; done
  # shellcheck disable=SC2086
  scores "$b" $names > "$folder/few-$b.scores"
done
line "before $few records a task" "$@"
rule "$@"
printf '| nothing |'
for b in "$@"; do printf ' %s |' "$(sed -n 1p "$folder/few-$b.scores")"; done
echo
for a in "$@"; do
  printf '| %s |' "$a"
  for b in "$@"; do
    row=1
    for c in "$@"; do
      [ "$c" = "$b" ] && continue
      row=$((row + 1))
      [ "$c" = "$a" ] && printf ' %s |' "$(sed -n "${row}p" "$folder/few-$b.scores")"
    done
    [ "$a" = "$b" ] && printf ' |'
  done
  echo
done
