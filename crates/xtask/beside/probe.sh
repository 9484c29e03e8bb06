# A service looks at itself: `probe NUMBER CASE`. One line each of what both managers give alike; names of namespaces are
# compared with those of the machine, which the case wrote to /run/CASE-ns.
n=$1 case=$2
say() { echo "$n $*"; }
kind() { if [ "$1" -ge 61184 ] && [ "$1" -le 65519 ]; then echo made; else echo "$1"; fi; }
status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
say ids "$(kind "$(id -u)")" "$(kind "$(id -g)")" "groups $(for g in $(id -G); do kind "$g"; done | sort | paste -sd' ')"
say caps "$(status CapEff)" "$(status CapBnd)" "$(status CapAmb)"
say nnp "$(status NoNewPrivs)" seccomp "$(status Seccomp)"
say ns "$(for kind in net ipc uts user; do
    own=$(readlink "/proc/self/ns/$kind"); grep -qxF "$own" "/run/$case-ns" 2>/dev/null && echo "$kind=host" || echo "$kind=own"
done | paste -sd' ')"
for path in / /etc /usr /home /root /srv /tmp /var/tmp /var/lib /run /dev /dev/shm /proc/sys/kernel /sys /sys/fs/cgroup; do
    if [ ! -e "$path" ]; then echo "$path=none"; elif [ -w "$path" ]; then echo "$path=rw"; else echo "$path=ro"; fi
done | paste -sd' ' | sed "s/^/$n paths /"
say see "home:$(ls -A /home 2>&1 | wc -l) tmp:$(ls -A /tmp 2>&1 | grep -cx "$case-file") dev:$(ls -A /dev/console /dev/kmsg 2>/dev/null | wc -l) pids:$([ -d /proc/1 ] && echo all || echo own) proc:$([ -e /proc/meminfo ] && echo all || echo pid)"
say limits "$(ulimit -n) $(ulimit -c) umask $(umask) nice $(nice) oom $(cat /proc/self/oom_score_adj 2>/dev/null)"
say host "$(hostname)" dump "$(cat /proc/self/coredump_filter 2>/dev/null)"
say env "$(env | sed -n 's/=.*//p' | grep -vxE 'INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID|PWD|OLDPWD|SHLVL|_' | sort | paste -sd' ')"
say calls "$(unshare -u true 2>/dev/null && echo unshare; chmod u+s "/run/$case-file-$n" 2>/dev/null && echo suid; chrt -f 1 true 2>/dev/null && echo realtime; setarch --addr-no-randomize true 2>/dev/null && echo personality; dmesg -n 8 2>/dev/null && echo syslog; true)" | paste -sd' '
say net "$(ls /sys/class/net 2>/dev/null | wc -l | sed 's/^[2-9]/more/') $(bash -c ': </dev/udp/127.0.0.1/9' 2>/dev/null && echo udp)"
