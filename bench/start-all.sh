#!/bin/sh
# What starting and stopping COUNT plain services costs in all, under s6 and under Warrener: CPU
# seconds of everything that runs for it, the services themselves included, and seconds on the clock.
#
# usage: start-all.sh PACKAGES PROGRAMS COUNT
#
# PACKAGES has Debian's packages, unpacked: apt-get download s6 execline libs6-2.11 libskarnet2.13
# libexecline2.9; dpkg -x each. PROGRAMS has ours. Each service is a sleep; s6's are started by a
# shell, as its documentation does. Needs root and a cgroup2 mount; all is in a cgroup and a mount
# namespace of its own.
set -eu

packages=$1 programs=$2 count=$3
if [ "${4:-}" != inside ]; then
	exec unshare --mount --propagation private sh "$0" "$packages" "$programs" "$count" inside
fi
# s6 looks for its programs where they were installed.
mount -t overlay -o "lowerdir=$packages/usr:/usr" none /usr
tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
work=$(mktemp -d)
group=$tree/warren-bench-$$
clean() {
	[ ! -d "$group" ] || { echo 1 > "$group/cgroup.kill"; while grep -q 'populated 1' "$group/cgroup.events"; do :; done; }
	find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :
	rm -rf "$work"
}
trap clean EXIT

now() { date +%s.%N; }
cpu() { awk '$1 == "usage_usec" { print $2 / 1e6 }' "$measured/cpu.stat"; }
running() { pgrep -c -f -- '^/bin/sleep 98765$' || :; }
until_running() {
	limit=$(($(date +%s) + 100))
	while [ "$(running)" -ne "$1" ]; do
		[ "$(date +%s)" -lt $limit ] || { echo "$(running) run, not $1" >&2; exit 1; }
		sleep 0.2
	done
}
# What it costs to look is not in the group: this shell is outside.
timed() {
	what=$1 wanted=$2
	shift 2
	t=$(now) c=$(cpu)
	"$@"
	until_running "$wanted"
	echo "$(now) $t $(cpu) $c" | awk -v what="$what" '{ printf "%-28s %7.2f s %7.2f CPU s\n", what, $1 - $2, $3 - $4 }'
}
# Runs a command in the group, in the background.
inside() { sh -c 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"' sh "$group" "$@" > "$work/log" 2>&1 & }

one_service() {
	mkdir -p "$work/s6/s$1"
	printf '#!/bin/sh\nexec /bin/sleep 98765\n' > "$work/s6/s$1/run"
	chmod 755 "$work/s6/s$1/run"
	printf '[Service]\nExecStart=/bin/sleep 98765\n' > "$work/units/s$1.service"
}
mkdir -p "$work/s6" "$work/units"
printf '[Unit]\nDescription=Nothing\n' > "$work/units/default.target"
i=0
while [ $i -lt "$count" ]; do
	one_service $i
	i=$((i + 1))
done

mkdir "$group"
measured=$group
start_s6() { inside s6-svscan -c $((2 * count + 10)) "$work/s6"; }
stop_s6() { s6-svscanctl -t "$work/s6"; }
timed "s6: start $count" "$count" start_s6
timed "s6: stop" 0 stop_s6
wait

warren() { "$programs/warren" --machine=start-all "$@"; }
inside "$programs/warren" run --units "$work/units" --name start-all
until warren is-active default.target > /dev/null 2>&1; do sleep 0.2; done
# The machine has a cgroup of its own.
measured=$(find "$tree" -maxdepth 4 -type d -name warren-start-all)
services=$(i=0; while [ $i -lt "$count" ]; do echo "s$i.service"; i=$((i + 1)); done)
# shellcheck disable=SC2086
timed "warrener: start $count" "$count" warren start $services
# shellcheck disable=SC2086
timed "warrener: stop" 0 warren stop $services
warren poweroff > /dev/null 2>&1 || :
wait
