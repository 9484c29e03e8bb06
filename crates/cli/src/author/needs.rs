//! A unit file from a command and what was seen of it: what the program did is allowed, all else is closed. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use warren_sandbox::seccomp::groups;
use warren_sys::process::ExitKind;
use warren_unit::value::quoted;

use super::observe::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, End, Observed};

/// What a unit is written from.
pub(super) struct Plan<'a> {
    /// What the program is, for people.
    pub description: &'a str,
    /// The program, by its whole path, and its arguments.
    pub command: &'a [String],
    /// The directory that it ran in, if not `/`.
    pub directory: Option<&'a Path>,
    /// The user that it ran as, if not root.
    pub user: Option<&'a str>,
    /// For how long it ran, in seconds, and what was seen; nothing if it was not run.
    pub run: Option<(u64, &'a Observed)>,
}

/// Directories that a unit can own, and the settings for them (systemd.exec(5)).
const OWN_DIRECTORIES: [(&str, &str); 4] = [
    ("/var/lib", "StateDirectory"),
    ("/var/cache", "CacheDirectory"),
    ("/var/log", "LogsDirectory"),
    ("/run", "RuntimeDirectory"),
];

/// Where homes are (`ProtectHome=`).
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// Devices that `PrivateDevices=` leaves.
const PSEUDO_DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// The calls that most services need.
const USUAL: &str = "@system-service";

/// Groups within it that most services do not need.
const UNUSUAL: [&str; 2] = ["@privileged", "@resources"];

/// Capabilities by the calls that need them (capabilities(7)).
const CAPABILITIES: [(&str, &[&str]); 15] = [
    ("CAP_CHOWN", &["chown", "fchown", "lchown", "fchownat"]),
    ("CAP_SETUID", &["setuid", "setreuid", "setresuid", "setfsuid"]),
    ("CAP_SETGID", &["setgid", "setregid", "setresgid", "setfsgid", "setgroups"]),
    (
        "CAP_SYS_ADMIN",
        &[
            "mount",
            "umount2",
            "pivot_root",
            "sethostname",
            "setdomainname",
            "swapon",
            "swapoff",
            "quotactl",
            "fsopen",
            "fsmount",
            "move_mount",
            "open_tree",
            "setns",
            "fanotify_init",
        ],
    ),
    ("CAP_SYS_TIME", &["settimeofday", "clock_settime"]),
    ("CAP_SYS_MODULE", &["init_module", "finit_module", "delete_module"]),
    ("CAP_SYS_BOOT", &["reboot", "kexec_load", "kexec_file_load"]),
    ("CAP_SYS_RAWIO", &["iopl", "ioperm"]),
    ("CAP_SYS_PTRACE", &["ptrace", "process_vm_readv", "process_vm_writev"]),
    ("CAP_SYS_CHROOT", &["chroot"]),
    ("CAP_IPC_LOCK", &["mlock", "mlock2", "mlockall"]),
    ("CAP_SYS_PACCT", &["acct"]),
    ("CAP_MKNOD", &["mknod", "mknodat"]),
    ("CAP_SYSLOG", &["syslog"]),
    ("CAP_BPF", &["bpf"]),
];

/// Kinds of namespaces by their bits of clone(2).
const NAMESPACES: [(u64, &str); 7] = [
    (0x0200_0000, "cgroup"),
    (0x0800_0000, "ipc"),
    (0x4000_0000, "net"),
    (0x0002_0000, "mnt"),
    (0x2000_0000, "pid"),
    (0x1000_0000, "user"),
    (0x0400_0000, "uts"),
];

/// Families of sockets by their names.
const FAMILIES: [(u64, &str); 7] = [
    (AF_UNIX, "AF_UNIX"),
    (AF_INET, "AF_INET"),
    (AF_INET6, "AF_INET6"),
    (AF_NETLINK, "AF_NETLINK"),
    (AF_PACKET, "AF_PACKET"),
    (38, "AF_ALG"),
    (40, "AF_VSOCK"),
];

