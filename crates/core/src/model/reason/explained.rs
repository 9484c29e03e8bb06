//! What an operator needs to know about a reason code: its cause, where to look, what clears it.
//!
//! One row for each code of the table in `reason`; the page of the documentation is made of both.

use super::Code;

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// What leads to it.
    pub cause: &'static str,
    /// Where to look for more, with the command that shows it.
    pub look: &'static str,
    /// What clears it. The one line of [`Code::cure`] is the short form.
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
        "The unit is loaded and has not run since boot, or it was unloaded and loaded again."
        "`systemctl list-dependencies --reverse UNIT` lists the units that would start it; `systemctl \
         is-enabled UNIT` says whether a target wants it."
        "`warren start UNIT`, or `warren enable UNIT` to start it with its target."
    Started:
        "A start job brought the unit up. A user or client requested the job, or another unit pulled it in \
         (`Wants=`, `Requires=` and similar settings)."
        "`warren why UNIT` names the user and the process that requested it, or the unit that pulled it in."
        "Nothing: the unit is up as requested."
    Triggered:
        "The unit was started by its trigger: traffic on a socket, access to an automount point, a path or \
         a timer."
        "`warren why UNIT` names the unit that triggered it."
        "Nothing. To keep the unit down, stop its trigger too: after `warren stop UNIT` alone, the next \
         connection starts it again."
    Restarted:
        "The service exited and `Restart=` started it again. `warren why` lists a service that restarted \
         within the last minute, because it may not be able to keep running."
        "`warren why UNIT` shows the number of restarts and how the last run ended; `warren logs UNIT` \
         shows its messages."
        "Fix what makes the service exit. The next manual start resets the count."
    Discovered:
        "The mount or swap area was not made by the manager: someone mounted it by hand, or it was there \
         before the manager started."
        "`findmnt` and `swapon` list the mounts and swap areas of the kernel."
        "Nothing. `warren stop UNIT` unmounts it like any other mount."
    Upheld:
        "The unit went down while a unit with `Upholds=` for it was up. That unit started it again."
        "`warren why UNIT` names the unit that upholds it."
        "Nothing. To keep the unit down, stop the unit that upholds it."
    PluggedIn:
        "The device daemon reported the device, and the device is ready for use."
        "`warren devices` lists what is known about it."
        "Nothing."
    MountedUnseen:
        "The device is mounted or used as swap, so it must be present, but the device daemon has not \
         reported it. The daemon may not be running, or it cannot see this device (for example the source \
         of a network file system)."
        "`warren devices` for the reported devices; `findmnt` for what is mounted."
        "Nothing: units that need the device treat it as present."
    WantedByDevice:
        "A device appeared whose unit or udev property (`SYSTEMD_WANTS=`) wants this unit."
        "`warren why UNIT` names the device."
        "Nothing. When the device goes away, the unit keeps running unless it is bound to the device \
         (`BindsTo=`)."
    AwaitsDevice:
        "A start job is waiting for a device that has not been reported: the disk is absent or does not \
         answer, or its group (volume group, RAID set) is incomplete."
        "`warren devices` shows which devices are present and which members each group lacks."
        "The device appears, or the job times out after `JobRunningTimeoutSec=` of the device unit \
         (`WR-0063`). `systemctl cancel` cancels the job."
    Returned:
        "`ExcludeAll=` or `RestartOn=` in `[X-Warren]` had stopped the unit because of another unit. That \
         unit now permits it again, so the manager started it."
        "`warren why UNIT` names the other unit."
        "Nothing."
    Stopped:
        "A stop job for this unit was requested and has completed."
        "`warren why UNIT` shows who requested it and when, with the comment given to `warren stop \
         --comment`."
        "`warren start UNIT`."
    StoppedByConflict:
        "A unit was started that conflicts with this one (`Conflicts=` in either unit file)."
        "`warren why UNIT` names the other unit; `systemctl show -p Conflicts,ConflictedBy UNIT` shows the \
         settings."
        "Stop the other unit, then start this one. For units that should wait for each other instead of \
         stopping each other, use `ExcludeAll=`."
    StoppedWithDependency:
        "A unit that this one names in `Requires=`, `BindsTo=`, `Requisite=` or `PartOf=` was stopped, and \
         this unit was stopped with it."
        "`warren why UNIT` names that unit and who stopped it."
        "Start that unit, then this one. A stopped unit does not come back with its dependency; after a \
         restart of the dependency it does."
    Unneeded:
        "The unit has `StopWhenUnneeded=yes`, and no active or starting unit wants, requires or upholds it."
        "`systemctl list-dependencies --reverse UNIT` lists the units that could need it."
        "Nothing: the next unit that needs it starts it."
    Finished:
        "The main process exited with a success status, and `Restart=` does not start it again. This is the \
         normal end of a `Type=oneshot` service."
        "`warren status UNIT` shows the exit status; `warren logs UNIT` shows its last messages."
        "Nothing. If the service should keep running, check its log or set `Restart=always`."
    BoundUnitGone:
        "`BindsTo=` ties the unit to another unit that is not active: it exited, failed or was skipped by a \
         condition, or its device was unplugged. At a start, it means that the unit is bound to, and \
         ordered after, a unit that is inactive."
        "`warren why UNIT` shows the path to the unit that went down."
        "Bring that unit back, then start this one. Units that a device wants start again when the device \
         returns."
    Expired:
        "The automount point was idle for `TimeoutIdleSec=`, so the file system was unmounted."
        "`warren status` of the automount unit: it waits for the next access."
        "Nothing: the next access mounts it again."
    Vanished:
        "The mount, swap area or device disappeared without a job of the manager: someone ran umount(8) or \
         swapoff(8), or the device was unplugged."
        "`warren logs -k` shows the messages of the kernel."
        "Nothing is required; `warren start UNIT` mounts it again."
    Sudden:
        "The system is shutting down, and the service said `CLEAN=1` or its unit file has \
         `StopPolicy=sudden`: it has nothing to save. It was killed without a stop signal."
        "`warren chart shutdown` marks such services."
        "Nothing. A service that does have data to save must not declare this."
    Hurried:
        "Someone skipped the wait for this unit during a shutdown, with `warren shutdown skip UNIT` or the \
         key on the console. Its processes were killed."
        "`warren why UNIT` names who skipped it; `warren chart shutdown` shows how long the wait had taken."
        "Nothing. If this is needed at every shutdown, find out why the service does not exit on its stop \
         signal."
    ConditionFailed:
        "A `Condition*=` setting or an `ExecCondition=` command was false when the unit was about to start. \
         The start job succeeds without starting the unit, and no other unit fails because of it."
        "`warren status UNIT`, and the `Condition*=` lines in `systemctl cat UNIT`. All lines must be true; \
         of the lines with `|`, one must be."
        "Make the condition true and start the unit again. Conditions are checked once at each start and \
         are not monitored."
    AssertFailed:
        "An `Assert*=` setting was false. Unlike with a condition, the start fails, and units that require \
         this unit fail too."
        "The `Assert*=` lines in `systemctl cat UNIT`."
        "Make it true and start the unit again."
    ExitCode:
        "A process of the unit (main process, `ExecStartPre=`, `ExecStartPost=`, `ExecStop=` and so on) \
         exited with a status that is not in `SuccessExitStatus=`. Codes of 200 and above usually mean that \
         a step before the program failed: see `WR-0051`."
        "`warren why UNIT` shows the code and the last log lines, `warren logs UNIT` all lines, `warren \
         status UNIT` the command."
        "Fix the cause that the log names, then start the unit. Add codes that mean success to \
         `SuccessExitStatus=`; prefix a command whose failure does not matter with `-`."
    Signal:
        "A process of the unit was killed by a signal that the manager did not send: the process called \
         abort(3), another program called kill(2), or the kernel sent it."
        "`warren why UNIT` names the signal. SIGKILL with nothing in the unit's log often means that memory \
         ran out elsewhere: check `warren logs -k`."
        "Find the sender; then `warren start UNIT`."
    CoreDump:
        "A process of the unit crashed (SIGSEGV, SIGABRT or similar) and the kernel wrote a core dump or \
         passed it to the program in `/proc/sys/kernel/core_pattern`."
        "The core dump in a debugger (`coredumpctl` where systemd-coredump is installed), and the last \
         lines of the log."
        "Fix the program. To get a core dump of a service that hangs: `warren restart --dump UNIT`."
    StartTimeout:
        "The start took longer than `TimeoutStartSec=` (for a mount or socket: `TimeoutSec=`). With \
         `Type=notify`, `READY=1` was not received; with `Type=forking`, the first process did not exit; \
         with `Type=dbus`, the bus name was not acquired."
        "`warren why UNIT` and the last log lines show what it was waiting for; `warren chart boot` shows \
         what else ran at that time."
        "Fix what it waits for. If the start legitimately takes long, raise `TimeoutStartSec=` or send \
         `EXTEND_TIMEOUT_USEC=` from the service."
    StopTimeout:
        "The unit did not stop in time after its stop signal, so its processes were killed. \
         `TimeoutStopSec=` covers the whole stop, including `ExecStop=` and `ExecStopPost=`, unless \
         `StopBudget=per-phase` gives each phase the full time."
        "`warren chart shutdown` shows which phase took the time and which process was last; the unit's log \
         shows whether the program received the signal."
        "Make the program exit on `KillSignal=`, or set `KillSignal=` to the signal that it exits on. A \
         shell script does not pass signals to a program in the foreground: start the program with `exec`."
    RuntimeTimeout:
        "The unit ran for `RuntimeMaxSec=` and was stopped."
        "`systemctl show -p RuntimeMaxUSec UNIT` shows the limit; `warren why UNIT` shows when it was \
         stopped."
        "Start it again. Raise the limit if it may run longer, or set `Restart=always` to start it afresh \
         each time."
    WatchdogTimeout:
        "`WatchdogSec=` is set, and the service did not send `WATCHDOG=1` in that time: it hangs, or it \
         sends the message too seldom. The manager sent `WatchdogSignal=` (SIGABRT by default), which can \
         leave a core dump."
        "The core dump or a stack trace of the process; the last lines of the log."
        "Fix the hang. The service should send `WATCHDOG=1` twice in each `WatchdogSec=`."
    Protocol:
        "The service did not behave as its `Type=` requires: it exited before `READY=1`, its `PIDFile=` \
         never appeared or names a process of another unit, or its first process exited and no main process \
         was found."
        "`Type=`, `PIDFile=` and `NotifyAccess=` in `systemctl cat UNIT`. With `NotifyAccess=main`, only \
         messages of the main process count."
        "Set the right type: `exec` for a program that stays in the foreground, `notify` for one that calls \
         sd_notify(3), `forking` for one that puts itself into the background."
    StartLimit:
        "The unit was started more than `StartLimitBurst=` times within `StartLimitIntervalSec=`, by \
         `Restart=` or manually. The manager leaves it down, so that a failing service does not use up the \
         machine."
        "`warren why UNIT` shows the count and how the last run ended: that is the actual fault."
        "Fix that, then `warren reset-failed UNIT` and `warren start UNIT`. The limit also ends with its \
         interval."
    TriggerLimit:
        "The socket started its service more than `TriggerLimitBurst=` times within \
         `TriggerLimitIntervalSec=`. Usually the service exits without reading the traffic, which then \
         triggers it again."
        "`warren status` and `warren logs` of the service, not of the socket."
        "Make the service accept or read the traffic, then `warren reset-failed` and `warren start` the \
         socket."
    OomKilled:
        "The kernel killed a process of the unit because memory ran out, either within the unit's limit \
         (`MemoryMax=`) or on the whole machine. `OOMPolicy=` decides what happens next."
        "`warren logs -k` shows the kernel's report with the memory of each process; `warren status UNIT` \
         shows the limit and the peak."
        "Raise `MemoryMax=` or reduce what the program uses. With `OOMPolicy=continue` the rest of the unit \
         keeps running."
    ExecFailed:
        "A step before the program failed: the program does not exist or is not executable, the user does \
         not exist, or a directory cannot be entered. Each step has an exit code of 200 or above \
         (systemd.exec(5), \"Process exit codes\")."
        "`warren why UNIT` shows the step, the path and the system's error; `warren verify UNIT` finds \
         missing programs."
        "Correct the path, user, group or directory, then start the unit."
    Resources:
        "The system could not provide a process, a cgroup or a file descriptor for the unit."
        "`warren why UNIT` shows the error. Check `pids.max`, `ulimit -n` and free memory, and for cgroups \
         `cgroup.max.descendants` and `cgroup.max.depth` of the groups above."
        "Raise the limit or free the resource, then start the unit again."
    ListenFailed:
        "The socket could not be opened: the address is in use, the directory of its path does not exist, \
         no interface has the address, or permission is missing."
        "`warren why UNIT` shows the address and the error; `ss -lpn` shows which process uses the address."
        "Free or correct the address. For an address that is configured later, set `FreeBind=yes`."
    MountFailed:
        "mount(8) or the kernel refused the mount: the source is missing, the type is unknown, an option is \
         wrong, or the file system is damaged. For an automount: the automount point could not be set up."
        "`warren why UNIT` shows the error of mount(8); `warren logs -k` shows the messages of the kernel."
        "Correct `What=`, `Type=` or `Options=` (or the line in fstab(5)), or repair the file system, then \
         start the unit. With `nofail`, a boot does not wait for it."
    UnmountFailed:
        "umount(8) or swapoff(8) failed, usually because the file system is in use: an open file, a working \
         directory, or another mount below it. It stays mounted."
        "`warren why UNIT` lists the processes that use it, with unit and file; `lsof` and `fuser -m` do so \
         too."
        "End those processes and stop the unit again. `LazyUnmount=yes` detaches the file system at once \
         and lets them finish."
    ServiceLimit:
        "The unit that this one starts reached its start limit (`WR-0048`). Listening further would only \
         trigger it again and again."
        "`warren why UNIT` leads to the service or mount and how it ended."
        "Fix that unit, `warren reset-failed` both, then start this one."
    ReloadFailed:
        "An `ExecReload=` command failed, or a mount could not be remounted with its new options. The unit \
         keeps running with its previous configuration."
        "`warren logs UNIT`: the usual cause is an error in the configuration."
        "Correct the configuration, then `warren reload UNIT`."
    DependencyFailed:
        "A unit that this one names in `Requires=`, `BindsTo=` or `RequiresMountsFor=` failed to start, so \
         this unit was not started. For a socket: its service cannot be started."
        "`warren why UNIT` shows the path to the first unit that failed, and why."
        "Fix that unit, then start this one. If this unit works without it, use `Wants=` instead of \
         `Requires=`."
    RequisiteMissing:
        "`Requisite=` names a unit that must already be active. It is not, and `Requisite=` does not start \
         it."
        "`warren why UNIT` names that unit."
        "Start that unit first, or use `Requires=`, which starts it."
    LeftOut:
        "A unit wants this one (`Wants=`), but it could not be part of the start: its unit file or that of \
         a unit it requires is missing, masked or invalid, or the same request starts a unit that conflicts \
         with it (`Conflicts=`). The unit that wants it was started without it."
        "`warren why UNIT` names what is missing, or the unit that was started instead."
        "Fix or create the unit file, then `warren start UNIT`; or remove the `Wants=`."
    DeviceMissing:
        "A start job waited for the device for `JobRunningTimeoutSec=` of the device unit (default: \
         `DefaultDeviceTimeoutSec=`, 90 s; in fstab(5): `x-systemd.device-timeout=`), and the device did \
         not appear."
        "`warren devices` shows present devices and missing members; `warren logs -k` shows messages about \
         the disk."
        "Connect the device or correct its name, then start the units again. With `nofail` in fstab(5), a \
         boot does not wait for it."
    NoneOfGroup:
        "`RequireAny=` requires at least one unit of a group to be active. None is active or starting."
        "`warren why` of each unit in the group."
        "Start one of them, then this unit."
    Excluded:
        "`ExcludeAll=` names a unit that is active, so this unit does not start. The other unit keeps \
         running."
        "`warren why UNIT` names that unit."
        "Stop that unit first. A unit that was stopped in favour of another one (`WR-0075`) starts again by \
         itself."
    OutcomeLimit:
        "Units with `OnFailure=` or `OnSuccess=` for this unit ended so often that they used up its start \
         limit while it did not stay active. It is no longer started, so that two units that name each \
         other do not restart each other for ever."
        "`warren why` of the units that name it."
        "Break the loop, or find out why its conditions are false. It can be started again when the \
         interval of its start limit is over."
    Canceled:
        "A later request replaced this job with its opposite, for example a stop instead of a start (job \
         mode `replace`)."
        "`warren why UNIT` shows when and by which request; `warren logs UNIT` shows it between the unit's \
         messages."
        "Nothing: the later request counts. To protect a job, use `systemctl \
         --job-mode=replace-irreversibly`."
    CanceledByUser:
        "The job was cancelled with `systemctl cancel` or a similar command. Units that it had already \
         started keep running."
        "`warren why UNIT` names who cancelled it."
        "Request the job again if it is still needed."
    JobTimeout:
        "The job did not complete within `JobTimeoutSec=` or `JobRunningTimeoutSec=`, usually because it \
         waited for another slow unit. The unit's own timeouts are separate."
        "`warren why UNIT` shows what it waited for; `warren chart boot` shows the wait as a bar."
        "Find out why that unit is slow, then request the job again. `JobTimeoutAction=` may have done \
         more."
    Isolated:
        "`isolate` of a target (a change of the runlevel) stops every unit that the target does not need."
        "`warren why UNIT` shows who requested it; `systemctl list-dependencies TARGET` lists the units \
         that keep running."
        "Nothing. `IgnoreOnIsolate=yes` keeps a unit running; `Wants=` in the target makes it part of the \
         target."
    DependencyEnded:
        "`RestartOn=` ties the unit to another unit that went down. This unit was stopped and starts again \
         when the other one is up."
        "`warren why UNIT` names that unit and shows why it went down."
        "Start or fix that unit: this one follows automatically. After `warren stop UNIT` it stays down."
    GaveWay:
        "`ExcludeAll=` of this unit names a unit that was started, so this unit was stopped."
        "`warren why UNIT` names that unit."
        "Stop that unit: this one starts again automatically. After `warren stop UNIT` it stays down."
    NotLoaded:
        "Another unit or a request names this unit, but no unit directory contains a file or a template for \
         it."
        "`warren verify UNIT` of the unit that names it lists missing files; `systemctl show -p UnitPath` \
         lists the directories."
        "Correct the name, install the package, or write the file and run `warren refresh`."
    Masked:
        "The unit file is empty or a link to `/dev/null`: the unit cannot be started, neither manually nor \
         as a dependency."
        "`systemctl cat UNIT` shows the path of the link; `warren why UNIT` shows the comment of `warren \
         mask --comment`, with user and time."
        "`warren unmask UNIT`, with `--runtime` if the link is below `/run`."
    BadSetting:
        "The unit file was read but does not make a unit that can run: a required setting is missing \
         (`ExecStart=`), or a setting is invalid in a way that systemd's documentation says invalidates the \
         unit."
        "`warren verify UNIT` lists each error with file, line and column."
        "Correct the file, then `warren refresh` and start the unit."
    NotSupported:
        "The unit file is valid, but the unit is a swap area in a container, where swap belongs to the host, or the \
         command does not apply to the unit."
        "SPECIFICATION.md and ARCHITECTURE.md, \"What is not there yet\"."
        "Not possible with this version of Warrener."
    NoDevices:
        "The device daemon is not installed, not enabled or has failed, so no devices are reported. All \
         devices are treated as present, and a start of a device unit completes at once. In containers this \
         is normal."
        "`warren status warren-deviced.service`."
        "On a machine with disks: `warren start warren-deviced.service`."
    Maintenance:
        "The unit is in maintenance: someone ran `warren mark UNIT maintenance`, or the unit failed and its \
         file has `Maintenance=`. It is not started by `Restart=`, a socket or `systemctl start`."
        "`warren why UNIT` shows who set it, when and with which comment, or the failure that caused it."
        "Fix the cause, then `warren clear UNIT` and `warren start UNIT`. `systemctl reset-failed` is \
         refused."
    ManagerExit:
        "The machine, container or session is shutting down (or a soft reboot is in progress): active units \
         are stopped, unfinished jobs are cancelled and starts are refused."
        "`warren why` shows what the shutdown is waiting for; after the next boot `warren chart shutdown` \
         shows all of it."
        "Nothing. A scheduled shutdown can be cancelled: `warren shutdown --cancel`."
    Circle:
        "The requested start contains an ordering cycle between units that all require each other \
         (`After=`, `Before=` and the order that `DefaultDependencies=` adds). If a unit in the cycle is \
         only wanted, it is left out, with this reason, and the others start. A waiting start job that \
         becomes part of a cycle after a reload is cancelled, also with this reason. Stop jobs are never \
         refused because of a cycle: one of them does not wait."
        "`warren why UNIT` shows the whole cycle; `warren cat UNIT` shows the settings."
        "Remove one ordering from the cycle, then `warren refresh` and start the unit."
    Contradiction:
        "The start requires that one unit is both started and stopped: `Requires=` on one path, \
         `Conflicts=` on another."
        "`warren why UNIT` names that unit; `warren cat UNIT` shows the settings."
        "Remove one of the two relations, then `warren refresh` and start the unit."
    StoodAgainst:
        "The request conflicts with a queued job that it may not replace: it was made with job mode `fail`, \
         or the queued job is irreversible, as the jobs of a shutdown are."
        "`warren why UNIT` names the unit; `systemctl list-jobs` lists the job."
        "Wait until that job has completed, request without `--job-mode=fail`, or cancel the job: \
         `systemctl cancel JOB`."
    NotByHand:
        "The unit file has `RefuseManualStart=yes`: only units that want or require it can start it."
        "`warren cat UNIT`; `systemctl list-dependencies --reverse UNIT` lists the units that start it."
        "Start a unit that wants it, or remove the setting."
    StopCommandTimeout:
        "`ExecStop=` or `ExecStopPost=` was still running when its share of `TimeoutStopSec=` was used up \
         (`TimeoutStopSec=` covers the whole stop). The remaining processes get `KillSignal=` and are then \
         killed."
        "`warren chart shutdown` shows which command; `warren cat UNIT` shows the setting; the log has its \
         last lines."
        "Give the command a timeout of its own, or let the program exit on `KillSignal=` alone. If the stop \
         legitimately takes long, raise `TimeoutStopSec=`."
    StopLeft:
        "The unit did not stop in time after its stop signal, and its file has `SendSIGKILL=no`. The \
         manager treats it as inactive, but leftover processes keep running unsupervised. While they run, \
         `Restart=` does not start the unit again (systemd.kill(5)). A manual start runs beside them and \
         may find its port or lock in use. They are killed when the machine shuts down."
        "The unit's log lists the leftover processes with their PIDs; `warren cat UNIT` shows `KillSignal=` \
         and `TimeoutStopSec=`."
        "End the leftover processes with the signal they react to, or kill them. Then make the program exit \
         on `KillSignal=`, raise `TimeoutStopSec=` (`infinity` waits for as long as it takes), or remove \
         `SendSIGKILL=no`."
    UnmountTimeout:
        "The unmount (or swapoff) was still running when `TimeoutSec=` was over. The file system is not in \
         use (the kernel reports that at once, `WR-0055`): its path leads across a server that does not \
         respond, or data is being written to a slow disk. It stays mounted. At the shutdown of a host, the \
         unmount is tried again and the file system is then detached."
        "`warren why`, while the unmount runs, names the server it waits for; `grep Dirty /proc/meminfo` \
         shows how much data is unwritten."
        "Bring the server back, or `umount -f` the mount that it serves: processes that wait for it get an \
         error. For a slow disk, raise `TimeoutSec=`."
    KernelHolds:
        "The unit's processes were killed but have not exited after 10 s. They are in an uninterruptible \
         call of the kernel (state D in ps(1)), usually at a file on a server that does not respond, or at \
         a disk. The manager treats the unit as inactive; the processes exit as soon as the kernel lets \
         them. Until then they keep their open files and locks."
        "The unit's log lists the leftover processes with their PIDs. As root, `cat /proc/PID/stack` and \
         `cat /proc/PID/wchan` show where each one waits, and `ls -l /proc/PID/fd` its open files."
        "Bring the server back, or end the wait: `umount -f` its mount, for FUSE also `echo 1 > \
         /sys/fs/fuse/connections/N/abort`. Signals do not help. A shutdown does not wait for these \
         processes again."
    Elapsed:
        "The timer has RemainAfterElapse=no and will not elapse again: its calendar expressions lie in the past, \
         and the moments that its On*Sec= settings count from are over."
        "`systemctl cat UNIT`; `systemd-analyze calendar` shows when an expression elapses."
        "`warren start UNIT` restarts its time spans. Without RemainAfterElapse=no the timer stays active."
    WatchdogIgnored:
        "The unit gave no sign of life within WatchdogSec=, said itself that something is wrong, or reached its start \
         limit or the time of its job. It was neither ended, nor was its StartLimitAction= or JobTimeoutAction= \
         followed, as service watchdogs are off."
        "`systemctl service-watchdogs` says whether they are on. `systemctl service-watchdogs no`, and \
         `systemd.service_watchdogs=no` on the kernel's command line, switch them off."
        "`systemctl service-watchdogs yes`, and look at the unit: what its watchdog was for has happened."
    SliceFull:
        "`ConcurrencyHardMax=` of the unit's slice, or of a slice above it, says how many units may be active in \
         it, and so many are active or wait for their turn (`ConcurrencySoftMax=`). Slices in it count too."
        "`systemctl show -p ConcurrencyHardMax,ConcurrencySoftMax,NCurrentlyActive SLICE` shows the limits and \
         how many units are active; `systemctl status SLICE` lists them."
        "Stop a unit of the slice and start this one again, raise the limit, or set `ConcurrencySoftMax=` below \
         it: then starts wait instead of failing."
}
