#!/usr/bin/env bash
# Fuzzes one target, or all of them, for so many seconds each:
#   scripts/fuzz.sh TARGET|all SECONDS
# What is found lies in fuzz/artifacts/TARGET. The last lines, one for each target, are
#   fuzz TARGET: N runs, N s, crashes: N
# followed by the inputs, if there are any; the exit code is then 1. Settings:
#   FUZZ_AT_ONCE     targets that run at the same time (one for each processor)
#   FUZZ_MERGE=1     keep the inputs that reach something new in fuzz/corpus/TARGET, minimised
#   FUZZ_TIMEOUT     seconds that one input may take (30: other programs may be at work too)
#   FUZZ_DIR         where the build and the growing corpora are (the target directory)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
target=${1:?"usage: scripts/fuzz.sh TARGET|all SECONDS"}
seconds=${2:?"usage: scripts/fuzz.sh TARGET|all SECONDS"}
at_once=${FUZZ_AT_ONCE:-$(nproc)}
timeout=${FUZZ_TIMEOUT:-30}
[ "$seconds" -gt 0 ] || exit 0
dir=${FUZZ_DIR:-$(target_dir)/fuzz}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
all=$(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v '^instancefs-fuzz$')
case " $(echo $all) all " in
*" $target "*) ;;
*) die "fuzz: no target $target; there are: $(echo $all)" ;;
esac
[ "$target" = all ] && targets=$all || targets=$target

# What `cargo fuzz -s none` sets: libFuzzer's coverage without a sanitizer, which a stable
# compiler has too. Only for the fuzzed code: with --target, build scripts are built without.
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares"
build=(cargo build --manifest-path fuzz/Cargo.toml --release --target "$host")
[ "$target" = all ] && build+=(--bins) || build+=(--bin "$target")
CARGO_TARGET_DIR=$dir RUSTFLAGS=$(echo $flags) "${build[@]}" || die "fuzz: cannot be built"

# Imports make files: in memory where there is such a place.
scratch=$(mktemp -d -p "$([ -d /dev/shm ] && [ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" instancefs-fuzz-XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
# The largest input, in bytes: merges of long texts find nothing that those of short ones do not.
largest() {
  case $1 in
  missions_text | config_edit) echo 4096 ;;
  *) echo 2048 ;;
  esac
}
# Keeps of what was found the inputs that together reach everything, the small ones first, and all
# that were written by hand (those have names).
keep() {
  local name=$1 grown=$2 least file
  least=$(mktemp -d "$dir/least-XXXXXX") || return 1
  TMPDIR=$scratch "$dir/$host/release/$name" -set_cover_merge=1 -timeout="$timeout" -rss_limit_mb=1024 "$least" \
    "fuzz/corpus/$name" "$grown" > "$dir/$name.merge.log" 2>&1 || return 1
  find "fuzz/corpus/$name" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
  # libFuzzer calls an input by the SHA-1 of its content.
  (cd "fuzz/corpus/$name" && sha1sum -- *) | cut -c1-40 | (cd "$least" && xargs rm -f --)
  (cd "$least" && ls -rS | head -n "$kept") | while read -r file; do
    cp "$least/$file" "fuzz/corpus/$name/$file"
  done
  rm -rf "$least"
}
# Inputs that are kept for a target, beside those with names.
kept=40

# One target; its summary goes to a file.
one() {
  local name=$1 grown=$dir/corpus/$1 artifacts=fuzz/artifacts/$1 log=$dir/$1.log begin=$SECONDS
  local crashes=0 runs took options
  mkdir -p "$grown" "$artifacts" "$scratch/$name"
  options=(-max_total_time="$seconds" -timeout="$timeout" -rss_limit_mb=1024 -max_len="$(largest "$name")"
    -artifact_prefix="$artifacts/" -print_final_stats=1 -use_value_profile=1
    -dict="fuzz/dictionaries/$name")
  TMPDIR=$scratch/$name RUST_BACKTRACE=0 "$dir/$host/release/$name" "${options[@]}" "$grown" \
    "fuzz/corpus/$name" > "$log" 2>&1 || crashes=1
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  took=$((SECONDS - begin))
  if [ "$crashes" = 0 ] && [ "${FUZZ_MERGE:-0}" = 1 ]; then keep "$name" "$grown" || crashes=1; fi
  {
    printf 'fuzz %s: %s runs, %s s, crashes: %s\n' "$name" "${runs:-0}" "$took" "$crashes"
    if [ "$crashes" != 0 ]; then
      sed -n 's/.*Test unit written to /  /p' "$log"
      grep -aE -A 2 'panicked at|ERROR: libFuzzer: (timeout|out-of)' "$log" | cut -c 1-300 | head -5
    fi
  } > "$dir/$name.summary"
}
for name in $targets; do
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  rm -f "$dir/$name.summary"
  one "$name" &
done
wait
bad=0
for name in $targets; do
  cat "$dir/$name.summary" || bad=1
  grep -q 'crashes: 0$' "$dir/$name.summary" || bad=1
done
exit $bad
