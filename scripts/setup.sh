#!/usr/bin/env bash
# Installs what building and testing need, if it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
need_rust
need_fuse
need sqlite3:sqlite3 jq:jq vim:vim python3:python3 node:nodejs git:git perl:perl script:bsdutils \
  ps:procps flock:util-linux setpriv:util-linux mount:mount inotifywait:inotify-tools entr:entr less:less getfattr:attr \
  make:make tmux:tmux strace:strace unzip:unzip xargs:findutils parallel:parallel sudo:sudo runuser:util-linux \
  unshare:util-linux bwrap:bubblewrap
need_cargo nextest || die "cargo-nextest cannot be installed"
scripts/programs.sh
