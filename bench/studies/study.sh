# What the studies share: their options, their folder, numbers of their results. A study sets `options`
# (for getopts) and its own defaults, then sources this file, which leaves the subjects in "$@".
tessera=tessera
models=shipped
threads=1
seed=1
folder=

# The comment at the head of the study.
usage() {
  sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"
}

while getopts "$options" flag; do
  case $flag in
    b) tessera=$OPTARG ;;
    m) models=$OPTARG ;;
    n) trials=$OPTARG ;;
    l) last=$OPTARG ;;
    t) threads=$OPTARG ;;
    s) seed=$OPTARG ;;
    S) sources=$OPTARG ;;
    d) folder=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
  usage >&2
  exit 2
fi
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 130' INT TERM
fi
mkdir -p "$folder"

# Results are found by the place of their subject: those of another command must not pass for them.
command="-m $models -n $trials -l ${last-} -t $threads -s $seed -S ${sources-} $*"
if [ -f "$folder/command" ] && [ "$(cat "$folder/command")" != "$command" ]; then
  echo "$folder has the results of another command ($(cat "$folder/command")): take another folder" >&2
  exit 2
fi
echo "$command" > "$folder/command"

# number NAME KEY: the number of the first line "KEY": NUMBER of NAME.json
number() {
  sed -n "s/^ *\"$2\": \([0-9.e+-]*\),*$/\1/p" "$folder/$1.json" | head -n 1
}
