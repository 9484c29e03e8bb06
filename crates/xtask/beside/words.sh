# The words of the cases' scripts. Everything that they print is compared.
#   words.sh ready      what a machine needs before its first case
#   words.sh run CASE   the script of a case
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 SYSTEMD_COLORS=0 SYSTEMD_PAGER= HOME=/root
export LC_ALL=C.UTF-8
TOLD=/run/told

# Verbs of systemctl whose end is told by its status alone.
verb() { systemctl "$@" >/dev/null 2>&1; echo "$*: $?"; }
start() { verb start "$@"; }
stop() { verb stop "$@"; }
restart() { verb restart "$@"; }
reload() { verb reload "$@"; }

# What systemctl says.
say() { systemctl "$@" 2>&1 | sed 's/[0-9][0-9]*ms ago/now/'; }

# Units tell something by `/run/tell CASE WORD...`; here it is, once.
told() { sed 's/^/told: /' "$TOLD/$CASE"; : >"$TOLD/$CASE"; }

# The same in the order of the alphabet, for what happens side by side.
told_sorted() { sort "$TOLD/$CASE" | sed 's/^/told: /'; : >"$TOLD/$CASE"; }

state() { systemctl show -p ActiveState --value "$1"; systemctl show -p SubState --value "$1"; }

# wait_for UNIT ACTIVE/SUB: at most 15 s.
wait_for() {
    for _ in $(seq 300); do
        [ "$(state "$1" | paste -sd/)" = "$2" ] && { echo "$1: $2"; return; }
        sleep 0.05
    done
    echo "$1: $(state "$1" | paste -sd/) and not $2"
}

# wait_told TEXT: for a line that a unit tells.
wait_told() {
    for _ in $(seq 300); do grep -q -- "$1" "$TOLD/$CASE" && return; sleep 0.05; done
    echo "nobody told $1"
}

# wait_property UNIT PROPERTY VALUE
wait_property() {
    for _ in $(seq 300); do
        [ "$(systemctl show -p "$2" --value "$1")" = "$3" ] && return; sleep 0.05
    done
    echo "$1: $2=$(systemctl show -p "$2" --value "$1") and not $3"
}

# wait_manager PROPERTY VALUE: the same of the manager.
wait_manager() {
    for _ in $(seq 300); do
        [ "$(systemctl show -p "$1" --value)" = "$2" ] && { echo "$1=$2"; return; }; sleep 0.05
    done
    echo "$1=$(systemctl show -p "$1" --value) and not $2"
}

# show UNIT...: its state, and of the rest what is not as in a unit that was never touched. What ends
# gets a second for it: jobs are over before that.
show() {
    for unit in "$@"; do
        for _ in $(seq 20); do
            [ "$(systemctl show -p ActiveState --value "$unit")" = deactivating ] || break
            sleep 0.05
        done
        echo "$unit: $(systemctl show "$unit" -p LoadState,ActiveState,SubState,Result,NRestarts \
            -p ExecMainCode,ExecMainStatus,MainPID,ControlPID,ReloadResult \
            -p NFileDescriptorStore,ConditionResult,AssertResult,NConnections,NAccepted,NRefused |
            sed -e '/^\(MainPID\|ControlPID\)=[1-9]/s/=.*/=set/' -e '/=\(loaded\|success\|yes\|0\)\?$/d' |
            sort | paste -sd' ')"
    done
}

# property UNIT NAME...: these properties.
property() {
    unit=$1; shift
    for name in "$@"; do systemctl show "$unit" -p "$name"; done
}

# R: where a case writes unit files of its own, on its own machine; `file NAME TEXT`, with printf's escapes.
R=/run/systemd/system
file() { mkdir -p "$(dirname "$R/$1")"; printf "$2" >"$R/$1"; }

# commands UNIT...: what each starts.
commands() {
    for unit in "$@"; do
        echo "$unit: $(systemctl show "$unit" -p LoadState --value)"
        systemctl show "$unit" -p ExecStart | sed 's/ ; start_time=.*//'
    done
}

# conditions: starts each of the case's units; how that ended, and what they say of their conditions.
conditions() {
    for path in /etc/systemd/system/"$CASE"-*.service; do
        unit=${path##*/}
        systemctl start "$unit" >/dev/null 2>&1
        echo "start: $?, $(state "$unit" | paste -sd/)," \
            "$(systemctl show -p ConditionResult -p AssertResult --value "$unit" | paste -sd/):" \
            "$(grep '^Cond\|^Assert' "$path" | paste -sd' ')"
    done
}

# settled: waits until the case's units, UNITS, are at rest, at most 20 s.
settled() {
    quiet=0
    for _ in $(seq 200); do
        now=$(systemctl show -p Job,ActiveState,NRestarts,MainPID $UNITS)
        if [ "$now" != "$before" ] ||
            echo "$now" | grep -q '^Job=[1-9]\|=\(activating\|deactivating\|reloading\)$'; then
            quiet=0
        else
            quiet=$((quiet + 1))
        fi
        before=$now
        [ $quiet = 3 ] && return
        sleep 0.1
    done
    echo "never at rest"
}

# order VERB UNIT...: how that ended, and what all of UNITS come to.
order() {
    case $1 in
    connect) python3 -c "import socket; socket.socket(socket.AF_UNIX).connect('$2')" 2>&1 | tail -n 1 ;;
    *) timeout 20 systemctl "$@" >/dev/null 2>&1; echo "$*: $?" ;;
    esac
    settled
    # Whether conditions are looked at of what cannot start anyway is not the same (relations/binds-to-a-oneshot).
    show $UNITS | sed 's/ \(Assert\|Condition\)Result=no//g'
    told_sorted
}

main_pid() { systemctl show -p MainPID --value "$1"; }

# alive FILE: whether the process whose number is in it is there.
alive() { [ -d "/proc/$(cat "$1")" ] && echo "$1: alive" || echo "$1: gone"; }

# connect PATH: to a socket, and what comes back within a second.
connect() {
    python3 - "$1" <<'P'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(3)
try:
    s.connect(sys.argv[1])
    print("connected, got", s.recv(99))
except OSError as e:
    print("connect:", e.strerror or e)
P
}

case $1 in
ready)
    mkdir -p "$TOLD" && chmod 1777 "$TOLD"
    printf '#!/bin/sh\ncase=$1; shift; echo "$*" >>%s/$case\n' "$TOLD" >/run/tell
    chmod 755 /run/tell
    systemctl start beside-holder.target
    ;;
run)
    CASE=$2
    : >"$TOLD/$CASE"
    chmod 666 "$TOLD/$CASE"
    . "/lab/beside/$CASE.sh"
    ;;
esac