/// The lines of a section as they are added.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn set(&mut self, name: &str, value: impl AsRef<str>) {
        self.0.push(format!("{name}={}", value.as_ref()));
    }

    fn yes(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.set(name, "yes"));
    }

    /// `yes` if it can be, else a comment that says why it is not.
    fn unless(&mut self, name: &str, reason: Option<&str>) {
        match reason {
            None => self.set(name, "yes"),
            Some(reason) => self.0.push(format!("# without {name}=: it {reason}")),
        }
    }

    fn title(&mut self, text: &str) {
        self.0.push(String::new());
        self.0.push(format!("# {text}"));
    }
}

/// The line of a unit that has not been tried.
const NOT_TRIED: &str = "# Not tried.";

/// The unit with what there is to say of how it was tried.
pub(super) fn with_trial(text: &str, words: &str) -> String {
    let line: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replacen(NOT_TRIED, &format!("# {line}"), 1)
}

/// The text of the unit file.
pub(super) fn unit(plan: &Plan<'_>) -> String {
    let mut out = Vec::new();
    match plan.run {
        Some((seconds, _)) => out.extend([
            format!("# Written by `warren new` from one run of {seconds} s: what the program did then is allowed, and what"),
            "# belongs to it. It may do more at another time. Read this before you rely on it.".to_owned(),
            NOT_TRIED.to_owned(),
        ]),
        None => out.push("# Written by `warren new`. The program was not run, so nothing is closed to it yet.".to_owned()),
    }
    let description = plan.description.replace('%', "%%").replace(['\n', '\0'], " ");
    out.extend(["[Unit]".to_owned(), format!("Description={description}")]);
    if plan.run.is_some_and(|(_, seen)| seen.is_on_network) {
        out.extend(
            ["Wants=network-online.target", "After=network-online.target"].map(str::to_owned),
        );
    }
    out.extend([String::new(), "[Service]".to_owned()]);
    let mut lines = Lines::default();
    program(plan, &mut lines);
    if let Some((_, seen)) = plan.run {
        files(plan, seen, &mut lines);
        kernel(seen, &mut lines);
        rights(plan, seen, &mut lines);
        network(seen, &mut lines);
        calls(seen, &mut lines);
    }
    out.append(&mut lines.0);
    out.extend([String::new(), "[Install]".to_owned(), "WantedBy=multi-user.target".to_owned()]);
    out.join("\n") + "\n"
}

fn program(plan: &Plan<'_>, lines: &mut Lines) {
    let seen = plan.run.map(|(_, seen)| seen);
    let end = seen.map(|seen| seen.end);
    let kind = match (end, seen.is_some_and(|seen| seen.is_ready)) {
        (_, true) => "notify",
        (Some(End::Forked), _) => "forking",
        (Some(End::Ended(ExitKind::Exited(0))), _) => "oneshot",
        _ => "exec",
    };
    lines.set("Type", kind);
    let words: Vec<String> =
        plan.command.iter().map(|word| quoted(&word.replace('$', "$$"))).collect();
    lines.set("ExecStart", words.join(" "));
    if let Some(directory) = plan.directory {
        lines.set("WorkingDirectory", directory.to_string_lossy().replace('%', "%%"));
    }
    if kind != "oneshot" {
        lines.set("Restart", "on-failure");
    }
    if seen.is_some_and(|seen| seen.ignores_stop) {
        lines.0.push("# it did not end within 5 s of SIGTERM".to_owned());
    }
    if let Some(seen) = seen.filter(|seen| seen.peak_kib > 0) {
        lines.0.push(format!(
            "# one process held {} MB of memory at most",
            seen.peak_kib.div_ceil(1024)
        ));
    }
    match (plan.user, seen) {
        (Some(user), _) => lines.set("User", user),
        (None, Some(seen)) => match why_root(seen) {
            None => lines.set("DynamicUser", "yes"),
            Some(why) => lines.0.push(format!("# it runs as root: it {why}")),
        },
        (None, None) => {}
    }
}

