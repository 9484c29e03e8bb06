#!/bin/sh
# How long other managers take from the order to power off to the end of their process 1.
#
# usage: shutdown-peers.sh DIR MANAGER COUNT quiet|deaf
#
# DIR has the packages of Debian 12, unpacked: apt-get download runit s6 execline libs6-2.11
# libskarnet2.13 libexecline2.9 finit libuev3 libite5 openrc librc1 libeinfo1; dpkg -x each.
# MANAGER is runit, s6, finit or openrc; COUNT services run, each a sleep, or, for 'deaf', a shell
# that ignores SIGTERM and is given 2 s. Prints the seconds. Needs root; everything is in namespaces
# of its own over a file system in memory.
#
# 'kill' in place of a manager is what none can be faster than: COUNT processes in one cgroup, one
# write to cgroup.kill, until the last is reaped.
set -eu

packages=$1 manager=$2 count=$3 kind=$4
if [ "${5:-}" != inside ]; then
	exec unshare --mount --propagation private sh "$0" "$packages" "$manager" "$count" "$kind" inside
fi

now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{ printf "%.3f\n", $1 - $2 }'; }

if [ "$manager" = kill ]; then
	group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/warren-bench-kill
	mkdir "$group"
	trap 'echo 1 > "$group/cgroup.kill"; rmdir "$group" 2>/dev/null || :' EXIT
	sh -c 'echo $$ > "$1/cgroup.procs"; i=0; while [ $i -lt "$2" ]; do sleep 9999 & i=$((i + 1)); done; echo; wait' \
		sh "$group" "$count" | { read -r _; t=$(now); echo 1 > "$group/cgroup.kill"
		while grep -q 'populated 1' "$group/cgroup.events"; do :; done; since "$t"; }
	exit
fi

work=$(mktemp -d)
mount -t tmpfs -o size=2g none "$work"
mkdir "$work/upper" "$work/work" "$work/root"
# Directories that Debian has merged with those below /usr would hide the links.
for d in usr etc var bin sbin lib; do
	[ ! -d "$packages/$d" ] || { below=$(readlink "/$d" || echo "$d"); mkdir -p "$work/upper/$below"; cp -a "$packages/$d/." "$work/upper/$below/"; }
done
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" none "$work/root"
root=$work/root
mount -t tmpfs -o mode=755 none "$root/run"
mount -t tmpfs none "$root/dev"
for d in null zero random urandom tty; do
	: > "$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
mkdir -p "$root/dev/pts" "$root/dev/shm"
ln -sf null "$root/dev/console"

command() {
	case $kind in
	deaf) echo "exec /bin/sh -c 'trap \"\" TERM; while :; do sleep 9; done'" ;;
	quiet) echo "exec /bin/sleep infinity" ;;
	esac
}

script() {
	mkdir -p "$(dirname "$1")"
	printf '#!/bin/sh\n%s\n' "$2" > "$1"
	chmod 755 "$1"
}

each() { i=0; while [ $i -lt "$count" ]; do "$1" "$i"; i=$((i + 1)); done; }

case $manager in
runit)
	rm -rf "$root/etc/service" "$root/etc/runit"
	mkdir -p "$root/etc/service"
	# runsvdir takes no more than 1,000.
	one() {
		script "$root/etc/service/d$((i / 1000))/s$1/run" "$(command)"
	}
	each one
	script "$root/etc/runit/1" :
	script "$root/etc/runit/2" 'for d in /etc/service/*/; do runsvdir -P "$d" & done; wait'
	script "$root/etc/runit/3" 'sv -w 2 force-stop /etc/service/*/* >/dev/null; sv exit /etc/service/*/* >/dev/null'
	init=/sbin/runit
	order() { : > "$root/run/runit.stopit"; chmod 100 "$root/run/runit.stopit"; kill -CONT "$1"; }
	;;
s6)
	mkdir -p "$root/service/.s6-svscan"
	one() {
		script "$root/service/s$1/run" "$(command)"
		[ "$kind" = quiet ] || echo 2000 > "$root/service/s$1/timeout-kill"
	}
	each one
	script "$root/service/.s6-svscan/finish" :
	script "$root/start" 'exec s6-svscan -c 10000 /service'
	init=/start
	order() { chroot "$root" s6-svscanctl -t /service; }
	;;
finit)
	rm -rf "$root/etc/finit.d"
	mkdir -p "$root/etc/finit.d"
	echo 'runlevel 2' > "$root/etc/finit.conf"
	one() {
		script "$root/bench/s$1" "$(command)"
		echo "service [2345] name:s$1 kill:2 /bench/s$1 -- s$1" >> "$root/etc/finit.conf"
	}
	each one
	init=/sbin/finit
	order() { kill -USR2 "$1"; }
	;;
openrc)
	rm -f "$root"/etc/init.d/* "$root"/etc/rc*.d/*
	mkdir -p "$root/etc/runlevels/default" "$root/etc/runlevels/sysinit" "$root/etc/runlevels/boot" \
		"$root/etc/runlevels/shutdown" "$root/run/openrc"
	echo 'rc_parallel="YES"' > "$root/etc/rc.conf"
	one() {
		script "$root/bench/s$1" "$(command)"
		printf '#!/sbin/openrc-run\ncommand=/bench/s%s\ncommand_background=yes\npidfile=/run/s%s.pid\nretry=TERM/2/KILL/1\n' \
			"$1" "$1" > "$root/etc/init.d/s$1"
		chmod 755 "$root/etc/init.d/s$1"
		ln -s "/etc/init.d/s$1" "$root/etc/runlevels/default/s$1"
	}
	each one
	init=/sbin/openrc-init
	order() { chroot "$root" openrc-shutdown -p now; }
	;;
*)
	echo "unknown manager $manager" >&2
	exit 2
	;;
esac

# Namespaces of its own for all that an init sets up and takes down: some take the loopback
# interface down at their end, others set kernel parameters and the host's name.
inside='mount -o bind "$1/proc/sys" "$1/proc/sys" && mount -o remount,bind,ro "$1/proc/sys" && exec chroot "$@"'
unshare --pid --net --uts --ipc --fork --kill-child --mount-proc="$root/proc" \
	sh -c "$inside" sh "$root" $init > "$work/log" 2>&1 &
unshare=$!
trap 'kill -9 $unshare 2>/dev/null || :' EXIT

pid=
until pid=$(cat "/proc/$unshare/task/$unshare/children" 2>/dev/null) && [ -n "$pid" ]; do :; done
pid=${pid% }
# All of them run, or it never comes to that.
running() {
	case $kind in deaf) pattern='trap "" TERM' ;; *) pattern='sleep infinity' ;; esac
	nsenter -t "$pid" -p -m -r pgrep -c -f -- "$pattern" 2>/dev/null || :
}
limit=$(($(date +%s) + 300))
while [ "$(running)" -lt "$count" ]; do
	[ "$(date +%s)" -lt $limit ] || { echo "only $(running) of $count run after 300 s" >&2; cat "$work/log" >&2; exit 1; }
	sleep 0.2
done
sleep 1
t=$(now)
order "$pid"
wait $unshare || :
since "$t"
