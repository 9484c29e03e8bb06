#!/bin/sh
# rpm.sh PROGRAMS OUT [PACKAGE...]
# Makes RPM packages of what packaging/files.txt says, from built programs, with rpmbuild. Descriptions, and which package
# needs which, are those of the Debian packages. warrener-init is none of them: its entries are for Debian's GRUB. The same
# programs and SOURCE_DATE_EPOCH give the same files; the header names the time of SOURCE_DATE_EPOCH.
set -eu
umask 022
programs=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2046 # a list
[ $# -gt 0 ] || set -- $(awk '!/^#/ && NF && $1 != "warrener-init" && !seen[$1]++ { print $1 }' "$top/packaging/files.txt")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C SYMBOLS=no
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is run when a package comes, is upgraded (a second one is there) or goes.
scripts() {
    case $1 in
        warrener)
            printf '%%post\ncase "$1:$(readlink /proc/1/exe 2>/dev/null)" in\n'
            printf '    [2-9]*:/usr/lib/warren/warren-init*) /usr/bin/warren reexec || : ;;\nesac\n'
            printf '%%preun\ncase "$1:$(readlink /proc/1/exe 2>/dev/null)" in\n'
            printf '    0:/usr/lib/warren/warren-init*) echo "warrener: it is the init of this machine" >&2; exit 1 ;;\nesac\n'
            ;;
        warrener-journal) printf '%%post\nsystemd-sysusers warrener.conf || :\nsystemctl daemon-reload >/dev/null 2>&1 || :\n' ;;
        *) printf '%%post\nsystemctl daemon-reload >/dev/null 2>&1 || :\n' ;;
    esac
}

for package in "$@"; do
    control=$top/packaging/deb/$package/control
    tree=$work/$package
    sh "$top/scripts/stage.sh" "$tree" /usr "$programs" "$package"
    find "$tree" -path '*/share/man/*' -type f -exec gzip -9n {} +
    {
        printf 'Name: %s\nVersion: %s\nRelease: 1\nLicense: MIT OR Apache-2.0\nAutoReqProv: no\n' "$package" "$version"
        sed -n 's/^Description: /Summary: /p' "$control"
        # Of our own packages: names of others differ between distributions.
        sed -n 's/^Depends: //p' "$control" | tr ',' '\n' | sed -n "s/^ *\(warrener[a-z-]*\) (= @VERSION@)/Requires: \1 = $version/p"
        printf '%%description\n'
        sed -n '/^Description:/,$ { /^Description:/d; s/^ \.$//; s/^ //; p }' "$control"
        printf '%%install\ncp -a %s/. %%{buildroot}/\n' "$tree"
        scripts "$package"
        printf '%%files\n%%defattr(-,root,root)\n'
        (cd "$tree" && find . ! -type d | sed 's/^\.//' | sort)
        if [ -d "$tree/var/log/warren" ]; then echo "%dir /var/log/warren"; fi
    } > "$work/$package.spec"
    rpmbuild -bb --quiet --target "$(uname -m)" --define "_topdir $work/build" --define "_rpmdir $work/rpms" \
        --define "_buildhost warrener" --define "use_source_date_epoch_as_buildtime 1" \
        --define "clamp_mtime_to_source_date_epoch 1" --define "__os_install_post %{nil}" \
        --define "_build_id_links none" --define "debug_package %{nil}" --define "_binary_payload w9.xzdio" \
        --define "_dbpath $work/db" "$work/$package.spec" >/dev/null
    file=$(find "$work/rpms" -name "$package-$version-1.*.rpm")
    cp "$file" "$out/"
    printf '%s: %s KiB\n' "$package" "$(du -k --apparent-size "$file" | cut -f 1)"
done
