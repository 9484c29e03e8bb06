#!/bin/sh
# try-host.sh DEBS ROOT
# Moves a host to Warrener by its packages and back, under QEMU: a Debian of ROOT (as `cargo xtask lab setup` makes it)
# on a disk with GRUB. It boots systemd, then Warrener for a try that nobody confirms, systemd again by the fallback,
# Warrener for a try that is confirmed, Warrener by default, and systemd after `warren host release` and a purge.
# Needs root, a kernel of Debian's in /boot, and the packages qemu-system-x86, initramfs-tools, e2fsprogs and python3.
# Everything is below a directory of its own, which goes away; CONSOLES names a directory that keeps what was on the
# consoles.
set -eu
umask 022
debs=$(cd "$1" && pwd) root=$2
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
# What is at work is ended with the script.
qemu=
trap '[ -z "$qemu" ] || kill "$qemu" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
kernel=$(find /boot -name 'vmlinuz-*' | sort -V | tail -n 1)
release=${kernel#/boot/vmlinuz-}

echo "making a disk"
cp -a "$root" "$work/root"
mkdir -p "$work/root/trial/grub/partial" "$work/root/boot/grub" "$work/root/etc/default"
cp "$debs"/*.deb "$work/root/trial/"
cp "$top/packaging/try-host-inside.sh" "$work/root/trial/run.sh"
echo 0 > "$work/root/trial/step"
apt-get -qq -y -o Dir::State::status="$work/root/var/lib/dpkg/status" -o Dir::Cache::archives="$work/root/trial/grub" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User=root --no-install-recommends --download-only install grub-pc-bin grub2-common >/dev/null
cp -r /etc/initramfs-tools "$work/initramfs"
sed -i 's/^MODULES=.*/MODULES=list/' "$work/initramfs/initramfs.conf"
rm -f "$work/initramfs"/conf.d/*
printf '%s\n' virtio_pci virtio_blk ext4 > "$work/initramfs/modules"
mkinitramfs -d "$work/initramfs" -o "$work/root/boot/initrd.img-$release" "$release" 2>/dev/null
cp "$kernel" "$work/root/boot/"
cp "$work/root/boot/initrd.img-$release" "$work/initrd"
cat > "$work/root/etc/default/grub" <<'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="console=ttyS0 rw"
GRUB_TERMINAL=serial
END
cat > "$work/root/etc/systemd/system/trial.service" <<'END'
[Unit]
After=dbus.service
[Service]
Type=oneshot
ExecStart=/bin/sh /trial/run.sh
TimeoutStartSec=300
END
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants" "$work/root/etc/systemd/system/warren-host-fallback.timer.d"
ln -sf ../trial.service "$work/root/etc/systemd/system/multi-user.target.wants/"
ln -sf /lib/systemd/system/multi-user.target "$work/root/etc/systemd/system/default.target"
# Without udev nothing tells systemd of the console.
ln -sf /dev/null "$work/root/etc/systemd/system/serial-getty@ttyS0.service"
# Nobody waits for ten minutes; an emulated machine may take one to boot.
printf '[Timer]\nOnBootSec=\nOnBootSec=180s\n' > "$work/root/etc/systemd/system/warren-host-fallback.timer.d/trial.conf"
echo "/dev/vda1 / ext4 defaults 0 1" > "$work/root/etc/fstab"
truncate -s 1500M "$work/part"
mke2fs -q -t ext4 -O ^metadata_csum_seed,^orphan_file -d "$work/root" "$work/part"
rm -rf "$work/root"
# One partition, from 1 MiB on, with room for GRUB before it.
python3 - "$work/part" "$work/disk" <<'END'
import struct, sys
size = 1500 << 11
mbr = bytearray(512)
mbr[446:462] = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", 2048, size)
mbr[510:] = b"\x55\xaa"
with open(sys.argv[1], "rb") as part, open(sys.argv[2], "wb") as disk:
    disk.write(mbr)
    at = 1 << 20
    while block := part.read(1 << 20):
        if block.strip(b"\0"):
            disk.seek(at)
            disk.write(block)
        at += len(block)
    disk.truncate(at)
END
rm "$work/part"

run() {
    name=$1 && shift
    timeout 1800 qemu-system-x86_64 -accel tcg -M q35 -cpu max -m 768 -display none -nic none \
        -serial "file:$work/$name" -drive "file=$work/disk,format=raw,if=virtio" "$@" &
    qemu=$!
    wait "$qemu" || { tail -n 40 "$work/$name"; echo "try-host: QEMU ended badly" >&2; exit 1; }
    qemu=
}
echo "booting"
run first -no-reboot -kernel "$kernel" -initrd "$work/initrd" -append "root=/dev/vda1 console=ttyS0 rw"
run second
cat "$work/first" "$work/second" | tr -d '\r' | grep -a -o 'TRIAL [0-9] .*' > "$work/said" || true
cat "$work/said"
if [ -n "${CONSOLES:-}" ]; then cp "$work/first" "$work/second" "$CONSOLES/"; fi
grep -q '^TRIAL 5 done' "$work/said" || { tail -n 60 "$work/second"; echo "try-host: it did not come to its end" >&2; exit 1; }
