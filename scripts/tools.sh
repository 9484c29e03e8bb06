#!/bin/sh
# tools.sh [test | deny]
# Installs what building, and testing or cargo-deny if asked for, need and is missing: Debian packages (as root), and by
# rustup the toolchain that rust-toolchain.toml pins. Says what it does; does nothing twice. What is fetched has a
# checksum: here, in apt's lists, in the release that rustup-init names, or in the index of crates.
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
# Tests end processes with kill(1); that of the shell is not a program.
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
    # The installer itself, of one version, so that its checksum is known: rustup/archive/VERSION/TARGET/rustup-init.sha256.
    version=1.28.2
    case $(uname -m) in
        x86_64) sum=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c ;;
        aarch64) sum=e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c ;;
        *) echo "no checksum of rustup-init is known for $(uname -m): install the toolchain $channel by hand" >&2; exit 1 ;;
    esac
    curl --proto '=https' --tlsv1.2 -sSf -o "$init" \
        "https://static.rust-lang.org/rustup/archive/$version/$(uname -m)-unknown-linux-gnu/rustup-init"
    echo "$sum  $init" | sha256sum --check --quiet || { rm -r "${init%/*}"; exit 1; }
    chmod +x "$init"
    parts=$(sed -n 's/^components *= *\[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '" ')
    "$init" -y -q --no-modify-path --profile minimal --default-toolchain "$channel" \
        ${parts:+--component "$parts"}
    rm -r "${init%/*}"
fi
# With rustup, the first call installs the pinned toolchain and its components.
cargo --version >/dev/null
if [ "${1:-}" = deny ] && ! command -v cargo-deny >/dev/null 2>&1; then
    echo "installing cargo-deny"
    cargo install --quiet --debug --locked cargo-deny@0.20.2
fi
