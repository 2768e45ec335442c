#!/usr/bin/env bash
# Everything that can be checked without a mount. Runs all checks, then says which failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
need python3:python3
bad=()
step() {
  local name=$1
  shift
  say "== $name"
  "$@" || bad+=("$name")
}

cli_page() {
  cargo build --quiet --bin instancefs || return 1
  local fresh
  fresh=$("$(target_dir)/debug/instancefs" markdown-help) || return 1
  diff -u docs/CLI.md <(printf '%s\n' "$fresh") || {
    say "docs/CLI.md is not what \`instancefs markdown-help\` prints: write it anew"
    return 1
  }
}

licences() {
  need_cargo deny || { say "cargo-deny cannot be installed: licences were NOT checked"; return 1; }
  cargo deny --all-features check licenses bans sources
}

step format cargo fmt --all --check
# fuzz/ is not shipped and not a member: its lines are formatted here, the properties that it calls
# are linted as tests, and its only dependency beside ours, libFuzzer, is nobody else's.
step format-fuzz cargo fmt --manifest-path fuzz/Cargo.toml --check
step lints cargo clippy --workspace --all-targets --quiet -- -D warnings
step docs env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
step layers python3 scripts/layers.py
step semantics python3 scripts/semantics.py
step links python3 scripts/links.py
step command-page cli_page
step licences licences
if [ ${#bad[@]} = 0 ]; then
  say "all checks passed"
else
  say "failed: ${bad[*]}"
  exit 1
fi
