#!/bin/sh
# try-packages.sh DEBS [ROOT]
# Installs, upgrades, removes and purges the packages in DEBS, in a copy of a Debian root file system that is thrown away:
# of ROOT, or of this machine's. Everything is written to memory, in a mount namespace and a PID namespace of its own.
# Fails when a step does, or when something is left after the purge. As root.
set -eu
debs=$(cd "$1" && pwd) root=${2:-/}
top=$(cd "$(dirname "$0")/.." && pwd)
where=$(mktemp -d)
trap 'rmdir "$where"' EXIT
unshare --mount --pid --fork --kill-child --net sh -eu -c '
    debs=$1 root=$2 script=$3 where=$4
    mount -t tmpfs tmpfs "$where"
    mkdir "$where/upper" "$where/work" "$where/root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$where/upper,workdir=$where/work" "$where/root"
    mount -t proc proc "$where/root/proc"
    mount -t tmpfs tmpfs "$where/root/dev"
    mknod -m 666 "$where/root/dev/null" c 1 3
    mkdir -p "$where/root/mnt/debs"
    mount --bind "$debs" "$where/root/mnt/debs"
    cp "$script" "$where/root/mnt/inside.sh"
    chroot "$where/root" /bin/sh -eu /mnt/inside.sh
' sh "$debs" "$root" "$top/packaging/try-inside.sh" "$where"
