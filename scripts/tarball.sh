#!/bin/sh
# tarball.sh PROGRAMS OUT
# Makes warrener-VERSION-MACHINE.tar.gz of all that `make install` installs below /usr, to be unpacked at the root of any
# file system. The same programs and SOURCE_DATE_EPOCH give the same bytes.
set -eu
umask 022
programs=$1 out=$2
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C SYMBOLS=no
name=warrener-$version-$(uname -m)
tree=$out/$name
rm -rf "$tree"
sh "$top/scripts/stage.sh" "$tree" /usr "$programs"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$tree" -cf - . |
    gzip -9n > "$out/$name.tar.gz"
rm -rf "$tree"
printf '%s: %s KiB\n' "$name.tar.gz" "$(du -k --apparent-size "$out/$name.tar.gz" | cut -f 1)"
