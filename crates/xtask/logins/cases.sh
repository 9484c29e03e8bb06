# cases.sh CASE...: the cases of `cargo xtask vm logins`, run by a service of the machine. What they print goes to PORT,
# and is compared. Users: anna, bert, carl, dora, erik and frida, with the numbers 1001 to 1006; anna may use sudo.
PORT=/dev/ttyS1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 SYSTEMD_COLORS=0 SYSTEMD_PAGER= HOME=/root
cd /

# within SECONDS COMMAND...: waits until that is true.
within() {
    limit=$1; shift
    for _ in $(seq $((limit * 4))); do "$@" >/dev/null 2>&1 && return; sleep 0.25; done
    echo "not within $limit s: $*"
}

# Numbers that are drawn or counted on.
same() {
    sed -u -e 's/session-c\?[0-9]\+\.scope/session-N.scope/g' -e 's/\(run-\|invocation-\)[ru]\?[0-9a-f]\+/\1N/g' \
        -e 's|pts/[0-9]\+|pts/N|g' -e 's/:1\.[0-9]\+/:1.N/g' -e 's/[Ss]ession c\?[0-9]\+/session N/g' -e 's/Display=c\?[0-9]\+/Display=N/' -e 's/\r//'
}

# log_in USER OPTION COMMAND: with -n without a terminal, with -tt with one.
log_in() { timeout 120 ssh -q -o BatchMode=yes "$2" "$1@localhost" "$3"; }
su_to() { timeout 120 su - "$@" </dev/null; }
sessions_of() { loginctl list-sessions --no-legend | awk -v user="$1" '$3 == user { print $1 }'; }
has_session() { [ -n "$(sessions_of "$1")" ]; }
has_none() { [ -z "$(sessions_of "$1")" ]; }
is_state() { [ "$(loginctl show-user "$1" -p State --value 2>&1)" = "$2" ]; }
unit_is() { [ "$(systemctl show -p ActiveState --value "$1")" = "$2" ]; }
has_process() { pgrep -u "$1" -x "$2"; }
has_no_process() { ! has_process "$@"; }
is_gone() { ! systemctl list-units --all --plain --no-legend | grep -q "^user\(-runtime-dir\)\?[-@]$1[.]"; }

# all_gone USER UID: whether nothing of the user is left.
nothing_of() { is_gone "$2" && [ ! -e "/run/user/$2" ] && ! pgrep -u "$1" && has_none "$1"; }
all_gone() {
    within 60 nothing_of "$1" "$2"
    echo "$1 is gone: $(systemctl list-units --all --plain --no-legend | grep -c "[-@]$2[.]") units," \
        "$(pgrep -u "$1" | wc -l) processes, $(ls /run/user | grep -c "^$2\$") directories," \
        "failed: $(systemctl list-units --failed --plain --no-legend | cut -d' ' -f1 | paste -sd' ')"
}

# unit UNIT: what the system's manager says of a unit of logins.
unit() {
    systemctl show "$1" -p Id -p LoadState -p ActiveState -p SubState -p Result -p Slice -p ControlGroup -p Description \
        -p Type -p Delegate -p DelegateControllers -p TasksMax -p KillMode -p SendSIGHUP -p TimeoutStopUSec \
        -p CollectMode -p StopWhenUnneeded -p IgnoreOnIsolate -p OOMScoreAdjust -p KeyringMode -p Requires -p Wants \
        -p WantedBy -p RequiredBy -p BoundBy -p Before -p After -p Conflicts -p RequiresMountsFor -p RefuseManualStart \
        -p Transient -p Perpetual -p UnitFileState -p FragmentPath -p MemoryAccounting -p TasksAccounting |
        awk -F= '{ n = split(substr($0, length($1) + 2), words, " "); if ($1 == "Description") { print; next }
            for (i = 2; i <= n; i++) { w = words[i]; for (j = i - 1; j > 0 && words[j] > w; j--) words[j + 1] = words[j]; words[j + 1] = w }
            line = $1 "="; for (i = 1; i <= n; i++) line = line (i > 1 ? " " : "") words[i]; print line }' | sort
}

