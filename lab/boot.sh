#!/bin/bash
# boot.sh [-r ROOTFS] [-u UNITDIR] [-n NAME] [-t SECONDS] [INIT ARGS...]   default INIT: /lib/systemd/systemd
# Boots INIT as PID 1 of its own namespaces; returns when it sends READY=1 on NOTIFY_SOCKET (or after -t seconds).
H=$(cd "$(dirname "$0")" && pwd); . "$H/env.sh"
R=$LAB/rootfs U=- N=sd T=600
while getopts r:u:n:t: o; do case $o in r) R=$OPTARG;; u) U=$OPTARG;; n) N=$OPTARG;; t) T=$OPTARG;; esac; done; shift $((OPTIND-1))
[ $# -gt 0 ] || set -- /lib/systemd/systemd
S=$LAB/run/$N; C=$CGROOT/lab-$N
[ -f "$S/pid" ] && kill -0 "$(cat "$S/pid")" 2>/dev/null && { echo "$N is up"; exit 1; }
rm -rf --one-file-system "$S"; mkdir -p "$S" "$LAB/lab"
[ -x "$LAB/lab/labsrv" ] || gcc -O2 -static -o "$LAB/lab/labsrv" "$H/labsrv.c"
ulimit -n 65536 2>/dev/null
setsid python3 "$H/mon.py" "$R" "$U" "$S" "$C" "$@" >"$S/mon.log" 2>&1 </dev/null &
echo $! > "$S/mon.pid"
for ((i=0;i<T*20;i++)); do
  grep -q 'READY=1' "$S/events.log" 2>/dev/null && break
  grep -q '"exit"' "$S/events.log" 2>/dev/null && { echo "init exited"; cat "$S/mon.log"; tail -5 "$S/console.log"; exit 1; }
  sleep 0.05
done
python3 - "$S/events.log" <<'P'
import json,sys
e=[json.loads(l) for l in open(sys.argv[1])]
x=next((i["t"] for i in e if i["ev"]=="exec"),None); r=next((i["t"] for i in e if i["ev"]=="notify" and "READY=1" in i["msg"]),None)
print("exec_to_ready_s", None if None in (x,r) else round(r-x,3), "load", e[0].get("load"))
P
