#!/usr/bin/env bash
# Builds everything and runs every test. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
begin=$SECONDS
(scripts/setup.sh) || exit 1
need_rust
# First the binary: mount tests run it, and refuse one that is older than its sources.
cargo build --workspace --bins || exit 1
cargo nextest run --no-run --workspace --profile ci || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo nextest run --workspace --profile ci "$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
scripts/clean-mounts.sh --report || code=1
say "took $((SECONDS - begin)) s"
python3 scripts/count.py "$log" || code=1
exit "$code"