/// Why the program cannot run as a user that was made for it.
fn why_root(seen: &Observed) -> Option<String> {
    if let Some(path) = seen.closed.keys().next() {
        return Some(format!("reads {}, which not everybody may", path.display()));
    }
    let capabilities = capabilities(seen);
    if let Some(name) = capabilities.iter().find(|name| **name != "CAP_NET_BIND_SERVICE") {
        return Some(format!("needs {name}"));
    }
    let shared = writable(seen).shared;
    shared.first().map(|path| format!("writes to {}", path.display()))
}

/// Capabilities that it used, as far as calls tell.
fn capabilities(seen: &Observed) -> BTreeSet<&'static str> {
    let mut out = BTreeSet::new();
    for (name, calls) in CAPABILITIES {
        if calls.iter().any(|call| seen.succeeded.contains(call)) {
            out.insert(name);
        }
    }
    if seen.ports.iter().any(|port| (1..1024).contains(port)) {
        out.insert("CAP_NET_BIND_SERVICE");
    }
    if seen.has_raw_sockets || seen.families.contains(&AF_PACKET) {
        out.insert("CAP_NET_RAW");
    }
    if seen.is_realtime {
        out.insert("CAP_SYS_NICE");
    }
    if seen.closed.values().any(|is_roots| !is_roots) {
        out.insert("CAP_DAC_OVERRIDE");
    }
    out
}

