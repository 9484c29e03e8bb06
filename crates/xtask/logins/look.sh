# look.sh [brief]: what a login has, as the user who logged in sees it. Everything that it prints is compared.
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin

echo "user $(id -un), groups $(id -Gn), in $(pwd), umask $(umask), out of memory $(cat /proc/self/oom_score_adj)"
echo "cgroup $(cat /proc/self/cgroup)"
echo "environment $(env | cut -d= -f1 | sort | paste -sd' ')"
echo "XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS"
echo "$(stat -c '%A %U %G' "${XDG_RUNTIME_DIR:-/none}" 2>&1) $(findmnt -no FSTYPE,OPTIONS "${XDG_RUNTIME_DIR:-/none}")"
loginctl show-session "${XDG_SESSION_ID:-none}" -p Name -p User -p Type -p Class -p Service -p Remote -p RemoteHost \
    -p Scope -p State -p Active -p TTY -p Display -p Seat -p VTNr -p LockedHint 2>&1 | paste -sd' '
[ "$1" = brief ] && exit

prlimit --noheadings -o RESOURCE,SOFT,HARD | tr -s ' ' | paste -sd,
loginctl show-user "$(id -u)" -p Name -p State -p Linger -p Slice -p Service -p RuntimePath -p Display 2>&1 |
    paste -sd' '
echo "manager: $(timeout 60 systemctl --user --wait is-system-running 2>&1)"
systemctl --user list-units --plain --no-legend | awk '{ print "unit", $1, $2, $3, $4 }' | grep -v '\.device ' | sort
echo "its environment $(systemctl --user show-environment | cut -d= -f1 | sort | paste -sd' ')"
systemctl --user show -p ControlGroup -p UnitPath -p DefaultTimeoutStopUSec -p DefaultLimitNOFILE
inside='echo "in $(pwd), umask $(umask), out of memory $(cat /proc/self/oom_score_adj)"; cat /proc/self/cgroup
        env | cut -d= -f1 | sort | paste -sd" "; prlimit --noheadings -o RESOURCE,SOFT,HARD | tr -s " " | paste -sd,'
timeout 60 systemd-run --user --quiet --wait --pipe sh -c "$inside" 2>&1 | sed 's/^/service: /'
timeout 60 systemd-run --user --quiet --scope sh -c "$inside" 2>&1 | sed 's/^/scope: /'
timeout 60 busctl --user list --no-legend 2>&1 | awk '!/^:/ { print "bus", $1, $3, $NF }' | sort
