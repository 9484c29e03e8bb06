#!/bin/sh
# Installs the Debian programs that tests compare with, as root: a test whose program is missing says
# NOT RUN and passes. What cannot be had is said, and is no failure.
set -eu

packages="systemd systemd-journal-remote dbus polkitd python3-systemd icinga2-bin chromium
    lvm2 mdadm e2fsprogs btrfs-progs xfsprogs fuse3 qemu-system-common strace openssl curl bsdutils dpkg-dev gnupg lintian rpm"

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not root, or no apt-get: tests run with what there is" >&2
    exit 0
fi
# Prometheus and etcd are unpacked, not installed: as packages they would start servers.
peers=$(dirname "$0")/../target/peers
unpack() { # PACKAGE PROGRAM
    [ ! -x "$peers/usr/bin/$2" ] || return 0
    mkdir -p "$peers"
    download() { (cd "$peers" && apt-get download -qq "$1" && dpkg -x "$1"_*.deb . && rm "$1"_*.deb); }
    # A machine that is new, or old, has no list of packages that can be had.
    download "$1" >/dev/null 2>&1 || { apt-get update -qq && download "$1"; } || echo "not to be had: $1" >&2
}
unpack prometheus promtool
unpack etcd-server etcd
missing=""
for package in $packages; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing for comparisons:$missing"
apt-get update -qq || true
# One by one where they cannot be had together.
# shellcheck disable=SC2086 # a list of packages
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
install $missing || for package in $missing; do
    install "$package" || echo "not to be had: $package" >&2
done
