#!/bin/sh
# tools.sh [test]
# Installs what building, and testing if asked for, need and is missing: Debian packages (as root), and by
# rustup the toolchain that rust-toolchain.toml pins. Says what it does; does nothing twice.
set -eu
cd "$(dirname "$0")/.."

missing=""
need() { # COMMAND PACKAGE...
    command -v "$1" >/dev/null 2>&1 || { shift; missing="$missing $*"; }
}
need cc gcc libc6-dev
need curl curl ca-certificates
need git git
need python3 python3
# Tests end processes with kill(1); that of the shell is no program.
[ "${1:-}" != test ] || need ps procps
# Static programs need the C library's archive too.
[ -n "$(find /usr/lib /lib -maxdepth 2 -name libc.a 2>/dev/null)" ] || missing="$missing libc6-dev"

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing:$missing"
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of packages
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ca-certificates >/dev/null
    else
        echo "missing, and only root can install it:$missing" >&2
        exit 1
    fi
fi

PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
if ! command -v cargo >/dev/null 2>&1; then
    channel=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
    echo "installing the Rust toolchain $channel by rustup"
    init=$(mktemp -d)/rustup-init
    # The installer itself, from where the script at sh.rustup.rs would fetch it.
    curl --proto '=https' --tlsv1.2 -sSf -o "$init" \
        "https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init"
    chmod +x "$init"
    parts=$(sed -n 's/^components *= *\[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '" ')
    "$init" -y -q --no-modify-path --profile minimal --default-toolchain "$channel" \
        ${parts:+--component "$parts"}
    rm -r "${init%/*}"
fi
# With rustup, the first call installs the pinned toolchain and its components.
cargo --version >/dev/null
