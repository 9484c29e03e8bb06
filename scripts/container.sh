#!/bin/sh
# container.sh PROGRAMS OUT
# Makes the root file system of a container that has Warrener and nothing else, for packaging/Containerfile.
set -eu
umask 022
programs=$1 out=$2
top=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$out"
SYMBOLS=no sh "$top/scripts/stage.sh" "$out" /usr "$programs" warrener warrener-journal
install -D -m 644 -t "$out/usr/lib/systemd/system" "$top"/packaging/container/*.target
ln -s multi-user.target "$out/usr/lib/systemd/system/default.target"
# A container's log is kept in memory, and its output shown by the runtime.
rm -rf "${out:?}/var" "$out/usr/share"
printf 'container: %s KiB in %s\n' "$(du -k -s --apparent-size "$out" | cut -f 1)" "$out"
