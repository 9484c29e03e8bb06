# What scripts/try-host.sh has the machine do at each of its boots; not to be run elsewhere.
set -eu
exec >/dev/console 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive
step=$(cat /trial/step)
echo $((step + 1)) > /trial/step
sync
say() { echo "TRIAL $step $*"; }
fail() { say "FAILED: $*"; systemctl --no-block poweroff; exit 1; }
trap '[ $? = 0 ] || say "a command failed"' EXIT
is_warrener() { case $(readlink /proc/1/exe) in */warren-init) true ;; *) false ;; esac; }
is_try() { grep -qw warren.try /proc/cmdline; }
reboot() { sync; systemctl --no-block reboot; }

case $step in
    0)
        if is_warrener; then fail "it is Warrener"; fi
        dpkg -i /trial/grub/*.deb >/tmp/said || fail "GRUB: $(cat /tmp/said)"
        grub-install --target=i386-pc /dev/vda
        update-grub
        dpkg -i /trial/*.deb >/tmp/said || fail "packages: $(cat /tmp/said)"
        grep -q "'warrener-try'" /boot/grub/grub.cfg || fail "no entry in GRUB's menu"
        say "systemd, packages installed; $(warren host status | head -n 1)"
        warren host try
        say "$(warren host status | head -n 1)"
        reboot
        ;;
    1)
        if ! is_warrener || ! is_try; then fail "it is not a try: $(cat /proc/cmdline)"; fi
        say "Warrener, not confirmed, $(cut -d . -f 1 /proc/uptime) s after its boot; $(warren host status | tail -n 1)"
        systemctl is-active --quiet warren-host-fallback.timer || fail "no fallback waits"
        ;;
    2)
        if is_warrener; then fail "it is Warrener again"; fi
        say "systemd, by the fallback"
        warren host try
        say "$(warren host status | head -n 1); $(grub-editenv - list | tr '\n' ' ')"
        reboot
        ;;
    3)
        if ! is_warrener || ! is_try; then fail "it is not a try: $(cat /proc/cmdline)"; fi
        warren host confirm
        # Longer than to the fallback.
        while [ "$(cut -d . -f 1 /proc/uptime)" -lt 200 ]; do sleep 5; done
        say "Warrener, confirmed and still up after $(cut -d . -f 1 /proc/uptime) s"
        systemctl start warren-exporter.socket
        bash -c 'exec 3<>/dev/tcp/127.0.0.1/19533; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' > /tmp/metrics
        grep -q '^warren_up 1' /tmp/metrics || fail "metrics: $(head -n 20 /tmp/metrics)"
        say "$(grep -c '^warren_' /tmp/metrics) series from warren-exporter.socket"
        warren host adopt
        say "$(warren host status | head -n 1)"
        reboot
        ;;
    4)
        if ! is_warrener || is_try; then fail "it is not the default: $(cat /proc/cmdline)"; fi
        before=$(pgrep -x warrend)
        dpkg -i /trial/*.deb >/tmp/said || fail "packages: $(cat /tmp/said)"
        [ "$(pgrep -x warrend)" != "$before" ] || fail "the upgrade left the old manager"
        if dpkg -r --force-depends warrener >/tmp/said; then fail "the init that runs was removed"; fi
        say "Warrener by default; upgraded under its units; its removal was refused"
        warren host release
        say "$(warren host status | head -n 1)"
        reboot
        ;;
    5)
        if is_warrener; then fail "it is Warrener again"; fi
        dpkg -P warrener-init warrener-web warrener-exporter warrener-hosts warrener warrener-journal >/tmp/said || fail "purge: $(cat /tmp/said)"
        if grep -i warren /boot/grub/grub.cfg; then fail "GRUB still has entries"; fi
        say "systemd; packages purged"
        say "done"
        systemctl --no-block poweroff
        ;;
esac
