#!/bin/sh
# try-container.sh DIR
# Runs the root file system that `make container` made, as a container runtime does: with namespaces of its own, /dev, /run
# and /sys in memory or read-only. A service of multi-user.target must come up, and SIGRTMIN+3 end the container. As root.
set -eu
from=$(cd "$1" && pwd)
work=$(mktemp -d)
inner=
trap '[ -z "$inner" ] || kill -9 "$inner" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cp -a "$from" "$work/root"
mkdir -p "$work/root/dev" "$work/root/run" "$work/root/proc" "$work/root/sys" "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../web.service "$work/root/etc/systemd/system/multi-user.target.wants/"
cat > "$work/root/etc/systemd/system/web.service" <<'END'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/warren --version
END
# The number of the container's process 1 on this side.
cat > "$work/run" <<'END'
set -eu
root=$1
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/dev"
mount -t tmpfs tmpfs "$root/run"
for device in null:1:3 zero:1:5 urandom:1:9; do
    numbers=${device#*:}
    mknod -m 666 "$root/dev/${device%%:*}" c "${numbers%:*}" "${numbers#*:}"
done
export container=podman
exec chroot "$root" /usr/lib/warren/warren-init
END
timeout --signal=KILL 60 unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child sh "$work/run" "$work/root" > "$work/console" 2>&1 &
outer=$!
say() { nsenter --target "$inner" --mount --pid chroot "/proc/$inner/root" /usr/bin/warren "$@"; }
until [ -n "$inner" ] && say status web.service 2>/dev/null | grep -q '(exited)'; do
    kill -0 "$outer" || { cat "$work/console"; echo "try-container: it ended" >&2; exit 1; }
    # The one child of unshare, which is that of timeout.
    child=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null | tr -d ' ')
    inner=$(cat "/proc/$child/task/$child/children" 2>/dev/null | tr -d ' ') || inner=
done
kill -s RTMIN+3 "$inner"
inner=
status=0
wait "$outer" || status=$?
cat "$work/console"
# The kernel ends process 1 of a namespace that is halted with SIGINT; reboot(2).
[ "$status" = 130 ] || { echo "try-container: status $status" >&2; exit 1; }
grep -q 'The system is down' "$work/console"
echo "a service came up, and SIGRTMIN+3 ended the container"
