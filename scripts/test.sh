#!/usr/bin/env bash
# Builds everything and runs every test. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
begin=$SECONDS
# Random cases are the same in every run, so that a run says something about the change and not
# about luck; PROPTEST_RNG_SEED=N tries others.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
(scripts/setup.sh) || exit 1
need_rust
# First the binary: mount tests run it, and refuse one that is older than its sources.
cargo build --workspace --bins || exit 1
cargo nextest run --no-run --workspace --profile ci || exit 1
# Instances of this run are made in a place of its own (not under /tmp, which editors treat
# specially), so that leftovers are ours and other runs are left alone.
INSTANCEFS_TEST_DIR=$(mktemp -d "${INSTANCEFS_TEST_DIR:-/var/tmp}/instancefs-run-XXXXXX") || exit 1
export INSTANCEFS_TEST_DIR
log=$INSTANCEFS_TEST_DIR/log
cargo nextest run --workspace --profile ci "$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
scripts/clean-mounts.sh "$INSTANCEFS_TEST_DIR" || code=1
say "took $((SECONDS - begin)) s"
python3 scripts/count.py "$log" || code=1
rm -rf --one-file-system "$INSTANCEFS_TEST_DIR"
exit "$code"
