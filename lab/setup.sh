#!/bin/bash
# setup.sh   Makes the root file systems of machines once, as root and with Debian's mirrors in reach:
#   $LAB/rootfs        Debian 12 with systemd 252
#   $LAB/rootfs-sid    the newest systemd, with NEWEST=1
#   $LAB/rootfs-host   Debian 12 with what people log in by, with LOGINS=1
# Writes only below $LAB; says what is missing of this machine and installs nothing there.
H=$(cd "$(dirname "$0")" && pwd); . "$H/env.sh"; set -e
missing=
for p in debootstrap gcc python3 bc unshare nsenter; do command -v "$p" >/dev/null || missing="$missing $p"; done
[ "$(id -u)" = 0 ] || { echo "root is needed: machines have namespaces of their own" >&2; exit 1; }
[ -z "$missing" ] || { echo "missing:$missing (Debian: debootstrap gcc libc6-dev python3 bc util-linux)" >&2; exit 1; }
mkdir -p "$LAB/lab"
packages=systemd,systemd-sysv,dbus,strace,procps,psmisc,iproute2,python3-minimal,libpython3-stdlib
logins=udev,kmod,dbus-user-session,libpam-systemd,libnss-systemd,polkitd,openssh-server,openssh-client,cron,sudo
make_root() { # SUITE DIRECTORY PACKAGES: whole or not at all
  [ ! -d "$2" ] || { echo "$2 is there"; return; }
  rm -rf "$2.part"
  debootstrap --variant=minbase --include="$3" "$1" "$2.part" >"$2.log" || { tail "$2.log" >&2; exit 1; }
  mv "$2.part" "$2"; echo "made $2"
}
make_root bookworm "$LAB/rootfs" "$packages"
[ -z "$NEWEST" ] || make_root sid "$LAB/rootfs-sid" "$packages"
[ -z "$LOGINS" ] || make_root bookworm "$LAB/rootfs-host" "$packages,$logins"
