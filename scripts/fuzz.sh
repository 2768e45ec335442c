#!/usr/bin/env bash
# Fuzzes one target, or all of them one after the other, for so many seconds each:
#   scripts/fuzz.sh TARGET|all SECONDS
# What is found lies in fuzz/artifacts/TARGET. The last lines, one for each target, are
#   fuzz TARGET: N runs, N s, crashes: N
# and the exit code is 1 when there was a crash. Settings:
#   FUZZ_JOBS=1      processes for each target
#   FUZZ_MERGE=1     keep the inputs that reach something new in fuzz/corpus/TARGET, minimised
#   FUZZ_DIR         where the build and the growing corpora are (the target directory)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
target=${1:?"usage: scripts/fuzz.sh TARGET|all SECONDS"}
seconds=${2:?"usage: scripts/fuzz.sh TARGET|all SECONDS"}
jobs=${FUZZ_JOBS:-1}
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
  local name=$1 grown=$2 least
  least=$(mktemp -d "$dir/least-XXXXXX") || return 1
  TMPDIR=$scratch "$dir/$host/release/$name" -set_cover_merge=1 -timeout=5 -rss_limit_mb=1024 "$least" \
    "fuzz/corpus/$name" "$grown" > "$dir/$name.merge.log" 2>&1 || return 1
  find "fuzz/corpus/$name" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
  (cd "$least" && ls -rS | head -n "$kept") | while read -r file; do
    cmp -s "$least/$file" "fuzz/corpus/$name/$file" ||
      sum=$(cd "fuzz/corpus/$name" && sha1sum -- * | grep -c "^$file ") || true
    [ "${sum:-0}" = 0 ] && cp "$least/$file" "fuzz/corpus/$name/$file"
  done
  rm -rf "$least"
}
# Inputs that are kept for a target, beside those with names.
kept=80
summary=() bad=0
for name in $targets; do
  grown=$dir/corpus/$name artifacts=fuzz/artifacts/$name
  mkdir -p "$grown" "$artifacts"
  log=$dir/$name.log
  : > "$log"
  options=(-max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=512
    -max_len="$(largest "$name")" -artifact_prefix="$artifacts/" -print_final_stats=1 -use_value_profile=1)
  [ -f "fuzz/dictionaries/$name" ] && options+=(-dict="fuzz/dictionaries/$name")
  begin=$SECONDS
  pids=() logs=()
  for ((n = 1; n <= jobs; n++)); do
    TMPDIR=$scratch RUST_BACKTRACE=0 "$dir/$host/release/$name" "${options[@]}" "$grown" \
      "fuzz/corpus/$name" > "$log.$n" 2>&1 &
    pids+=($!) logs+=("$log.$n")
  done
  crashes=0
  for pid in "${pids[@]}"; do wait "$pid" || crashes=$((crashes + 1)); done
  cat "${logs[@]}" > "$log"
  rm -f "${logs[@]}"
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | awk '{n += $1} END {print n + 0}')
  if [ "$crashes" -gt 0 ]; then
    bad=1
    grep -aE 'panicked at|ERROR: libFuzzer|SUMMARY|Test unit written|Base64' -A 3 "$log" | head -60
  elif [ "${FUZZ_MERGE:-0}" = 1 ]; then
    keep "$name" "$grown" || bad=1
  fi
  summary+=("fuzz $name: $runs runs, $((SECONDS - begin)) s, crashes: $crashes")
  if [ "$crashes" -gt 0 ]; then
    while read -r file; do summary+=("  $file"); done < <(sed -n 's/.*Test unit written to //p' "$log")
  fi
done
printf '%s\n' "${summary[@]}"
exit $bad
