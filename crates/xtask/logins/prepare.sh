#!/bin/sh
# prepare.sh ROOT COMMAND [USERS UNITS]: makes a root file system ready for `cargo xtask vm logins` and `bench logins`:
# users, keys, jobs of cron and the service that runs COMMAND; so many more users that linger, with as many units each,
# and ten who do not. As root.
set -eu
umask 022
root=$1 command=$2 users=${3:-0} units=${4:-0}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$root/trial" "$root/etc/systemd/logind.conf.d" "$root/etc/systemd/system/multi-user.target.wants" \
    "$root/etc/systemd/system/getty.target.wants" "$root/root/.ssh"
cp "$here/look.sh" "$here/cases.sh" "$here/measure.py" "$root/trial/"
printf '[Login]\nUserStopDelaySec=2\n' > "$root/etc/systemd/logind.conf.d/trial.conf"
printf 'd /run/trial 1777\n' > "$root/usr/lib/tmpfiles.d/trial.conf"
echo trial > "$root/etc/hostname"
printf '127.0.0.1 localhost trial\n::1 localhost\n' > "$root/etc/hosts"
echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
echo '/dev/vda / ext4 defaults 0 1' > "$root/etc/fstab"
echo 'anna ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/trial"
chmod 440 "$root/etc/sudoers.d/trial"
printf '%s\n' 'GSSAPIAuthentication no' 'UseDNS no' > "$root/etc/ssh/sshd_config.d/trial.conf"
ln -sf /lib/systemd/system/serial-getty@.service "$root/etc/systemd/system/getty.target.wants/serial-getty@ttyS2.service"
ln -sf ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
printf '[Service]\nExecStart=/bin/sleep 1000000\n' > "$root/etc/systemd/system/plain.service"

rm -f "$root/root/.ssh/id_ed25519"
ssh-keygen -q -N '' -t ed25519 -f "$root/root/.ssh/id_ed25519"
printf 'Host localhost\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n' > "$root/root/.ssh/config"
chmod 700 "$root/root/.ssh"

# user NAME NUMBER: with the password `trial`.
# shellcheck disable=SC2016 # no variables
hash='$5$trial$Cx935/ZKr1j6TSdhVyNXfu10XU3F8vT8.59qqKB/Ss1'
user() {
    echo "$1:x:$2:$2::/home/$1:/bin/bash" >> "$root/etc/passwd"
    echo "$1:x:$2:" >> "$root/etc/group"
    echo "$1:$hash:20000:0:99999:7:::" >> "$root/etc/shadow"
    mkdir -p "$root/home/$1"
}
number=1000
for name in anna bert carl dora erik frida; do
    number=$((number + 1))
    user "$name" "$number"
done
mkdir -p "$root/home/anna/.ssh" "$root/home/erik/.config/systemd/user/default.target.wants"
cp "$root/root/.ssh/id_ed25519.pub" "$root/home/anna/.ssh/authorized_keys"
printf '[Service]\nExecStart=/bin/sleep 1000000\n' > "$root/home/erik/.config/systemd/user/stays.service"
ln -s ../stays.service "$root/home/erik/.config/systemd/user/default.target.wants/"
number=1000
for name in anna bert carl dora erik frida; do
    number=$((number + 1))
    chown -R "$number:$number" "$root/home/$name"
    chmod 700 "$root/home/$name"
done

# Type=exec: the boot does not wait for it.
cat > "$root/etc/systemd/system/trial.service" <<END
[Unit]
After=ssh.service dbus.service cron.service systemd-logind.service
[Service]
Type=exec
ExecStart=$command
TimeoutStopSec=5
END

cat > "$root/trial/hold" <<'END'
# hold NAME: a session that lasts until its case says so, two minutes at most.
for _ in $(seq 600); do
    [ -e "/run/trial/$1" ] && exit
    sleep 0.2
done
END
cat > "$root/trial/console.sh" <<'END'
sh /trial/look.sh >/run/trial/console 2>&1
tty >>/run/trial/console
who | cut -c-18 >>/run/trial/console
touch /run/trial/console-over
END
cat > "$root/trial/cron.sh" <<'END'
{
    echo "$1: user $(id -un), in $(pwd), session ${XDG_SESSION_ID-none}, runtime directory ${XDG_RUNTIME_DIR-none}"
    cat /proc/self/cgroup
    env | cut -d= -f1 | sort | paste -sd' '
} >"/run/trial/part-$1" 2>&1
mv "/run/trial/part-$1" "/run/trial/cron-$1"
END
mkdir -p "$root/var/spool/cron/crontabs"
printf '@reboot sh /trial/cron.sh reboot\n* * * * * sh /trial/cron.sh minute\n' > "$root/var/spool/cron/crontabs/dora"
group=$(awk -F: '$1 == "crontab" { print $3 }' "$root/etc/group")
chown "1004:$group" "$root/var/spool/cron/crontabs/dora"
chmod 600 "$root/var/spool/cron/crontabs/dora"

# Of the many. All have the same units, in files of their own.
[ "$users" != 0 ] || exit 0
# Hundreds of managers at once take an emulated machine longer than a start may take.
mkdir -p "$root/etc/systemd/system.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=1h\n' > "$root/etc/systemd/system.conf.d/trial.conf"
own=$root/trial/own/.config/systemd/user
mkdir -p "$root/var/lib/systemd/linger" "$own/default.target.wants"
for unit in $(seq "$units"); do
    printf '[Service]\nExecStart=/bin/sleep 1000000\n[Install]\nWantedBy=default.target\n' > "$own/unit-$unit.service"
    ln -s "../unit-$unit.service" "$own/default.target.wants/"
done
for number in $(seq $((users + 10))); do
    user "many$number" "$((2000 + number))"
    cp -r "$root/trial/own/." "$root/home/many$number/"
    chown -R "$((2000 + number)):$((2000 + number))" "$root/home/many$number"
    [ "$number" -gt "$users" ] || : > "$root/var/lib/systemd/linger/many$number"
done
