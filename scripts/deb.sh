#!/bin/sh
# deb.sh PROGRAMS OUT [PACKAGE...]
# Makes Debian packages of what packaging/files.txt says, from built programs, with dpkg-deb alone. The same programs
# and SOURCE_DATE_EPOCH (by default the time of the last commit) give the same bytes.
set -eu
umask 022
programs=$1 out=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2046 # a list
[ $# -gt 0 ] || set -- $(awk '!/^#/ && NF && !seen[$1]++ { print $1 }' "$top/packaging/files.txt")
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)}
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C SYMBOLS=no
maintainer="The developers of Warrener <warrener@example.org>"
mkdir -p "$out"

changelog() {
    echo "$1 ($version) unstable; urgency=medium"
    printf '\n  * See CHANGELOG.md.\n\n'
    echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

for package in "$@"; do
    from=$top/packaging/deb/$package
    tree=$out/$package
    rm -rf "$tree" "$out/${package}_"*.deb
    sh "$top/scripts/stage.sh" "$tree" /usr "$programs" "$package"
    doc=$tree/usr/share/doc/$package
    # Debian keeps the text of Apache-2.0 for all, and wants long texts compressed.
    rm "$doc/LICENSE-APACHE"
    cp "$top/packaging/deb/copyright" "$doc/copyright"
    mv "$doc/CHANGELOG.md" "$doc/NEWS.md"
    changelog "$package" > "$doc/changelog"
    gzip -9n "$doc/NEWS.md" "$doc/changelog"
    find "$tree" -path '*/share/man/*' -type f -exec gzip -9n {} +
    if grep -q "^$package program " "$top/packaging/files.txt"; then
        install -d "$tree/usr/share/lintian/overrides"
        sed "s/@PACKAGE@/$package/" "$top/packaging/deb/lintian-overrides" \
            > "$tree/usr/share/lintian/overrides/$package"
    fi
    install -d "$tree/DEBIAN"
    size=$(du -k -s --apparent-size "$tree" | cut -f 1)
    sed -e "s/@VERSION@/$version/" "$from/control" | awk -v version="$version" -v architecture="$architecture" \
        -v maintainer="$maintainer" -v size="$size" '
        { print }
        /^Package:/ { print "Version: " version; print "Architecture: " architecture; print "Maintainer: " maintainer
            print "Installed-Size: " size; print "Homepage: https://example.org/warrener" }' > "$tree/DEBIAN/control"
    (cd "$tree" && find usr etc var -type f 2>/dev/null | grep -v '^etc/' | sort | xargs -r -d '\n' md5sum) \
        > "$tree/DEBIAN/md5sums"
    for script in preinst postinst prerm postrm; do
        if [ -e "$from/$script" ]; then install -m 755 "$from/$script" "$tree/DEBIAN/$script"; fi
    done
    if [ -e "$from/conffiles" ]; then install -m 644 "$from/conffiles" "$tree/DEBIAN/conffiles"; fi
    find "$tree" -depth -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/${package}_${version}_$architecture.deb" >/dev/null
    rm -rf "$tree"
    printf '%s: %s KiB, installed %s KiB\n' "$package" \
        "$(du -k --apparent-size "$out/${package}_${version}_$architecture.deb" | cut -f 1)" "$size"
done
