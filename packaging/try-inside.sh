# What scripts/try-packages.sh does inside the root file system; not to be run elsewhere.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive
packages=$(for deb in /mnt/debs/*.deb; do dpkg-deb --field "$deb" Package; done)

# All there is where packages may write, but for what dpkg and its triggers keep of any package, and users: those stay after a purge (Debian
# policy 9.2.2), since files may be theirs.
all() {
    find /boot /etc /usr /var -xdev \( -path /var/lib/dpkg -o -path /var/cache -o -path /var/tmp \
        -o -path '/var/log/dpkg.log' -o -path '/etc/group*' -o -path '/etc/gshadow*' -o -path '/etc/passwd*' \
        -o -path '/etc/shadow*' -o -path '/etc/.pwd.lock' -o -path '/etc/subuid*' -o -path '/etc/subgid*' \) \
        -prune -o -print | sort
}
fail() { echo "try-packages: $*" >&2; exit 1; }
there() { [ -e "$1" ] || fail "$1 is not there $2"; }

# As on a machine with GRUB: what is asked of it is written down. A real update-grub runs the files in /etc/grub.d.
mkdir -p /boot/grub
: > /boot/grub/grub.cfg
if ! command -v update-grub >/dev/null; then
    printf '#!/bin/sh\necho update-grub >> /tmp/grub\n' > /usr/sbin/update-grub
    chmod 755 /usr/sbin/update-grub
fi
rm -f /tmp/grub
all > /tmp/before

install() { dpkg -i /mnt/debs/*.deb >/tmp/said 2>&1 || { cat /tmp/said; fail "cannot install"; }; }

install
there /usr/lib/warren/warrend "after the install"
there /etc/grub.d/11_warrener "after the install"
there /usr/lib/warren/system/sysinit.target.wants/systemd-journald.service "after the install"
there /var/log/warren "after the install"
grep -q '^warren-journal-gateway:' /etc/passwd || fail "sysusers.d was not acted on"
if [ -n "$(find /etc/systemd -name 'warren*')" ]; then fail "a service was enabled"; fi
if [ -e /tmp/grub ]; then [ "$(wc -l < /tmp/grub)" = 1 ] || fail "the menu was not made once: $(cat /tmp/grub)"; fi
# shellcheck disable=SC2086 # a list
dpkg --verify $packages >/tmp/said || fail "dpkg --verify: $(cat /tmp/said)"

# An upgrade keeps what the administrator changed, and what was logged.
echo '# changed' >> /etc/grub.d/11_warrener
mkdir -p /etc/default/grub.d
echo GRUB_DEFAULT=warrener > /etc/default/grub.d/warrener.cfg
echo log > /var/log/warren/kept
install
grep -q '# changed' /etc/grub.d/11_warrener || fail "the upgrade has overwritten a changed conffile"
there /var/log/warren/kept "after the upgrade"
there /etc/default/grub.d/warrener.cfg "after the upgrade"

# shellcheck disable=SC2086 # a list
dpkg -r $packages >/tmp/said 2>&1 || { cat /tmp/said; fail "cannot remove"; }
if [ -e /usr/lib/warren/warren-init ]; then fail "the init is there after the removal"; fi
if [ -e /etc/default/grub.d/warrener.cfg ]; then fail "GRUB still boots it after the removal"; fi
there /var/log/warren/kept "after the removal"
# The entry that stays as a conffile makes no menu entry without the init.
pkgdatadir=/usr/share/grub sh /etc/grub.d/11_warrener > /tmp/said 2>&1 || fail "the entry fails without the init"
if [ -s /tmp/said ]; then fail "an entry without an init: $(cat /tmp/said)"; fi

# shellcheck disable=SC2086 # a list
dpkg -P $packages >/tmp/said 2>&1 || { cat /tmp/said; fail "cannot purge"; }
rmdir /etc/default/grub.d 2>/dev/null || true
all > /tmp/after
diff /tmp/before /tmp/after > /tmp/said || fail "the purge leaves, or takes: $(head -n 20 /tmp/said)"
echo "installed, upgraded, removed and purged: nothing is left"
