#!/bin/sh
# Runs a log daemon with sockets at the usual places, in namespaces of its own (unshare -m -n), lets
# everything log to it, and exports what it recorded.
# usage: senders.sh systemd|DAEMON OUT SENDERS.PY READER
set -eu
daemon=$1 out=$2 senders=$3 reader=$4
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal /run/store
# syslog(3) knows no other place than /dev/log.
mkdir /run/dev
mount -t tmpfs -o mode=755 tmpfs /run/dev
for node in null zero full random urandom; do cp -a /dev/$node /run/dev/; done
mkdir /run/dev/shm
ln -s /proc/self/fd /run/dev/fd
ln -s /run/systemd/journal/dev-log /run/dev/log
mount --move /run/dev /dev
mount -t tmpfs tmpfs /dev/shm
if [ "$daemon" = systemd ]; then
    touch /run/systemd/journal/flushed
    printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nForwardToWall=no\nRateLimitBurst=0\n' >"$out.conf"
    mount --bind "$out.conf" /etc/systemd/journald.conf
    /lib/systemd/systemd-journald 2>/dev/null &
else
    "$daemon" --directory /run/store --socket-directory /run/systemd/journal --set RateLimitBurst=0 2>/dev/null &
fi
pid=$!
# Debian's has Debian's modules.
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
status=0
$python "$senders" || status=$?
if [ $status != 0 ]; then
    kill $pid
    exit $status
fi
if [ "$daemon" = systemd ]; then
    journal=/run/log/journal/$(cat /etc/machine-id)
    for last in line message output; do
        until journalctl -D "$journal" -o cat | grep -q "^the last $last\$"; do :; done
    done
    journalctl --sync
    journalctl -D "$journal" -o export >"$out"
    kill $pid
else
    kill $pid
    wait $pid || true
    "$reader" -D /run/store -o export >"$out"
fi
