#!/usr/bin/env bash
# Installs what the program matrix runs (mount-tests/tests/programs): editors and tools by apt,
# and beside the build what no package manager has. Running it again installs only what is
# missing. With --table it runs the matrix and writes docs/SAVES.md.
set -euo pipefail
cd "$(dirname "$0")/.."

# command:package
wanted=(
    vim:vim nvim:neovim nano:nano emacs:emacs-nox micro:micro kak:kakoune joe:joe ed:ed
    mcedit:mc sponge:moreutils gawk:gawk rsync:rsync patch:patch busybox:busybox git:git
    perl:perl jq:jq sqlite3:sqlite3 tar:tar go:golang-go python3:python3 node:nodejs npm:npm
)
missing=()
for pair in "${wanted[@]}"; do
    command -v "${pair%%:*}" > /dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    command -v apt-get > /dev/null || {
        echo "programs.sh: please install: ${missing[*]}" >&2
        exit 1
    }
    "${as_root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq \
        --no-install-recommends "${missing[@]}"
fi

# The matrix looks for these in INSTANCEFS_PROGRAMS, else in `programs` in the build directory.
there=${INSTANCEFS_PROGRAMS:-${CARGO_TARGET_DIR:-target}/programs}
mkdir -p "$there"
there=$(cd "$there" && pwd)
if ! [ -d "$there/node_modules/write-file-atomic" ]; then
    npm install --prefix "$there" --no-audit --no-fund --no-save --silent write-file-atomic@5.0.1
fi
if ! [ "$there/save-go" -nt mount-tests/programs/save.go ]; then
    GOFLAGS=-mod=mod GO111MODULE=off go build -o "$there/save-go" mount-tests/programs/save.go
fi

if [ "${1:-}" = --table ]; then
    rm -rf "$there/rows"
    cargo nextest run -p mount-tests --test programs
    INSTANCEFS_WRITE_DOCS=1 cargo run -q -p mount-tests --bin saves-table
fi
