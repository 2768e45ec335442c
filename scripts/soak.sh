#!/usr/bin/env bash
# usage: soak.sh [--minutes N] [--seed S] [--only PART,…] [--fuzz-seconds N]
#
# The long tests, all parts at the same time so that each works under the load of the others, then
# the fuzzer. Every part ends with a line that says what it did and what was lost; at the end stands
# one line with the sums. Logs: target/soak.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/lib.sh

minutes=10 seed=1 only='' fuzz=600
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "$1 needs a value"
  case $1 in
  --minutes) minutes=$2 ;;
  --seed) seed=$2 ;;
  --only) only=$2 ;;
  --fuzz-seconds) fuzz=$2 ;;
  *) die "unknown argument $1" ;;
  esac
  shift 2
done
target=${CARGO_TARGET_DIR:-target}
bin=$target/release logs=$target/soak
rm -rf "$logs"
mkdir -p "$logs"

# Name and command of each part that is wanted, started in the background.
parts=() pids=()
part() {
  local name=$1
  shift
  case ,${only:-$name}, in *,"$name",*) ;; *) return ;; esac
  parts+=("$name")
  "$@" > "$logs/$name.log" 2>&1 &
  pids+=($!)
}
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM

# Every call of every scenario fails, is the last one, or loses power; of those that fail a sample
# once the time is over.
faults() {
  INSTANCEFS_UNTIL=$(($(date +%s) + minutes * 60)) INSTANCEFS_EXHAUSTIVE=1 \
    cargo test -p instancefs --lib survival:: -- --nocapture || return 1
  awk '/: [0-9]+ faults \(/ { for (i = 1; i <= NF; i++) if ($(i + 1) == "faults") f += $i }
    /(killed|cut off) at [0-9]+ steps/ { k += $(NF - 1) }
    /power lost at [0-9]+ steps/ { p += $(NF - 1) }
    END { printf "faults: %d faults, %d crashes, %d power losses, losses: 0\n", f, k, p }' \
    "$logs/faults.log"
}

# Agents with a mind: whether their saves are compared with the version that they started from.
worlds() {
  INSTANCEFS_EXHAUSTIVE=1 WORLDS_SEED=$seed \
    cargo test --release -p mount-tests --test it worlds:: -- --nocapture || return 1
  awk '/^worlds: [a-z]+: [0-9]+ saves/ { n += $3; w += $5 }
    END { printf "worlds: %d saves by agents, %d saves not as meant, within bounds\n", n, w }' "$logs/worlds.log"
}

say "soak: $minutes minutes, seed $seed, logs in $logs"
part random "$bin/soak" --only random --minutes "$minutes" --seed "$seed"
part koan "$bin/soak" --only koan --minutes "$minutes" --seed "$seed"
part model "$bin/model" 1000000 "$seed" --minutes "$minutes"
part crashes "$bin/crashes" --minutes "$minutes" --seed "$seed"
part faults faults
part worlds worlds
part sequences "$bin/sequences" 10000 "$seed"

bad=0
for i in "${!parts[@]}"; do
  name=${parts[$i]}
  if wait "${pids[$i]}"; then
    grep -E "^$name: .*(losses: 0\b|within bounds$)" "$logs/$name.log" | tail -1 > "$logs/$name.summary"
  fi
  if [ -s "$logs/$name.summary" ]; then
    cat "$logs/$name.summary"
  else
    bad=1
    printf '%s: FAILED, see %s\n' "$name" "$logs/$name.log"
    tail -5 "$logs/$name.log"
  fi
done
case ,${only:-fuzz}, in
*,fuzz,*)
  if [ "$fuzz" != 0 ]; then
    scripts/fuzz.sh all "$fuzz" | tee "$logs/fuzz.summary"
    [ "${PIPESTATUS[0]}" = 0 ] || bad=1
  fi
  ;;
esac

# The sums of everything that is counted under the same name.
cat "$logs"/*.summary 2>/dev/null | tr ',' '\n' | sed 's/^[^:]*: *//' | awk -v bad=$bad '
  $1 ~ /^[0-9]+$/ && $2 ~ /^[A-Za-z]/ && $2 != "s" {
    name = $0; sub(/^ *[0-9]+ /, "", name)
    if (!(name in sum)) order[++n] = name
    sum[name] += $1
  }
  END {
    for (i = 1; i <= n; i++) line = line (i > 1 ? ", " : "") sum[order[i]] " " order[i]
    print "soak: " line ", losses: " (bad ? "see above" : "0")
  }'
exit $bad