case_ssh() {
    log_in anna -n "sh /trial/hold anna-ssh" &
    within 60 has_session anna
    within 60 unit_is user@1001.service active
    loginctl list-users --no-legend
    for unit in user-1001.slice user-runtime-dir@1001.service user@1001.service \
        "session-$(sessions_of anna).scope"; do unit "$unit"; done
    touch /run/trial/anna-ssh; wait
    log_in anna -n 'sh /trial/look.sh'
    all_gone anna 1001
}

case_terminal() {
    log_in anna -tt 'sh /trial/look.sh brief; who | cut -c-18; systemd-run --user --pty -q sh -c "tty; cat /proc/self/cgroup"' </dev/null
    all_gone anna 1001
}

case_two_sessions() {
    log_in anna -n "sh /trial/hold first" &
    within 60 has_session anna
    log_in anna -n 'echo "$(loginctl list-sessions --no-legend | grep -c anna) sessions"; systemctl --user is-active default.target'
    within 30 sh -c '[ "$(loginctl list-sessions --no-legend | grep -c anna)" = 1 ]'
    echo "manager $(systemctl is-active user@1001.service), $(loginctl show-user anna -p State)"
    touch /run/trial/first; wait
    all_gone anna 1001
}

case_su_dash() {
    su_to bert -c 'sh /trial/look.sh'
    all_gone bert 1002
    su_to root -c 'sh /trial/look.sh'
    within 60 has_none root
    within 60 is_gone 0
    systemctl list-units --failed --plain --no-legend
}

case_sudo() {
    log_in anna -n 'sudo -i -u carl sh /trial/look.sh brief; sudo sh /trial/look.sh brief; sudo -u carl XDG_RUNTIME_DIR=/run/user/1003 systemctl --user is-system-running'
    all_gone anna 1001
}

# Somebody logs in there by hand, as it were: the machine outside types.
case_console() {
    printf '\r\ntrial: log in\r\n' >/dev/ttyS2
    within 180 test -e /run/trial/console-over
    cat /run/trial/console 2>&1
    within 60 has_none frida
    within 60 unit_is serial-getty@ttyS2.service active
    unit serial-getty@ttyS2.service | grep -v '^After\|^Before\|^Requires\|^Wants'
    all_gone frida 1006
}

case_cron() {
    within 60 test -e /run/trial/cron-reboot
    cat /run/trial/cron-reboot
    within 100 test -e /run/trial/cron-minute
    cat /run/trial/cron-minute
    crontab -u dora -r
    all_gone dora 1004
}

case_lingering() {
    loginctl enable-linger erik
    within 60 unit_is user@1005.service active
    within 30 is_state erik lingering
    loginctl show-user erik -p State -p Linger -p Sessions -p Slice
    within 30 has_process erik sleep
    echo "its service: $(cat "/proc/$(pgrep -u erik -x sleep | head -n 1)/cgroup")"
    su_to erik -c 'systemctl --user list-units --plain --no-legend --state=running | cut -d" " -f1; systemctl --user stop stays.service; systemctl --user is-active stays.service'
    within 30 is_state erik lingering
    loginctl disable-linger erik
    all_gone erik 1005
}

logind_says() {
    mkdir -p /etc/systemd/logind.conf.d
    printf '[Login]\nUserStopDelaySec=2\n%s\n' "$1" >/etc/systemd/logind.conf.d/trial.conf
    systemctl restart systemd-logind
}

# A process that its session left behind: nobody asked for its end.
case_leftover() {
    log_in anna -n 'setsid sleep 1001 >/dev/null 2>&1 </dev/null & sleep 0.2'
    within 30 is_state anna closing
    session=$(sessions_of anna)
    loginctl show-session "$session" -p State -p Active -p Scope
    echo "scope $(systemctl show -p ActiveState -p SubState --value "session-$session.scope" | paste -sd/)," \
        "manager $(systemctl is-active user@1001.service)," "$(pgrep -u anna -x sleep | wc -l) left"
    log_in anna -n 'echo "in a session of its own: $(loginctl list-sessions --no-legend | grep -c anna)"; systemctl --user is-active default.target'
    pkill -u anna -x sleep
    all_gone anna 1001
}

