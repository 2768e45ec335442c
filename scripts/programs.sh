#!/usr/bin/env bash
# Installs what the program matrix runs (mount-tests/tests/programs): editors and tools by the
# package manager, and beside the build what no package manager has. Running it again installs
# only what is missing. With --table it runs the matrix and writes the table of docs/SAVES.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

need vim:vim nvim:neovim nano:nano emacs:emacs-nox micro:micro kak:kakoune joe:joe ed:ed \
  mcedit:mc sponge:moreutils gawk:gawk rsync:rsync patch:patch busybox:busybox git:git \
  perl:perl jq:jq sqlite3:sqlite3 tar:tar go:golang-go python3:python3 node:nodejs npm:npm

# The matrix looks for these in INSTANCEFS_PROGRAMS, else in `programs` in the build directory.
there=${INSTANCEFS_PROGRAMS:-$(target_dir)/programs}
mkdir -p "$there"
there=$(cd "$there" && pwd)
# chokidar is the watcher of most programs for Node, in the two forms that are in use. All at once:
# npm removes what it was not asked for.
if [ ! -d "$there/node_modules/chokidar4" ]; then
  npm install --prefix "$there" --no-audit --no-fund --no-save --silent \
    write-file-atomic@5.0.1 chokidar@3.6.0 chokidar4@npm:chokidar@4.0.3 ||
    die "npm cannot install write-file-atomic and chokidar"
fi
if [ ! "$there/save-go" -nt mount-tests/programs/save.go ]; then
  GO111MODULE=off go build -o "$there/save-go" mount-tests/programs/save.go ||
    die "go cannot build mount-tests/programs/save.go"
fi
# Test suites for file systems, from crates.io.
for suite in pjdfstest@0.2.2 fsx@0.3.2; do
  [ -x "$there/bin/${suite%@*}" ] && continue
  say "installing $suite (once)"
  CARGO_TARGET_DIR="$there/build" cargo install --locked --quiet --root "$there" "$suite" \
    </dev/null >&2 || die "cargo cannot install $suite"
done
# Python's own tests; Debian keeps them in a package of their own.
if ! python3 -c 'import test.test_os' 2>/dev/null; then
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends libpython3-testsuite </dev/null >&2 || true
  python3 -c 'import test.test_os' || die "python3 has no tests of its own (libpython3-testsuite)"
fi

[ "${1:-}" = --table ] || exit 0
rm -rf "$there/rows"
cargo build --workspace --bins
cargo nextest run -p mount-tests --test programs
INSTANCEFS_WRITE_DOCS=1 cargo run -q -p mount-tests --bin saves-table
