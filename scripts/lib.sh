# Shared by the scripts; source it.

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: as it is when we are root, else with sudo without a question.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif have sudo && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1
  fi
}

# Installs Debian packages, told as program:package, whose program is missing.
need() {
  local missing=() pair
  for pair in "$@"; do
    have "${pair%%:*}" || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} = 0 ] && return 0
  have apt-get || die "missing: ${missing[*]}; install them with your package manager"
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 ||
    say "apt-get update failed; trying with the lists that are here"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2 ||
    die "cannot install ${missing[*]} (as root: apt-get install ${missing[*]})"
  for pair in "$@"; do
    have "${pair%%:*}" || die "${pair#*:} is installed but there is no ${pair%%:*}"
  done
}

# A Rust toolchain that is new enough, and a C compiler for the bundled SQLite.
need_rust() {
  if ! have cargo && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  fi
  have cargo || die "cargo is missing: install Rust from https://rustup.rs"
  need cc:gcc
}

# A device to mount with.
need_fuse() {
  need fusermount3:fuse3
  if [ ! -e /dev/fuse ]; then
    as_root modprobe fuse 2>/dev/null || true
    [ -e /dev/fuse ] || as_root mknod -m 666 /dev/fuse c 10 229 2>/dev/null || true
  fi
  { : <>/dev/fuse; } 2>/dev/null ||
    die "/dev/fuse cannot be opened: load the module (modprobe fuse), or start the container" \
      "with --device /dev/fuse --cap-add SYS_ADMIN"
}

# Installs a cargo subcommand from crates.io when it is missing.
need_cargo() {
  have "cargo-$1" && return 0
  say "installing cargo-$1 (once)"
  env -u CARGO_TARGET_DIR cargo install --locked "cargo-$1" </dev/null >&2
}

# Where cargo puts what it builds.
target_dir() { printf '%s\n' "${CARGO_TARGET_DIR:-target}"; }