case_leftover_killed() {
    logind_says KillUserProcesses=yes
    log_in anna -n 'setsid sleep 1002 >/dev/null 2>&1 </dev/null & systemd-run --user --quiet --scope sleep 1003 >/dev/null 2>&1 </dev/null & sleep 1'
    all_gone anna 1001
    loginctl enable-linger anna
    log_in anna -n 'setsid sleep 1004 >/dev/null 2>&1 </dev/null & systemd-run --user --quiet --scope sleep 1005 >/dev/null 2>&1 </dev/null & sleep 1'
    within 30 has_none anna
    within 30 is_state anna lingering
    pgrep -u anna -x -a sleep | cut -d' ' -f2-
    loginctl disable-linger anna
    all_gone anna 1001
    logind_says ''
}

# Nobody types there.
case_idle() {
    logind_says StopIdleSessionSec=5
    log_in anna -tt 'exec sleep 1006' </dev/null >/dev/null &
    within 60 has_process anna sleep
    within 60 has_none anna
    wait
    all_gone anna 1001
    logind_says ''
}

case_terminate() {
    log_in anna -n 'exec sleep 1007' &
    within 60 has_process anna sleep
    loginctl terminate-session "$(sessions_of anna)"; wait
    all_gone anna 1001
    log_in anna -n 'exec sleep 1008' &
    within 60 has_process anna sleep
    loginctl kill-session --signal=TERM "$(sessions_of anna)"; wait
    all_gone anna 1001
    log_in anna -n 'exec sleep 1009' &
    within 60 has_process anna sleep
    loginctl terminate-user anna; wait
    all_gone anna 1001
    log_in anna -n 'exec sleep 1010' &
    within 60 has_process anna sleep
    systemctl stop user@1001.service; echo "stop $?"
    log_in anna -n 'systemctl --user is-active default.target' 2>&1
    systemctl start user@1001.service; echo "start $?"
    pkill -u anna -x sleep; wait
    all_gone anna 1001
}

case_user_units() {
    su_to bert -c 'mkdir -p .config/systemd/user; cd .config/systemd/user
        printf "[Service]\nExecStart=/bin/sleep 1011\n[Install]\nWantedBy=default.target\n" >a.service
        printf "[Service]\nType=oneshot\nExecStart=/bin/false\n" >fails.service
        printf "[Timer]\nOnActiveSec=1s\nAccuracySec=100ms\nUnit=ticks.service\n" >t.timer
        printf "[Service]\nType=oneshot\nExecStart=/bin/sh -c \"echo \$USER \$HOME \$XDG_RUNTIME_DIR %%u %%h %%t >%%t/ticked\"\n" >ticks.service
        printf "[Socket]\nListenStream=%%t/listens\n" >s.socket
        printf "[Service]\nExecStart=/bin/cat\nStandardInput=socket\n" >s.service
        systemctl --user daemon-reload; systemctl --user enable --now a.service 2>&1; systemctl --user start t.timer s.socket
        systemctl --user start fails.service 2>&1 | head -n 1; systemctl --user is-failed fails.service
        systemctl --user --failed --plain --no-legend | cut -d" " -f1-4; systemctl --user is-system-running
        for i in $(seq 80); do test -s $XDG_RUNTIME_DIR/ticked && break; sleep 0.25; done; cat $XDG_RUNTIME_DIR/ticked
        systemctl --user show a.service s.socket t.timer -p Id -p ActiveState -p SubState -p UnitFileState -p FragmentPath -p ControlGroup -p Slice
        systemctl --user import-environment PWD; systemctl --user set-environment MADE=here
        systemd-run --user -q --wait --pipe sh -c "echo \$MADE \$PWD"; systemctl --user reset-failed; systemctl --user is-system-running
        systemctl --user daemon-reexec; systemctl --user is-active a.service
        systemctl --user restart a.service; systemctl --user disable --now a.service 2>&1; systemctl --user is-active a.service
        systemctl --user kill -s KILL s.socket 2>&1; systemctl --user list-timers --no-legend | grep -c .
        systemctl --user reboot 2>&1; systemctl --user list-dependencies --plain default.target'
    all_gone bert 1002
}

# What a user wants started holds up no login.
case_slow_unit() {
    su_to bert -c 'rm -rf .config; mkdir -p .config/systemd/user/default.target.wants; cd .config/systemd/user
        printf "[Service]\nType=oneshot\nExecStart=/bin/sleep 1013\n" >slow.service; ln -s ../slow.service default.target.wants/'
    all_gone bert 1002
    su_to bert -c 'systemctl --user is-active basic.target default.target slow.service; systemctl --user is-system-running
        systemctl --user list-jobs --no-legend | awk "{ print \$2, \$3, \$4 }" | sort; rm -r .config'
    all_gone bert 1002
}

