#!/bin/sh
# repo.sh DEBS OUT [KEY]
# Makes a repository for apt of the packages in DEBS: Packages, Release, and with a key of gpg InRelease. The same
# packages and SOURCE_DATE_EPOCH give the same index.
set -eu
umask 022
debs=$1 out=$2 key=${3:-}
top=$(cd "$(dirname "$0")/.." && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export LC_ALL=C
rm -rf "$out"
mkdir -p "$out"
cp "$debs"/*.deb "$out/"
cd "$out"
dpkg-scanpackages --multiversion . 2>/dev/null > Packages
gzip -9nk Packages
{
    echo "Origin: Warrener"
    echo "Label: Warrener"
    echo "Architectures: $(dpkg --print-architecture)"
    echo "Date: $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
    echo "SHA256:"
    for file in Packages Packages.gz; do
        echo " $(sha256sum "$file" | cut -d ' ' -f 1) $(stat -c %s "$file") $file"
    done
} > Release
if [ -n "$key" ]; then
    gpg --batch --yes --local-user "$key" --clearsign --output InRelease Release
else
    echo "repo.sh: no KEY: the index is not signed" >&2
fi