/// What it has to be able to write.
#[derive(Default)]
pub(super) struct Writable {
    /// Settings and names of directories of its own.
    own: BTreeSet<(&'static str, String)>,
    /// Paths that are not its own.
    pub(super) shared: BTreeSet<PathBuf>,
}

/// What a program has to be able to write.
pub(super) fn writable(seen: &Observed) -> Writable {
    let mut out = Writable::default();
    let elsewhere = ["/tmp", "/var/tmp", "/dev", "/proc", "/sys"];
    for path in &seen.written {
        // /var/run and /var/lock lead to /run.
        let path = match path.strip_prefix("/var/run") {
            Ok(rest) => Path::new("/run").join(rest),
            Err(_) => path.clone(),
        };
        if elsewhere.iter().any(|top| path.starts_with(top)) {
            continue;
        }
        let own = OWN_DIRECTORIES.iter().find_map(|(top, setting)| {
            let name = path.strip_prefix(top).ok()?.iter().next()?.to_str()?;
            let is_home = HOMES.iter().any(|home| path.starts_with(home));
            // A file that lies there itself is nobody's directory.
            let is_directory = !(name.contains('.') && path == Path::new(top).join(name));
            (!is_home && is_directory).then(|| (*setting, name.to_owned()))
        });
        match own {
            Some(own) => _ = out.own.insert(own),
            None => _ = out.shared.insert(path),
        }
    }
    // What lies below another one says nothing new.
    let shared = std::mem::take(&mut out.shared);
    for path in shared {
        if !out.shared.iter().any(|other| path.starts_with(other)) {
            out.shared.insert(path);
        }
    }
    out
}

fn files(plan: &Plan<'_>, seen: &Observed, lines: &mut Lines) {
    lines.title("Files");
    lines.set("ProtectSystem", "strict");
    let writable = writable(seen);
    for (_, setting) in OWN_DIRECTORIES {
        let names = writable.own.iter().filter(|(own, _)| *own == setting);
        let names: Vec<String> = names.map(|(_, name)| quoted(name)).collect();
        if !names.is_empty() {
            lines.set(setting, names.join(" "));
        }
    }
    for path in &writable.shared {
        if seen.made.contains(path) {
            lines
                .0
                .push("# the run made this one, and it must exist when the unit starts".to_owned());
        }
        lines.set("ReadWritePaths", quoted(&path.to_string_lossy()));
    }
    let program = plan.command.first().map(PathBuf::from);
    let used = seen.read.iter().chain(&writable.shared).chain(program.as_ref());
    let used = used
        .chain(plan.directory.map(Path::to_path_buf).as_ref())
        .any(|path| HOMES.iter().any(|home| path.starts_with(home)));
    let is_written =
        writable.shared.iter().any(|path| HOMES.iter().any(|home| path.starts_with(home)));
    lines.set(
        "ProtectHome",
        match (used, is_written) {
            (_, true) => "no",
            (true, false) => "read-only",
            (false, false) => "yes",
        },
    );
    // What it made there itself it makes again.
    let is_shared = |path: &&PathBuf| {
        ["/tmp", "/var/tmp"]
            .iter()
            .any(|top| path.starts_with(top) && path.as_path() != Path::new(top))
            && !seen.written.iter().any(|own| path.starts_with(own))
    };
    match seen.read.iter().chain(program.as_ref()).find(is_shared) {
        Some(path) => lines.0.push(format!("# without PrivateTmp=: it uses {}", path.display())),
        None => lines.yes(&["PrivateTmp"]),
    }
    let devices: Vec<&PathBuf> = seen
        .read
        .iter()
        .filter(|path| path.starts_with("/dev") && path.as_path() != Path::new("/dev"))
        .filter(|path| !PSEUDO_DEVICES.iter().any(|known| path.starts_with(known)))
        .collect();
    match devices.is_empty() {
        true => lines.yes(&["PrivateDevices"]),
        false => {
            lines.set("DevicePolicy", "closed");
            devices
                .iter()
                .for_each(|path| lines.set("DeviceAllow", format!("{} rw", path.display())));
        }
    }
}

fn kernel(seen: &Observed, lines: &mut Lines) {
    lines.title("The kernel and other processes");
    let did = |calls: &[&str]| calls.iter().any(|call| seen.succeeded.contains(call));
    let wrote = |top: &str| seen.written.iter().any(|path| path.starts_with(top));
    let cgroups = "/sys/fs/cgroup";
    let tunables = wrote("/proc/sys") || wrote("/sys") && !wrote(cgroups);
    lines.unless("ProtectKernelTunables", tunables.then_some("writes to /proc/sys or /sys"));
    let modules = did(&["init_module", "finit_module", "delete_module"]);
    lines.unless("ProtectKernelModules", modules.then_some("loads modules"));
    let logs = did(&["syslog"]) || seen.read.iter().any(|path| path.starts_with("/dev/kmsg"));
    lines.unless("ProtectKernelLogs", logs.then_some("uses the kernel's log"));
    lines.unless("ProtectControlGroups", wrote(cgroups).then_some("writes to cgroups"));
    let clock = did(&["settimeofday", "clock_settime"]);
    lines.unless("ProtectClock", clock.then_some("sets the clock"));
    let name = did(&["sethostname", "setdomainname"]);
    lines.unless("ProtectHostname", name.then_some("sets the host's name"));
    match seen.looks_at_others {
        true => lines.0.push("# without ProtectProc=: it looks at other processes".to_owned()),
        false => lines.set("ProtectProc", "invisible"),
    }
    let of_kernel = seen.read.iter().find(|path| {
        let name = path.strip_prefix("/proc").ok().and_then(|rest| rest.iter().next()?.to_str());
        name.is_some_and(|name| !name.bytes().all(|b| b.is_ascii_digit()))
    });
    match of_kernel {
        Some(path) => lines.0.push(format!("# without ProcSubset=: it reads {}", path.display())),
        None => lines.set("ProcSubset", "pid"),
    }
}

fn rights(plan: &Plan<'_>, seen: &Observed, lines: &mut Lines) {
    lines.title("Rights");
    lines.unless("NoNewPrivileges", seen.runs_setuid.then_some("runs a set-uid program"));
    // A user has none unless the unit gives them.
    let names: Vec<&str> = capabilities(seen).into_iter().collect();
    let is_user = plan.user.is_some() || why_root(seen).is_none();
    lines.set("CapabilityBoundingSet", names.join(" "));
    if is_user && names.contains(&"CAP_NET_BIND_SERVICE") {
        lines.set("AmbientCapabilities", "CAP_NET_BIND_SERVICE");
    }
    let kinds: Vec<&str> = NAMESPACES
        .iter()
        .filter(|(bit, _)| seen.namespaces & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    match kinds.is_empty() {
        true => lines.yes(&["RestrictNamespaces"]),
        false => lines.set("RestrictNamespaces", kinds.join(" ")),
    }
    lines.unless("RestrictRealtime", seen.is_realtime.then_some("asks for real-time scheduling"));
    lines.unless("RestrictSUIDSGID", seen.makes_setuid.then_some("makes set-uid files"));
    let personality = seen.calls.contains("personality");
    lines.unless("LockPersonality", personality.then_some("changes its personality"));
    lines.unless("MemoryDenyWriteExecute", seen.makes_code.then_some("makes code at run time"));
    let shared =
        ["shmget", "semget", "msgget", "mq_open"].iter().any(|call| seen.succeeded.contains(call));
    lines.unless(
        "PrivateIPC",
        shared.then_some("uses System V IPC or message queues, perhaps with others"),
    );
}

fn network(seen: &Observed, lines: &mut Lines) {
    lines.title("The network");
    let known = FAMILIES.iter().filter(|(number, _)| seen.families.contains(number));
    // The log and the bus are reached over Unix sockets.
    let names: BTreeSet<&str> = known.map(|(_, name)| *name).chain(["AF_UNIX"]).collect();
    let others =
        seen.families.iter().any(|number| !FAMILIES.iter().any(|(known, _)| known == number));
    match others {
        true => lines.0.push(
            "# without RestrictAddressFamilies=: it uses a family that has no name here".to_owned(),
        ),
        false => {
            lines.set("RestrictAddressFamilies", names.into_iter().collect::<Vec<_>>().join(" "))
        }
    }
    let is_inet =
        [AF_INET, AF_INET6, AF_PACKET].iter().any(|family| seen.families.contains(family));
    match (is_inet || others, seen.is_on_network) {
        (false, _) => lines.yes(&["PrivateNetwork"]),
        (true, false) => {
            lines.set("IPAddressAllow", "localhost");
            lines.set("IPAddressDeny", "any");
        }
        (true, true) => {}
    }
}

fn calls(seen: &Observed, lines: &mut Lines) {
    lines.title("System calls");
    match seen.is_foreign {
        true => lines
            .0
            .push("# without SystemCallArchitectures=: it makes calls of another one".to_owned()),
        false => lines.set("SystemCallArchitectures", "native"),
    }
    lines.set("SystemCallFilter", USUAL);
    for group in UNUSUAL {
        let members = groups::members(group).unwrap_or_default();
        let used = seen.calls.iter().find(|call| members.contains(*call));
        match used {
            None => lines.set("SystemCallFilter", format!("~{group}")),
            Some(call) => {
                lines.0.push(format!("# without SystemCallFilter=~{group}: it calls {call}()"))
            }
        }
    }
    let [usual, always] =
        [USUAL, groups::DEFAULT].map(|group| groups::members(group).unwrap_or_default());
    let more = seen.calls.iter().filter(|call| !usual.contains(*call) && !always.contains(*call));
    let more: Vec<&str> = more.copied().collect();
    if !more.is_empty() {
        lines.set("SystemCallFilter", more.join(" "));
    }
    lines.set("SystemCallErrorNumber", "EPERM");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> BTreeSet<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    fn written(seen: &Observed) -> String {
        let command = ["/usr/bin/app".to_owned(), "a b".to_owned(), "100%$x".to_owned()];
        unit(&Plan {
            description: "An app",
            command: &command,
            directory: None,
            user: None,
            run: Some((5, seen)),
        })
    }

    /// Whether the unit has these lines, and not those.
    #[track_caller]
    fn check(seen: &Observed, has: &[&str], has_not: &[&str]) {
        let text = written(seen);
        let lines: Vec<&str> = text.lines().collect();
        let missing: Vec<_> = has.iter().filter(|line| !lines.contains(line)).collect();
        let wrong: Vec<_> = has_not
            .iter()
            .filter(|start| lines.iter().any(|line| line.starts_with(**start)))
            .collect();
        assert!(missing.is_empty() && wrong.is_empty(), "{missing:?} {wrong:?} in\n{text}");
    }

    #[test]
    fn what_does_nothing_gets_nothing() {
        let has = [
            r#"ExecStart=/usr/bin/app "a b" "100%%$$x""#,
            "Type=exec",
            "DynamicUser=yes",
            "ProtectSystem=strict",
            "ProtectHome=yes",
            "PrivateDevices=yes",
            "PrivateNetwork=yes",
            "CapabilityBoundingSet=",
            "RestrictAddressFamilies=AF_UNIX",
            "SystemCallFilter=~@privileged",
            "MemoryDenyWriteExecute=yes",
            "NoNewPrivileges=yes",
        ];
        check(&Observed::default(), &has, &["ReadWritePaths", "AmbientCapabilities", "After="]);
    }

    #[test]
    fn directories_of_its_own_are_told_from_those_of_others() {
        let written = paths(&[
            "/var/lib/app/db",
            "/var/lib/app",
            "/var/run/app",
            "/var/log/app",
            "/tmp/x",
            "/proc/1/oom_score_adj",
        ]);
        let has =
            ["StateDirectory=app", "RuntimeDirectory=app", "LogsDirectory=app", "DynamicUser=yes"];
        check(
            &Observed { written, ..Observed::default() },
            &has,
            &["ReadWritePaths", "CacheDirectory"],
        );
        let written = paths(&["/srv/data", "/srv/data/below", "/run", "/var/log/app.log"]);
        let has = [
            "ReadWritePaths=/srv/data",
            "ReadWritePaths=/run",
            "ReadWritePaths=/var/log/app.log",
            "# it runs as root: it writes to /run",
        ];
        check(
            &Observed { written, ..Observed::default() },
            &has,
            &["ReadWritePaths=/srv/data/below", "LogsDirectory"],
        );
        let (made, written) = (paths(&["/srv/new"]), paths(&["/srv/new"]));
        let has = ["# the run made this one, and it must exist when the unit starts"];
        check(&Observed { made, written, ..Observed::default() }, &has, &[]);
        let written = paths(&["/root/.cache/app"]);
        check(&Observed { written, ..Observed::default() }, &["ProtectHome=no"], &["DynamicUser"]);
        let (read, written) = (paths(&["/tmp/own/x"]), paths(&["/tmp/own"]));
        check(&Observed { read, written, ..Observed::default() }, &["PrivateTmp=yes"], &[]);
        let read = paths(&["/tmp/of-others"]);
        let has = ["# without PrivateTmp=: it uses /tmp/of-others"];
        check(&Observed { read, ..Observed::default() }, &has, &["PrivateTmp"]);
        let read = paths(&["/home/a/x"]);
        check(&Observed { read, ..Observed::default() }, &["ProtectHome=read-only"], &[]);
    }

    #[test]
    fn the_network_is_what_was_used_of_it() {
        let families = BTreeSet::from([AF_INET, AF_NETLINK]);
        let local = Observed { families, ports: BTreeSet::from([8080]), ..Observed::default() };
        let has = [
            "RestrictAddressFamilies=AF_INET AF_NETLINK AF_UNIX",
            "IPAddressAllow=localhost",
            "IPAddressDeny=any",
        ];
        check(&local, &has, &["PrivateNetwork", "AmbientCapabilities"]);
        let public = Observed { is_on_network: true, ports: BTreeSet::from([80]), ..local.clone() };
        let has = [
            "AmbientCapabilities=CAP_NET_BIND_SERVICE",
            "DynamicUser=yes",
            "After=network-online.target",
        ];
        check(&public, &has, &["PrivateNetwork", "IPAddressDeny"]);
        let odd = Observed { families: BTreeSet::from([99]), ..Observed::default() };
        check(&odd, &[], &["RestrictAddressFamilies", "PrivateNetwork"]);
    }

    #[test]
    fn what_needs_root_stays_root_with_what_it_used() {
        let succeeded = BTreeSet::from(["setuid", "chown", "mount"]);
        let calls = BTreeSet::from(["setuid", "chown", "mount", "read", "socket"]);
        let seen = Observed { succeeded, calls, ..Observed::default() };
        let has = [
            "# it runs as root: it needs CAP_CHOWN",
            "CapabilityBoundingSet=CAP_CHOWN CAP_SETUID CAP_SYS_ADMIN",
            "SystemCallFilter=mount",
            "SystemCallFilter=~@resources",
        ];
        check(
            &seen,
            &has,
            &["DynamicUser", "SystemCallFilter=~@privileged", "AmbientCapabilities"],
        );
        let closed = [(PathBuf::from("/etc/app.key"), true)].into();
        let has = [
            "# it runs as root: it reads /etc/app.key, which not everybody may",
            "CapabilityBoundingSet=",
        ];
        check(&Observed { closed, ..Observed::default() }, &has, &["DynamicUser"]);
    }

    #[test]
    fn the_end_of_the_run_says_the_type() {
        let of = |seen: Observed| {
            written(&seen).lines().find(|line| line.starts_with("Type=")).map(str::to_owned)
        };
        let end = |end| Observed { end, ..Observed::default() };
        assert_eq!(of(end(End::Ended(ExitKind::Exited(0)))).as_deref(), Some("Type=oneshot"));
        assert_eq!(of(end(End::Ended(ExitKind::Exited(1)))).as_deref(), Some("Type=exec"));
        assert_eq!(of(end(End::Forked)).as_deref(), Some("Type=forking"));
        assert_eq!(
            of(Observed { is_ready: true, ..end(End::Running) }).as_deref(),
            Some("Type=notify")
        );
    }

    /// A trial without its sandbox leaves these out: a new setting is on one of the two lists.
    #[test]
    fn each_setting_gives_the_program_something_or_takes_something() {
        const GIVES: [&str; 13] = [
            "Type",
            "ExecStart",
            "WorkingDirectory",
            "Restart",
            "User",
            "StateDirectory",
            "CacheDirectory",
            "LogsDirectory",
            "RuntimeDirectory",
            "ReadWritePaths",
            "AmbientCapabilities",
            "WantedBy",
            "Description",
        ];
        let plain = Observed::default();
        let much = Observed {
            families: BTreeSet::from([AF_INET]),
            ports: BTreeSet::from([80]),
            namespaces: 0x1000_0000,
            read: paths(&["/dev/sda"]),
            written: paths(&["/srv/x", "/var/lib/x", "/run/x", "/var/log/x", "/var/cache/x"]),
            ..Observed::default()
        };
        for seen in [plain, much] {
            let text = written(&seen);
            let parts = crate::author::verdict::parts(&text);
            let bare = crate::author::verdict::with_only(&text, &parts, &[]);
            let names = bare.lines().filter(|line| !line.starts_with('#'));
            let names = names.filter_map(|line| Some(line.split_once('=')?.0));
            let unknown: Vec<&str> = names.filter(|name| !GIVES.contains(name)).collect();
            assert_eq!(unknown, Vec::<&str>::new(), "{bare}");
        }
    }

    #[test]
    fn no_unit_is_written_that_has_faults() {
        let seen = Observed {
            calls: BTreeSet::from(["mount", "sched_setscheduler", "bpf"]),
            succeeded: BTreeSet::from(["mount", "bpf"]),
            families: BTreeSet::from([AF_INET, AF_PACKET]),
            namespaces: 0x7e02_0080,
            read: paths(&["/dev/sda", "/proc/meminfo", "/home/with space/\u{e4}"]),
            written: paths(&["/srv/with space", "/sys/x", "/var/lib/a b"]),
            is_realtime: true,
            makes_code: true,
            ..Observed::default()
        };
        let text = written(&seen);
        let path: std::sync::Arc<str> = "x.service".into();
        let of = warren_unit::UnitType::Service;
        let (file, mut faults) = warren_unit::parse::parse(path, text.as_bytes(), of);
        let file = std::sync::Arc::new(file);
        let name = warren_unit::UnitName::parse("x.service").expect("a name");
        let sources = warren_unit::Sources { fragment: Some(&file), ..Default::default() };
        let (context, defaults) = (
            warren_unit_files::context(&warren_unit_files::Root::OWN, warren_unit::Scope::System),
            warren_unit::Defaults::default(),
        );
        faults.extend(warren_unit::load(&name, &sources, &context, &defaults).1);
        let compiler = warren_unit::Compiler {
            name: &name,
            sources: &sources,
            context: &context,
            defaults: &defaults,
        };
        faults.extend(compiler.check());
        assert!(faults.is_empty(), "{faults:?} in\n{text}");
    }
}
