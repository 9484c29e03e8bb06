//! What somebody needs who has met a code: how it comes about, what to look at, what clears it.
//!
//! One row for each code of the table in `reason`; the page of the documentation is made of both.

use super::Code;

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// How it comes about.
    pub cause: &'static str,
    /// What tells more, with the command that shows it.
    pub look: &'static str,
    /// What ends it. The one line of [`Code::cure`] is the short form.
    pub clears: &'static str,
}

macro_rules! rows {
    ($($name:ident: $cause:literal $look:literal $clears:literal)*) => {
        /// The row of a code.
        pub fn explained(code: Code) -> Explained {
            match code {
                $(Code::$name => Explained { cause: $cause, look: $look, clears: $clears },)*
            }
        }
    };
}

rows! {
    NeverStarted:
        "The unit is known and at rest. No job has been asked for it since this init started, or \
         it was forgotten and loaded anew."
        "`systemctl list-dependencies --reverse UNIT` names who would pull it in; \
         `systemctl is-enabled UNIT` says whether a target wants it."
        "`warren start UNIT`, or `warren enable UNIT` and the start of what it is then wanted by."
    Started:
        "A start job brought it up: one that somebody asked for, or one that another unit pulled in \
         by `Wants=`, `Requires=` and their like."
        "`warren why UNIT` names who asked, with user and process, or the unit that pulled it in."
        "Nothing: it is up because it was to be."
    Triggered:
        "Traffic came to its socket, somebody entered its automount point, or a path or timer was \
         due, and the unit was started for it."
        "`warren why UNIT` names the unit that triggered it."
        "Nothing. Who wants it to stay down stops the trigger too: `warren stop UNIT` alone lasts \
         until the next connection."
    Restarted:
        "The service ended and its `Restart=` has it run again. If it happens within the last \
         minute it is listed by `warren why`, as a service that does not keep running is in trouble."
        "`warren why UNIT` has the number of restarts and how the last run ended; `warren logs UNIT` \
         what it said."
        "Mending what ends it. The count goes with the next start that somebody asks for."
    Discovered:
        "It is there without the manager: a mount or a swap area that somebody made by hand, or what \
         was there before the manager came."
        "`findmnt` and `swapon` show what the kernel has."
        "Nothing. `warren stop UNIT` unmounts it like any other."
    Upheld:
        "It went down while a unit with `Upholds=` of it was up, which started it again."
        "`warren why UNIT` names the unit that upholds it."
        "Nothing. To have it down, stop the unit that upholds it."
    PluggedIn:
        "The kernel and the device daemon tell of the device, and it is ready for use."
        "`warren devices` lists what is known of it."
        "Nothing."
    MountedUnseen:
        "Something of this device is mounted or swapped to, so it must be there, but nobody told of \
         it: the device daemon does not run, or does not see it (a network file system's source, for \
         example)."
        "`warren devices`, and `findmnt` for what is mounted of it."
        "Nothing: what needs the device takes it for there."
    WantedByDevice:
        "A device came up whose unit or udev property (`SYSTEMD_WANTS=`) wants this one."
        "`warren why UNIT` names the device."
        "Nothing. What a device wants is not stopped when the device goes, unless it is bound to it."
    AwaitsDevice:
        "A start waits for the device and nobody told of it yet: the disk is not there, has not \
         answered, or is part of a group that is not complete."
        "`warren devices` says what is there and what each group still lacks."
        "The device's coming, or the end of `JobRunningTimeoutSec=` of its unit (`WR-0063`). \
         `systemctl cancel` gives the wait up."
    Returned:
        "A rule of `[X-Warren]` (`ExcludeAll=`, `RestartOn=`) had stopped it for another unit's sake; \
         that allows it again, so it came back by itself."
        "`warren why UNIT` names that other unit."
        "Nothing."
    Stopped:
        "A stop job was asked for this very unit and was done."
        "`warren why UNIT` says who asked and when, with the comment of `warren stop --comment` if \
         there is one."
        "`warren start UNIT`."
    StoppedByConflict:
        "A unit was started that cannot be up beside it: `Conflicts=` in one of the two files."
        "`warren why UNIT` names that unit; `systemctl show -p Conflicts,ConflictedBy UNIT` the \
         lines."
        "Stop the other, then start this one. Two units that are to take turns without stopping each \
         other use `ExcludeAll=`."
    StoppedWithDependency:
        "A unit was stopped that this one has in `Requires=`, `BindsTo=`, `Requisite=` or `PartOf=`, \
         and took it along."
        "`warren why UNIT` names that unit and, in turn, who stopped it."
        "Start that unit and then this one: what went down with a unit does not come back with it, \
         but after a restart of it."
    Unneeded:
        "`StopWhenUnneeded=yes`, and no unit that is up or coming wants, requires or upholds it."
        "`systemctl list-dependencies --reverse UNIT` for who would need it."
        "Nothing: it comes up again with the first unit that needs it."
    Finished:
        "Its main process left with a status that counts as success, and `Restart=` does not start \
         it again. For `Type=oneshot` that is what is meant to happen."
        "`warren status UNIT` has the exit status; `warren logs UNIT` its last words."
        "Nothing. A service that should not end by itself: see its log, or set `Restart=always`."
    BoundUnitGone:
        "`BindsTo=` ties it to a unit that is not up: that one ended, failed, was skipped by a \
         condition, or its device was unplugged. At a start it means that the unit is bound to, and \
         ordered after, one that is down."
        "`warren why UNIT` follows the path to the unit that went."
        "Bring that unit back, then start this one; a device brings back what it wants by itself."
    Expired:
        "Nobody used the automount point for `TimeoutIdleSec=`, so what was mounted there was \
         unmounted."
        "`warren status` of the automount: it waits for the next access."
        "Nothing: the next access mounts it again."
    Vanished:
        "The mount, swap area or device is gone in the kernel and no job of the manager was at it: \
         somebody called umount(8) or swapoff(8), or the device was unplugged."
        "The kernel's messages (`warren logs -k`), and who may have unmounted it."
        "Nothing needs to be; `warren start UNIT` mounts it again."
    Sudden:
        "The machine goes down and the service said `CLEAN=1` or its file `StopPolicy=sudden`: it \
         has nothing to save, so it was killed at once instead of being asked and waited for."
        "The chart of the shutdown (`warren chart shutdown`) marks such services."
        "Nothing. A service that has something to save after all must not say so."
    Hurried:
        "Somebody asked not to wait any longer for its stop, or for its start as a part of a shutdown: \
         `warren shutdown skip UNIT`, or the key on the console. Its processes were killed."
        "`warren why UNIT` names who asked; the chart of the shutdown how long it had taken."
        "Nothing. If it is needed each time, see why it does not end by its stop signal."
    ConditionFailed:
        "A `Condition*=` line, or a command of `ExecCondition=`, did not hold when the unit's turn \
         came. The start ends as done, without the unit being up, and nobody fails by it."
        "`warren status UNIT` and the `Condition*=` lines of `systemctl cat UNIT`. Of several lines \
         all must hold; of those with `|` one."
        "Make the condition hold and start the unit again. Conditions are looked at once for each \
         start, not watched."
    AssertFailed:
        "An `Assert*=` line did not hold. Other than with a condition, the start fails, and what \
         requires the unit with it."
        "The `Assert*=` lines of `systemctl cat UNIT`."
        "Make it hold and start the unit again."
    ExitCode:
        "A process of the unit that counts (main process, `ExecStartPre=`, `ExecStartPost=`, \
         `ExecStop=` and so on) left with a status that `SuccessExitStatus=` does not name. Codes \
         from 200 on are usually steps before the program was its own: `WR-0051`."
        "`warren why UNIT` has the code and the last lines; `warren logs UNIT` all of them; \
         `warren status UNIT` which command it was."
        "Mend what the log tells of and start it. A code that means success belongs into \
         `SuccessExitStatus=`; a command whose failure does not matter begins with `-`."
    Signal:
        "A signal ended a process of the unit that nobody here sent: its own abort(3), another \
         program's kill(2), or the kernel."
        "`warren why UNIT` names the signal. SIGKILL without a word in the unit's log is often want \
         of memory elsewhere: `warren logs -k`."
        "Find who sent it; `warren start UNIT`."
    CoreDump:
        "A process of the unit crashed (SIGSEGV, SIGABRT and their like) and the kernel wrote a core \
         file, or handed it to the program in `/proc/sys/kernel/core_pattern`."
        "The core file with a debugger (`coredumpctl` where systemd's handler is in place), and the \
         last lines of the log."
        "A mended program. To have a core file of one that hangs: `warren restart --dump UNIT`."
    StartTimeout:
        "The start took longer than `TimeoutStartSec=` (a mount or socket: `TimeoutSec=`). For \
         `Type=notify` that means that `READY=1` never came, for `Type=forking` that the first \
         process never left, for `Type=dbus` that the name was never taken."
        "`warren why UNIT` and the last lines for what it waited for; `warren chart boot` for what \
         else ran at that time."
        "Find what it waits for. If it rightly takes long: a larger `TimeoutStartSec=`, or \
         `EXTEND_TIMEOUT_USEC=` from the service itself."
    StopTimeout:
        "The stop signal was sent and the unit did not end in its time, so it was killed. \
         `TimeoutStopSec=` is for the whole stop, with `ExecStop=` and `ExecStopPost=` in it, unless \
         `StopBudget=per-phase` gives each phase a fresh one."
        "`warren chart shutdown` shows which phase took the time and which process was last; \
         the unit's log whether it got the signal."
        "Have the program end by `KillSignal=`, or name the signal that it ends by. A shell script \
         that starts a program in the foreground does not pass signals on: use `exec`."
    RuntimeTimeout:
        "It ran for `RuntimeMaxSec=` and was ended, as its file says."
        "`systemctl show -p RuntimeMaxUSec UNIT`; `warren why UNIT` says since when it is down."
        "A start. A larger value, if it may run for longer; `Restart=always`, if it is to be fresh each time."
    WatchdogTimeout:
        "`WatchdogSec=` is set and no `WATCHDOG=1` came in that time: the program hangs, or feeds \
         its watchdog too seldom. It is ended by `WatchdogSignal=`, SIGABRT by default, so that there \
         may be a core file."
        "The core file or a stack of the hanging process; the last lines of the log."
        "Mend what hangs. The program is to feed its watchdog twice in each `WatchdogSec=`."
    Protocol:
        "The service did something that its `Type=` does not allow for: it left before `READY=1`, \
         its `PIDFile=` never came or names a foreign process, its first process left and no main \
         process can be found."
        "`Type=`, `PIDFile=` and `NotifyAccess=` in `systemctl cat UNIT`; with `NotifyAccess=main` \
         only the main process is listened to."
        "Correct the type: `exec` for a program that stays in the foreground, `notify` only for one \
         that calls sd_notify(3), `forking` only for one that goes into the background."
    StartLimit:
        "More than `StartLimitBurst=` starts within `StartLimitIntervalSec=`, by `Restart=` or by \
         hand. It stays down, so that a service that always ends does not take the machine along."
        "`warren why UNIT` has the count and how the last run ended; that is the real fault."
        "Mend that, then `warren reset-failed UNIT` and `warren start UNIT`. The limit is also over \
         when the interval is."
    TriggerLimit:
        "The socket started its service more than `TriggerLimitBurst=` times within \
         `TriggerLimitIntervalSec=`: usually the service ends without having taken the traffic, \
         which then triggers it anew."
        "`warren status` and `warren logs` of the service, not of the socket."
        "Have the service accept or read what comes, then `warren reset-failed` and `warren start` \
         of the socket."
    OomKilled:
        "The kernel killed a process of the unit for want of memory, in the unit's own limit \
         (`MemoryMax=`) or the machine's. What follows is up to `OOMPolicy=`."
        "`warren logs -k` for the kernel's report with what each process had; `warren status UNIT` \
         for the limit and the peak."
        "A larger `MemoryMax=`, or a program that needs less; `OOMPolicy=continue` lets the rest of \
         the unit live."
    ExecFailed:
        "The process was made, but a step before its program failed: the program is not there or not \
         executable, the user does not exist, a directory cannot be entered. The step has an exit \
         code from 200 on (systemd.exec(5), \"Process exit codes\")."
        "`warren why UNIT` has the step, the path and the system's error; `warren verify UNIT` finds \
         programs that are missing."
        "Correct the path, user, group or directory that is named, and start it."
    Resources:
        "Something that the unit needs of the system could not be had: a process, a cgroup, a file \
         descriptor."
        "`warren why UNIT` has the error in words. `pids.max`, `ulimit -n` and free memory of the \
         machine are the usual bounds, for cgroups `cgroup.max.descendants` and `cgroup.max.depth` of those above."
        "Raise the bound or free what fills it, then start it again."
    ListenFailed:
        "The socket could not be made: the address is in use, the directory of a path is missing, \
         the interface has no such address, or the permission is missing."
        "`warren why UNIT` has the address and the error; `ss -lpn` who has the address."
        "Free or correct the address. For an address that comes later: `FreeBind=yes`."
    MountFailed:
        "mount(8) or the kernel refused: the source is missing, the type is not known, an option is \
         wrong, the file system is damaged. Of an automount: the point could not be made."
        "`warren why UNIT` has what mount(8) said; the kernel's part is in `warren logs -k`."
        "Correct `What=`, `Type=` or `Options=` (or the line of fstab(5)), or repair the file system; \
         then start it. `nofail` keeps a boot from waiting for it."
    UnmountFailed:
        "umount(8) or swapoff(8) failed, mostly because somebody uses it: an open file, a working \
         directory, a mount below it. It stays mounted."
        "`warren why UNIT` names processes that hold it, with unit and file; `lsof` and `fuser -m` \
         do too."
        "End who holds it and stop it again; `LazyUnmount=yes` takes it out of sight at once and \
         lets them finish."
    ServiceLimit:
        "The unit that it starts ran into its own start limit (`WR-0048`), so that listening on \
         would only trigger it for ever."
        "`warren why UNIT` leads to the service or mount that it activates, and how that ended."
        "Mend that, `warren reset-failed` it and this one, then start this one."
    ReloadFailed:
        "A command of `ExecReload=` failed, or a mount could not be mounted anew with its options. \
         The unit is up as before, with what it had read before."
        "`warren logs UNIT`: a configuration with an error is the usual cause."
        "Correct the configuration and `warren reload UNIT` again."
    DependencyFailed:
        "A unit that it has in `Requires=`, `BindsTo=` or `RequiresMountsFor=` was to be up first \
         and its start came to nothing, so this one was not begun. Of a socket: its service cannot \
         be started at all."
        "`warren why UNIT` follows the path to the first that failed and says why."
        "Mend that one, then start this one. If it can do without: `Wants=` in place of `Requires=`."
    RequisiteMissing:
        "`Requisite=` demands that a unit is up already; it is not, and is not started for this."
        "`warren why UNIT` names it."
        "Start that unit first, or use `Requires=`, which brings it up."
    LeftOut:
        "A unit wants it (`Wants=`), but it could not be part of the start: its file is missing, \
         masked or wrong, or that of a unit that it requires is, or a unit that it conflicts with \
         (`Conflicts=`) is started by the same request. The unit that wants it started without."
        "`warren why UNIT` names what is missing, or which unit is started in its place."
        "Mend or make that file, then `warren start UNIT`; or take the `Wants=` away."
    DeviceMissing:
        "A start waited for the device for `JobRunningTimeoutSec=` of its unit \
         (`DefaultDeviceTimeoutSec=`, 90 s, where nothing states it; in fstab(5) \
         `x-systemd.device-timeout=`) and it did not come."
        "`warren devices` for what is there and what a group lacks; `warren logs -k` for the disk."
        "Plug it in or correct the name: what waited can be started again. `nofail` in fstab(5) keeps \
         a boot from waiting."
    NoneOfGroup:
        "`RequireAny=` names a group of which one must be up; none is, and none is coming."
        "`warren why` of each unit of the line."
        "Start one of them, then this one."
    Excluded:
        "`ExcludeAll=` names a unit that is up, so this one does not start. It stops nobody."
        "`warren why UNIT` names it."
        "Stop that unit first. A unit that had given way to it (`WR-0075`) then comes back by \
         itself."
    OutcomeLimit:
        "Units with `OnFailure=` or `OnSuccess=` of this one ended so often, without this one staying up, \
         that they have used up its start limit: it is not asked for any more, so that two units \
         that name each other do not go round for ever."
        "`warren why` of the units that name it."
        "End the circle, or see why its conditions never hold. It is asked for again when the \
         interval of its start limit is over."
    Canceled:
        "The job was there and a later request wanted the opposite (a stop in place of a start, with \
         the job mode `replace`)."
        "`warren why UNIT` says when, and for what; `warren logs UNIT` has it between the unit's own lines."
        "Nothing: the later request counts. Who must not be replaced asks with \
         `systemctl --job-mode=replace-irreversibly`."
    CanceledByUser:
        "`systemctl cancel` or its like: the job was given up by hand. What it had begun to start is \
         not stopped by that."
        "`warren why UNIT` names who did it."
        "Ask for the job again, if it is still wanted."
    JobTimeout:
        "The job was not done within `JobTimeoutSec=` or `JobRunningTimeoutSec=`: mostly it waited \
         for another unit that takes long. The unit itself has its own timeouts."
        "`warren why UNIT` says what it waited for; `warren chart boot` shows the wait as a bar."
        "See why that unit takes so long, then ask again. `JobTimeoutAction=` may have done more."
    Isolated:
        "`isolate` (of a target, at a change of the runlevel) stops everything that the target does \
         not need."
        "`warren why UNIT` says who isolated; `systemctl list-dependencies TARGET` what it keeps."
        "Nothing. `IgnoreOnIsolate=yes` keeps a unit up; `Wants=` in the target has it wanted."
    DependencyEnded:
        "`RestartOn=` ties it to a unit that ended. It went down in order, and comes up again when \
         that unit is up."
        "`warren why UNIT` names it and follows the path to why it ended."
        "Start or mend that unit: this one follows by itself. An own `warren stop UNIT` makes it \
         stay down."
    GaveWay:
        "`ExcludeAll=` of this unit names one that was started; this one gave way."
        "`warren why UNIT` names it."
        "Stop that unit: this one comes back by itself. An own `warren stop UNIT` makes it stay down."
    NotLoaded:
        "Some other unit or request names it, and there is no file of that name in any of the \
         directories, nor a template for an instance."
        "`warren verify UNIT` of the unit that names it lists names without files; `systemctl show -p UnitPath` the directories."
        "Correct the name, install the package, or write the file and `warren refresh`."
    Masked:
        "Its file is a link to `/dev/null`, or empty: nobody can start it, by hand or as a \
         dependency."
        "`systemctl cat UNIT` has the path of the link; `warren why UNIT` the comment of \
         `warren mask --comment`, with who and when."
        "`warren unmask UNIT`, with `--runtime` if the link is below `/run`."
    BadSetting:
        "The file was read, but without a unit that could run: a line that must be there is missing \
         (`ExecStart=`), or one is so wrong that the manual refuses the unit for it."
        "`warren verify UNIT` has each fault with file, line and column."
        "Correct the file, then `warren refresh` and start it."
    NotSupported:
        "The file is understood, but this version does not run units of its type (timers, paths, \
         scopes), or it is a swap area in a container, where they are the host's, or the verb does not \
         apply to it."
        "SPECIFICATION.md and ARCHITECTURE.md, \"What is not there yet\"."
        "Nothing within Warrener yet."
    NoDevices:
        "The device daemon is not there, not wanted, or down for good, so nobody can tell of devices: \
         all are assumed to be present, and a start of a device's unit ends at once. In containers \
         that is the rule."
        "`warren status warren-deviced.service`."
        "On a machine with disks, start it: `warren start warren-deviced.service`."
    Maintenance:
        "It was put aside: by `warren mark UNIT maintenance`, or by `Maintenance=` of its file after a \
         failure. Nobody starts it, not `Restart=`, not a socket, not `systemctl start`."
        "`warren why UNIT` has who did it, when and with which words, or the failure behind it."
        "Mend what was wrong, then `warren clear UNIT` and `warren start UNIT`. \
         `systemctl reset-failed` is refused."
    ManagerExit:
        "The machine, container or session is going down (or is changing by a soft reboot): what is \
         up is stopped, jobs that had not ended are over, and starts are refused."
        "`warren why` says what is still waited for; after the next boot \
         `warren chart shutdown` shows all of it."
        "Nothing. A shutdown that is only planned can be taken back: `warren shutdown --cancel`."
    Circle:
        "A start was asked for whose units all require each other and whose order (`After=`, `Before=`, \
         and what `DefaultDependencies=` adds) leads back to where it began. Circles with a unit that is \
         only wanted are broken by leaving that one out, which has this reason then; so has a start that \
         waited when a reload brought such a circle, and was cancelled. Stops are never refused for a circle: \
         one of them does not wait."
        "`warren why UNIT` has the whole circle; `warren cat UNIT` the lines."
        "Take one order of the circle away, then `warren refresh` and start it."
    Contradiction:
        "What the start requires includes the start and the stop of one unit: `Requires=` along one way, \
         `Conflicts=` along another."
        "`warren why UNIT` names that unit; `warren cat UNIT` the lines."
        "Take one of the relations away, then `warren refresh` and start it."
    StoodAgainst:
        "It was asked for with the job mode `fail`, or the job of a unit that it needs is irreversible, \
         as those of a shutdown are."
        "`warren why UNIT` names the unit; `systemctl list-jobs` has the job."
        "Start it when that job is over, without `--job-mode=fail`, or cancel the job: \
         `systemctl cancel JOB`."
    NotByHand:
        "`RefuseManualStart=yes` of its file: only units that want or require it start it."
        "`warren cat UNIT`, and `systemctl list-dependencies --reverse UNIT` for what wants it."
        "Start a unit that wants it, or take the setting away."
    StopCommandTimeout:
        "`ExecStop=` or `ExecStopPost=` was still at work when its share of `TimeoutStopSec=` was used up, \
         which is for the whole stop. What is left of the unit is asked by `KillSignal=`, then killed."
        "`warren chart shutdown` shows which command; `warren cat UNIT` has it, its last lines are in the log."
        "Give the command a time limit of its own, or have the program end by `KillSignal=` alone. If it \
         rightly takes long: a larger `TimeoutStopSec=`."
    StopLeft:
        "The stop signal was sent, the unit did not end in its time, and its file says `SendSIGKILL=no`: \
         it is down for the manager, but its processes are not. Nobody looks after them any more: \
         `Restart=` does not start the unit again while they are there (systemd.kill(5)). A start that somebody \
         asks for runs beside them, and may find its port or its lock taken. Only the end of the machine \
         kills them."
        "The log of the unit names the left-over processes with their numbers; `warren cat UNIT` has \
         `KillSignal=` and `TimeoutStopSec=`."
        "Ask those processes to end by the signal that they heed, or kill them by hand. Then have the \
         program end by `KillSignal=`, give it a larger `TimeoutStopSec=` (`infinity` waits for it, however \
         long it takes), or take `SendSIGKILL=no` away."
    UnmountTimeout:
        "The unmount (of a swap area: giving it up) was still at work when `TimeoutSec=` was over. It is not \
         in use, of which the kernel tells at once (`WR-0055`): the way to it leads past a server that does \
         not answer, or what was written goes to a slow disk. It stays mounted; at the end of a host it is \
         tried again, then taken out of sight."
        "`warren why` while it is at it names the server that it waits for; `grep Dirty /proc/meminfo` how \
         much is to be written."
        "Bring back the server, or `umount -f` the mount that it serves: who waits for it fails then. If the \
         disk is slow: a larger `TimeoutSec=`."
    KernelHolds:
        "The unit was killed and was not gone in its time, 10 s. A process ends when it comes back from the \
         kernel; this one is in a call that cannot be left (state D of ps(1)), mostly at a file of a server \
         that does not answer, or at a disk. The unit is down for the manager, and the process goes as soon \
         as the kernel lets it. It still has its files open and its locks."
        "The log of the unit names the left-over processes with their numbers; `cat /proc/PID/stack` and \
         `cat /proc/PID/wchan` (as root) where each is held, `ls -l /proc/PID/fd` what it has open."
        "Bring back the server, or end it: `umount -f` its mount, for FUSE also \
         `echo 1 > /sys/fs/fuse/connections/N/abort`. No signal helps, and no other kill. At the end of the \
         machine it is not waited for again."
}