# A name on the session bus is a unit.
case_activation() {
    su_to bert -c 'mkdir -p .local/share/dbus-1/services .config/systemd/user
        printf "[D-BUS Service]\nName=org.example.Trial\nExec=/bin/false\nSystemdService=named.service\n" >.local/share/dbus-1/services/org.example.Trial.service
        printf "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/touch %%t/activated\n" >.config/systemd/user/named.service
        systemctl --user daemon-reload
        systemctl --user is-active dbus.socket dbus.service
        timeout 5 busctl --user call org.example.Trial /a org.freedesktop.DBus.Peer Ping >/dev/null 2>&1; echo "call $?"
        ls $XDG_RUNTIME_DIR/activated; systemctl --user is-active named.service dbus.service
        busctl --user list --no-legend | awk "!/^:/ { print \$1, \$3 }" | sort
        busctl --user get-property org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager Environment | grep -c USER
        dbus-update-activation-environment --systemd PWD; systemctl --user show-environment | grep -c ^PWD='
    all_gone bert 1002
}

# Who is not root asks for units of the system.
case_polkit() {
    ask='timeout 60 systemctl --no-ask-password restart plain.service 2>&1; echo "restart $?"'
    log_in anna -n "$ask"
    echo 'polkit.addRule(function(action, subject) { if (action.id == "org.freedesktop.systemd1.manage-units" && action.lookup("unit") == "plain.service" && subject.user == "anna") return polkit.Result.YES; });' >/etc/polkit-1/rules.d/50-trial.rules
    systemctl restart polkit
    log_in anna -n "$ask; systemctl --no-ask-password stop cron.service 2>&1; echo \"other \$?\"; loginctl --no-ask-password terminate-user bert 2>&1; systemd-run --no-ask-password -q true 2>&1; echo \"transient \$?\""
    rm /etc/polkit-1/rules.d/50-trial.rules
    all_gone anna 1001
}

# The manager and the services behind logins are started anew under a session.
case_again() {
    log_in anna -n "sh /trial/hold again" &
    within 60 has_session anna
    systemctl daemon-reexec; echo "reexec $?"
    systemctl restart ssh systemd-logind cron; echo "restart $?"
    within 30 has_session anna
    log_in anna -n 'systemctl --user is-active default.target'
    systemctl reload ssh; echo "reload $?"
    touch /run/trial/again; wait
    all_gone anna 1001
}

# Their packages are installed again, as needrestart and unattended-upgrades do.
case_reinstall() {
    log_in anna -n "sh /trial/hold reinstall" &
    within 60 has_session anna
    cd /var/cache/apt/archives
    export DEBIAN_FRONTEND=noninteractive
    dpkg -i cron_*.deb openssh-server_*.deb dbus_*.deb libpam-systemd_*.deb </dev/null 2>&1 | grep -v Reading; echo "dpkg $?"
    cd /
    for unit in cron ssh dbus systemd-logind; do echo "$unit $(systemctl is-active "$unit") $(systemctl is-enabled "$unit" 2>&1)"; done
    log_in anna -n 'echo "$(loginctl list-sessions --no-legend | grep -c anna) sessions"; systemctl --user is-active default.target'
    touch /run/trial/reinstall; wait
    all_gone anna 1001
}

case_at_rest() {
    loginctl list-sessions --no-legend; loginctl list-users --no-legend; ls /run/user; who
    systemctl list-units --failed --plain --no-legend
    systemctl list-units --all --plain --no-legend 'user*' 'session*' | awk '{ print $1, $2, $3, $4 }' | sort
    systemctl is-system-running
}

# The machine goes down with somebody in it.
case_end() {
    log_in anna -n 'exec sleep 1012' >/dev/null 2>&1 &
    within 60 has_process anna sleep
    echo "goes down"
    systemctl poweroff
}

exec 3>"$PORT"
stty -F "$PORT" raw -echo
within 120 sh -c 'systemctl is-system-running | grep -v starting'
systemctl is-system-running >&3 2>&1
for case in "$@"; do
    echo "== $case" >&3
    "case_$(echo "$case" | tr - _)" 2>&1 | same >&3
done
echo "== done" >&3
systemctl poweroff
