#!/bin/sh
# One candidate of every part of the GPU schedule library under compute-sanitizer.
#
#   bench/sanitize.sh [-b TESSERA] [-t memcheck,racecheck] [-l SECONDS] [-j JOBS]
#
# Each operation below is timed briefly with its default schedule on the machine's GPU, once for each
# tool of -t, and its result compared with the processor's. Prints a line for each run and fails if
# one is not clean. Sizes are odd, so that every tile has edges. Without a GPU or without
# compute-sanitizer it says so and leaves with status 77 (skipped). -l ends after so many seconds
# (default: none); what was not run is said. -j runs so many at once (default 1).
set -u

tessera=build/release/bin/tessera
tools=memcheck,racecheck
limit=0
jobs=1
while getopts b:t:l:j:h option; do
  case $option in
    b) tessera=$OPTARG ;;
    t) tools=$OPTARG ;;
    l) limit=$OPTARG ;;
    j) jobs=$OPTARG ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

skip() {
  echo "skipped: $1"
  exit 77
}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
[ -n "$sanitizer" ] || skip "no compute-sanitizer"
[ -e /dev/nvidiactl ] || nvidia-smi -L > /dev/null 2>&1 || skip "no NVIDIA GPU"

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT INT TERM

# What it exercises, then the operation.
cat > "$folder/operations" <<'END'
threads matmul:M=70,N=72,K=65
threads_turned matmul:M=1024,N=1024,K=256
threads_odd_rows dense:M=128,N=50257,K=64
threads_parts conv2d:N=1,H=7,W=7,CI=256,CO=96,KH=3,KW=3,S=1,P=1
threads_groups conv2d:N=1,H=14,W=14,CI=256,CO=500,KH=1,KW=1,S=2
threads_windows conv2d:N=1,H=30,W=30,CI=3,CO=20,KH=7,KW=7,S=2,P=3
threads_batch bmm:B=3,M=33,N=40,K=24
transform conv2d:N=1,H=13,W=13,CI=32,CO=36,KH=3,KW=3,S=1,P=1,algo=winograd4
grouped conv2d:N=1,H=9,W=9,CI=32,CO=32,KH=3,KW=3,S=1,P=1,G=4
transposed conv_transpose2d:N=1,H=9,W=9,CI=16,CO=24,KH=4,KW=4,S=2,P=1
depthwise depthwise:N=1,H=15,W=15,C=36,KH=3,KW=3,S=1,P=1
pool maxpool2d:N=1,H=15,W=15,C=36,KH=3,KW=3,S=2,P=1
columns globalavgpool:N=1,H=7,W=7,C=96
rows softmax:R=33,C=1000
norm layernorm:R=33,C=770
elements eltwise:N=1000,fn=relu
transpose transpose:A=65,B=70,C=1,perm=102
gather gather:R=30,C=70,I=9
attention_f32 attention:B=2,M=33,N=40,D=64
attention_f16 attention:B=2,M=48,N=40,D=64,dtype=f16
tensor_f16 matmul:M=70,N=72,K=64,dtype=f16
tensor_bf16 matmul:M=70,N=72,K=64,dtype=bf16
tensor_parts matmul:M=48,N=64,K=2048,dtype=f16
tensor_windows conv2d:N=1,H=14,W=14,CI=64,CO=48,KH=3,KW=3,S=1,P=1,dtype=f16
tensor_strided conv2d:N=1,H=15,W=15,CI=64,CO=48,KH=3,KW=3,S=2,P=1,dtype=f16
tensor_bytes matmul:M=70,N=72,K=64,dtype=i8,TB=1
gathered conv2d:N=1,H=30,W=30,CI=3,CO=64,KH=7,KW=7,S=2,P=3,dtype=f16,algo=im2col
groups_f16 matmul:M=200,N=264,K=256,dtype=f16
groups_odd_rows dense:M=130,N=1025,K=256,dtype=f16
groups_bf16x6 dense:M=130,N=520,K=256,algo=bf16x6
own_warps dense:M=127,N=3068,K=256
own_groups dense:M=128,N=2304,K=256
END

cat > "$folder/one.sh" <<'END'
#!/bin/sh
# one.sh FOLDER SANITIZER TESSERA TOOL END PART OPERATION
out=$1/$4.$6
if [ "$5" -gt 0 ] && [ "$(date +%s)" -ge "$5" ]; then
  echo "NOT RUN $4 $6 $7"
  exit 1
fi
timeout 120 "$2" --tool "$4" --target-processes all "$3" bench --op "$7" --target cuda \
  --schedule default --peers none --samples 1 --time-limit 100ms > "$out" 2>&1
status=$?
summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out" | sed 's/^=* *//' | sort -u | tr '\n' ' ')
case $summary in
  *'SUMMARY: 0 '*) clean=1 ;;
  *) clean=0 ;;
esac
echo "$summary" | grep -Eq 'SUMMARY: [1-9]' && clean=0
if [ $clean = 1 ] && [ $status = 0 ]; then
  echo "clean $4 $6 $7"
else
  echo "FAILED $4 $6 $7 (status $status): $summary$(grep -Ev '^=' "$out" | tail -n 2 | tr '\n' ' ')"
  grep -E '^=+ *(Error|Invalid|Race|Warning)' "$out" | head -n 5
  exit 1
fi
END

end=0
[ "$limit" -gt 0 ] && end=$(($(date +%s) + limit))
for tool in $(echo "$tools" | tr ',' ' '); do
  while read -r part operation; do
    printf '%s\0' "$folder" "$sanitizer" "$tessera" "$tool" "$end" "$part" "$operation"
  done < "$folder/operations"
done > "$folder/arguments"
xargs -0 -P "$jobs" -n 7 sh "$folder/one.sh" < "$folder/arguments" > "$folder/results"
failed=$?
cat "$folder/results"
[ $failed = 0 ] || exit 1
