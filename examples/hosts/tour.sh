#!/bin/sh
# Many hosts on one machine: etcd, nested machines that each run an agent, a release, a bad one, the way back.
# `make run HOSTS=3`. Needs root, and etcd (Debian: etcd-server). Nothing stays behind.
set -eu

hosts=${HOSTS:-3}
programs=${PROGRAMS:?the directory of the programs}
here=$(cd "$(dirname "$0")" && pwd)
etcd=$(command -v etcd || ls "$here/../../target/peers/usr/bin/etcd" 2>/dev/null || true)
[ -n "$etcd" ] || { echo "etcd is not installed; on Debian: apt-get install etcd-server, or make peers" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "this tour needs root: each machine has a process tree of its own" >&2; exit 1; }

site=$(mktemp -d "${TMPDIR:-/tmp}/warren-hosts.XXXXXX")
pids=""
clean() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || { kill $pids 2>/dev/null || true; wait $pids 2>/dev/null || true; }
    rm -rf "$site"
}
trap clean EXIT
trap 'exit 130' INT TERM

title() { printf '\n== %s\n' "$1"; }
# Shows a command as it would be typed, and runs it.
show() {
    printf '$ warren-hosts %s\n' "$(printf '%s ' "$@" | sed "s|$site/||g; s| \$||")"
    "$programs/warren-hosts" --config "$site/hosts.conf" "$@"
}
# Waits for a word in what a command prints.
wait_for() {
    word=$1; shift
    for _ in $(seq 600); do
        "$programs/warren-hosts" --config "$site/hosts.conf" "$@" 2>/dev/null | grep -q "$word" && return 0
        sleep 0.2
    done
    echo "waited for '$word' in vain:" >&2
    "$programs/warren-hosts" --config "$site/hosts.conf" "$@" >&2 || true
    for n in $(seq "$hosts"); do tail -n 5 "$site/h$n.log" >&2; done
    return 1
}

title "A store, and $hosts machines that each run an agent"
# Below the ports that the kernel hands out; another one where somebody listens already.
port=$((10000 + $$ % 20000))
while :; do
    store=http://127.0.0.1:$port
    "$etcd" --name tour --data-dir "$site/etcd" --listen-client-urls "$store" --advertise-client-urls "$store" \
        --listen-peer-urls "http://127.0.0.1:0" >"$site/etcd.log" 2>&1 &
    store_pid=$!
    until grep -q 'ready to serve client requests' "$site/etcd.log" || ! kill -0 "$store_pid" 2>/dev/null; do
        sleep 0.1
    done
    kill -0 "$store_pid" 2>/dev/null && break
    grep -q 'address already in use' "$site/etcd.log" || { cat "$site/etcd.log" >&2; exit 1; }
    port=$((port + 1))
done
pids="$pids $store_pid"
printf '[Hosts]\nEndpoints=%s\n' "$store" >"$site/hosts.conf"
"$programs/warren-hosts" --config "$site/hosts.conf" keygen "$site/key" >"$site/trusted-keys"
for n in $(seq "$hosts"); do
    mkdir -p "$site/h$n/units/multi-user.target.wants"
    [ "$n" = 1 ] && role=canary || role=web
    printf 'role=%s\nrack=r%s\n' "$role" $((n % 2)) >"$site/h$n/labels"
    cat >"$site/h$n/hosts.conf" <<CONF
[Hosts]
Endpoints=$store
Name=h$n
Labels=$site/h$n/labels
TrustedKeys=$site/trusted-keys
StateDirectory=$site/h$n/state
LeaseSec=10
Capacity=4
CONF
    "$programs/warren-agent" --config "$site/h$n/hosts.conf" --prepare "$site/h$n/fleet"
    cat >"$site/h$n/units/warren-agent.service" <<UNIT
[Unit]
Description=Agent of many hosts
[Service]
Type=notify
ExecStart=$programs/warren-agent --config $site/h$n/hosts.conf
Restart=always
RestartSec=1
UNIT
    ln -s ../warren-agent.service "$site/h$n/units/multi-user.target.wants/"
    "$programs/warren" run --name "tour-$$-h$n" --units "$site/h$n/units" --fleet "$site/h$n/fleet" \
        >"$site/h$n.log" 2>&1 &
    pids="$pids $!"
done
"$programs/warren-hosts" --config "$site/hosts.conf" drive >"$site/drive.log" 2>&1 &
pids="$pids $!"
wait_for "^$hosts hosts" list
show list

title "The rules become a revision; what would it change?"
cp -r "$here/rules" "$site/rules"
show push "$site/rules" -m "the shop opens"
revision=$("$programs/warren-hosts" --config "$site/hosts.conf" --json log | sed 's/.*"revision":"\([0-9a-f]\{8\}\).*/\1/' | head -n 1)
show plan "$revision"

title "A signed release, wave by wave: first one host, then all"
show release "$revision" --key "$site/key" --wave 1 --soak 1
wait_for "is on all hosts" status
show status
show list

title "A bad revision: the program ends at once and says that it failed"
sed 's|ExecStart = "/bin/sleep infinity"|ExecStart = "/bin/false"|' "$here/rules/shop.conf" >"$site/rules/shop.conf"
show push "$site/rules" -m "a faster shop"
bad=$("$programs/warren-hosts" --config "$site/hosts.conf" --json log | sed 's/.*"revision":"\([0-9a-f]\{8\}\).*/\1/' | head -n 1)
show diff "$revision" "$bad" || true
show plan "$bad"
show release "$bad" --key "$site/key" --wave role=web --soak 3
wait_for "release 2 went back" status
show status

title "All hosts are back"
wait_for "$hosts ok" list
show list
show why || true
show audit
