//! Who sent it: the trusted fields, from /proc, remembered for a moment.
//!
//! What was read of a process counts for a second; of one that is gone, for five, so that what it sent
//! just before its end has its unit ([`known`]). The kernel says what cgroup the sender is in
//! or was in when it ended, and the manager what unit that is of; where either does not, /proc
//! counts, and of a process that was never looked up while it ran there are only its credentials.

pub mod known;
pub mod told;

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use warren_sys::fdpass::Credentials;
use warren_sys::process;

use crate::daemon::units::Units;
use crate::input::handover::UnitLog;
use crate::input::{cgroup, command_line, loss};
use known::{Key, SenderKey, Table, key_of};
use warren_log_store::entry::{Fields, Id128};
use warren_log_store::host::Host;

/// The unit that the manager's own processes are in; systemd.special(7).
pub const MANAGER_UNIT: &str = "init.scope";

/// What is kept of a command line, bytes.
const CMDLINE_BYTES_MAX: u64 = 4096;

/// How an entry came; `_TRANSPORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Native protocol.
    Journal,
    /// /dev/log.
    Syslog,
    /// A service's output.
    Stdout,
    /// The manager, over its link; told as native.
    Manager,
    /// The kernel.
    Kernel,
    /// The audit system.
    Audit,
    /// The daemon itself.
    Driver,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Journal | Transport::Manager => "journal",
            Transport::Syslog => "syslog",
            Transport::Stdout => "stdout",
            Transport::Kernel => "kernel",
            Transport::Audit => "audit",
            Transport::Driver => "driver",
        }
    }
}

/// What is remembered of processes.
pub struct Senders {
    host: Host,
    /// Of the daemon, if it is not the default one.
    namespace: Option<String>,
    kernel: Arc<Fields>,
    audit: Arc<Fields>,
    known: Table,
}

/// A sender as entries are counted and kept by it.
pub struct Origin {
    /// Its trusted fields.
    pub context: Arc<Fields>,
    /// Its unit and the settings of that, if the manager told.
    pub unit: Option<Arc<UnitLog>>,
    /// Where its unit or else its cgroup is in the context.
    who: Option<(u32, u32)>,
}

impl Origin {
    /// With a unit that is known from elsewhere.
    pub fn new(context: Arc<Fields>, unit: Option<Arc<UnitLog>>) -> Origin {
        let who = context.place("_SYSTEMD_UNIT").or_else(|| context.place("_SYSTEMD_CGROUP"));
        Origin { context, unit, who }
    }

    fn of(context: Arc<Fields>, units: &Units) -> Origin {
        let unit = context.get("_SYSTEMD_UNIT").and_then(|unit| units.get(unit));
        Origin::new(context, unit)
    }

    /// It may say what others may not.
    pub fn is_root(&self) -> bool {
        self.context.get("_UID") == Some(b"0")
    }

    /// By what the rate of messages is counted: root's processes of a unit apart from those of its other users, and of
    /// senders of no unit each user, so that nobody uses up what root may send.
    pub fn counted_as(&self) -> Cow<'_, [u8]> {
        match (self.who(), self.context.get("_UID")) {
            (b"", Some(uid)) => Cow::Owned([loss::OF_USER, uid].concat()),
            (who, Some(b"0") | None) => Cow::Borrowed(who),
            (who, Some(_)) => Cow::Owned([loss::OF_OTHERS, who].concat()),
        }
    }

    /// Whose entries they count as: the name of a unit or a cgroup, or nothing.
    pub fn who(&self) -> &[u8] {
        self.who.map_or(b"", |place| self.context.at(place))
    }
}

impl Senders {
    /// The host's name.
    pub fn host_name(&self) -> &str {
        self.host.name()
    }

    /// Remembers nobody; holds so many pidfds at most.
    pub fn new(host: Host, namespace: Option<String>, held_max: usize) -> Senders {
        let known = Table::new(held_max);
        let (kernel, audit) = Default::default();
        let mut senders = Senders { host, namespace, kernel, audit, known };
        let nobody = Credentials { pid: 0, uid: 0, gid: 0 };
        let of = |transport| Arc::new(senders.build(transport, nobody, None, &Fields::new()));
        (senders.kernel, senders.audit) = (of(Transport::Kernel), of(Transport::Audit));
        senders
    }

    /// Looks who of the senders of messages that are already here has ended. `keys` is room for it.
    pub fn look_at(
        &mut self,
        transport: Transport,
        senders: impl Iterator<Item = Credentials>,
        keys: &mut Vec<Key>,
    ) {
        keys.clear();
        keys.extend(senders.map(|sender| key_of(transport, sender)));
        self.known.look_at(keys);
    }

    /// A sender that was looked up a moment ago, and had not ended at the last look.
    pub fn known(
        &mut self,
        transport: Transport,
        sender: Credentials,
        units: &Units,
        now_us: u64,
    ) -> Option<Arc<Origin>> {
        self.known.alive(key_of(transport, sender), units, now_us)
    }

    /// A sender. `pidfd` names it for sure, if there is one.
    pub fn origin(
        &mut self,
        transport: Transport,
        (sender, pidfd): (Credentials, Option<OwnedFd>),
        units: &Units,
        now_us: u64,
    ) -> Arc<Origin> {
        let (key, named) = (key_of(transport, sender), SenderKey::by(pidfd));
        if let Some(origin) = self.known.fresh((key, &named), units, now_us) {
            return origin;
        }
        let pidfd = named.pidfd.as_ref();
        let process = Process::read_of(sender.pid, pidfd);
        if process.is_none()
            && let Some(origin) = self.known.usable((key, &named), units, now_us)
        {
            return origin;
        }
        // What /proc says may be of a process that is half gone.
        let mut more = Fields::new();
        let unit = pidfd.and_then(|pidfd| unit_of(pidfd, units));
        unit.into_iter().for_each(|unit| unit.put_identity(&mut more));
        let mut read = self.build(transport, sender, process.as_ref(), &more);
        let unit = read.get("_SYSTEMD_UNIT").and_then(|unit| units.get(unit));
        if let Some(unit) = unit {
            if read.get("_SYSTEMD_INVOCATION_ID").is_none() {
                unit.put_invocation(&mut read);
            }
            unit.put_extra(&mut read);
        }
        self.remember((key, named), read, units, now_us)
    }

    fn remember(
        &mut self,
        (key, named): (Key, SenderKey),
        read: Fields,
        units: &Units,
        now_us: u64,
    ) -> Arc<Origin> {
        // The same content stays the same object, which the store knows at a glance.
        let same = self.known.any(key).filter(|origin| *origin.context == read);
        let context = same.map_or_else(|| Arc::new(read), |origin| origin.context.clone());
        let origin = Arc::new(Origin::of(context, units));
        self.known.put((key, named), origin.clone(), units, now_us);
        origin
    }

    /// The trusted fields of a stream's writer, whom a pidfd names for sure. `more` is what is known of
    /// the stream; a unit in it counts instead of the one of the cgroup.
    pub fn of_stream(
        &self,
        (sender, pidfd): (Credentials, Option<&OwnedFd>),
        more: &Fields,
    ) -> Arc<Fields> {
        let process = Process::read_of(sender.pid, pidfd);
        Arc::new(self.build(Transport::Stdout, sender, process.as_ref(), more))
    }

    /// A sender of whom there is no pidfd, for what is said of a loss: not remembered.
    pub fn unsure(&self, transport: Transport, sender: Credentials, units: &Units) -> Origin {
        let process = Process::read(sender.pid);
        let read = self.build(transport, sender, process.as_ref(), &Fields::new());
        Origin::of(Arc::new(read), units)
    }

    /// The trusted fields of the manager.
    pub fn of_manager(&mut self, sender: Credentials, units: &Units, now_us: u64) -> Arc<Fields> {
        let key = key_of(Transport::Manager, sender);
        if let Some(known) = self.known.any(key) {
            return known.context.clone();
        }
        let process = Process::read(sender.pid);
        let more = [("_SYSTEMD_UNIT", MANAGER_UNIT)].into_iter().collect();
        let read = self.build(Transport::Manager, sender, process.as_ref(), &more);
        self.remember((key, SenderKey::by(None)), read, units, now_us).context.clone()
    }

    /// The kernel's context.
    pub fn kernel(&self) -> Arc<Fields> {
        self.kernel.clone()
    }

    /// The audit system's context; whom a record is about, it says itself.
    pub fn audit(&self) -> Arc<Fields> {
        self.audit.clone()
    }

    /// The daemon's own context.
    pub fn own(&mut self, units: &Units, now_us: u64) -> Arc<Fields> {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let sender = Credentials { pid, uid: 0, gid: 0 };
        self.origin(Transport::Driver, (sender, None), units, now_us).context.clone()
    }

    fn build(
        &self,
        transport: Transport,
        sender: Credentials,
        process: Option<&Process>,
        more: &Fields,
    ) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name: &str, value: &str| fields.push(name.as_bytes(), value.as_bytes());
        put("_TRANSPORT", transport.name());
        if sender.pid > 0 {
            put("_PID", &sender.pid.to_string());
        }
        // A process outside of the daemon's pid namespace has no number in it, but a user.
        if !matches!(transport, Transport::Kernel | Transport::Audit) {
            put("_UID", &sender.uid.to_string());
            put("_GID", &sender.gid.to_string());
        }
        put("_MACHINE_ID", &self.host.machine.to_string());
        put("_HOSTNAME", self.host.name());
        put("_RUNTIME_SCOPE", "system");
        self.namespace.iter().for_each(|namespace| put("_NAMESPACE", namespace));
        if let Some(process) = process {
            let unit_is_known = more.get("_SYSTEMD_UNIT").is_some();
            process.put(&mut fields, unit_is_known, more.get("_SYSTEMD_CGROUP").is_some());
        }
        more.iter().for_each(|(name, value)| fields.push(name, value));
        fields
    }
}

/// What is known of the process that a message is about; systemd.journal-fields(7), `OBJECT_PID=`.
pub fn put_object(pid: &[u8], fields: &mut Fields) {
    /// What is told of senders and not of others.
    const NOT_TOLD: [&[u8]; 2] = [b"_SYSTEMD_SLICE", b"_SYSTEMD_USER_SLICE"];
    let pid = std::str::from_utf8(pid).ok().and_then(|pid| pid.parse().ok());
    let Some(process) = pid.filter(|&pid: &i32| pid > 0).and_then(Process::read) else { return };
    let mut known = Fields::new();
    let mut put = |name: &[u8], value: &Option<String>| {
        value.iter().for_each(|value| known.push(name, value.as_bytes()));
    };
    put(b"_UID", &process.uid);
    put(b"_GID", &process.gid);
    process.put(&mut known, false, false);
    for (name, value) in known.iter().filter(|(name, _)| !NOT_TOLD.contains(name)) {
        fields.push(&[b"OBJECT", name].concat(), value);
    }
}

/// The unit whose cgroup a process is in or was in.
pub fn unit_of<'a>(pidfd: &OwnedFd, units: &'a Units) -> Option<&'a Arc<UnitLog>> {
    units.by_cgroup(process::pidfd_cgroup_id(pidfd.as_fd())?)
}

/// What /proc says of a process.
struct Process {
    fields: Fields,
    uid: Option<String>,
    gid: Option<String>,
    cgroup: Option<String>,
}

impl Process {
    /// Of the process of a pidfd, if there is one: what was read is its own if it was not reaped
    /// meanwhile. Its id may be another's by now.
    fn read_of(pid: i32, pidfd: Option<&OwnedFd>) -> Option<Process> {
        let is_there = |pidfd: &OwnedFd| process::pidfd_pid(pidfd.as_fd()).is_ok();
        Process::read(pid).filter(|_| pidfd.is_none_or(is_there))
    }

    /// `None` when it is gone.
    fn read(pid: i32) -> Option<Process> {
        let directory = Path::new("/proc").join(pid.to_string());
        let read = |name: &str| std::fs::read(directory.join(name)).ok();
        let status = String::from_utf8_lossy(&read("status")?).into_owned();
        let mut fields = Fields::new();
        let mut put = |name: &str, value: &[u8]| {
            if !value.is_empty() {
                fields.push(name.as_bytes(), value);
            }
        };
        put("_COMM", read("comm").unwrap_or_default().trim_ascii_end());
        let exe = std::fs::read_link(directory.join("exe")).unwrap_or_default();
        put("_EXE", exe.as_os_str().as_encoded_bytes());
        let arguments = warren_sys::arguments::of(pid, CMDLINE_BYTES_MAX).unwrap_or_default();
        put("_CMDLINE", &command_line::of(&arguments));
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.unwrap_or("").trim().trim_start_matches('0');
        put("_CAP_EFFECTIVE", if capabilities.is_empty() { b"0" } else { capabilities.as_bytes() });
        for (name, file) in [("_AUDIT_SESSION", "sessionid"), ("_AUDIT_LOGINUID", "loginuid")] {
            /// What the kernel gives for 'none'.
            const NONE: &[u8] = b"4294967295";
            put(name, read(file).filter(|id| id != NONE).unwrap_or_default().trim_ascii());
        }
        let cgroup = read("cgroup").map(|text| String::from_utf8_lossy(&text).into_owned());
        // The real one comes first.
        let id = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next().map(str::to_owned)
        };
        let (uid, gid) = (id("Uid:"), id("Gid:"));
        Some(Process { fields, uid, gid, cgroup })
    }

    fn put(&self, fields: &mut Fields, unit_is_known: bool, cgroup_is_known: bool) {
        self.fields.iter().for_each(|(name, value)| fields.push(name, value));
        if cgroup_is_known {
            return;
        }
        let Some(path) = self.cgroup.as_deref().and_then(cgroup::path_of) else { return };
        if unit_is_known {
            return fields.push(b"_SYSTEMD_CGROUP", path.as_bytes());
        }
        cgroup::put_fields(path, fields);
        let unit =
            fields.get("_SYSTEMD_UNIT").map(|unit| String::from_utf8_lossy(unit).into_owned());
        if let Some(id) = unit.and_then(|unit| invocation_of(&unit)) {
            fields.push(b"_SYSTEMD_INVOCATION_ID", id.as_bytes());
        }
    }
}

/// What the manager says of a unit that runs: the target of a link, systemd's way.
fn invocation_of(unit: &str) -> Option<String> {
    let link = Path::new("/run/systemd/units").join(format!("invocation:{unit}"));
    let target = std::fs::read_link(link).ok()?;
    Id128::parse(target.to_str()?).map(|id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_counted_apart_from_others_of_its_unit() {
        let counted = |pairs: &[(&str, &str)]| {
            let context = Arc::new(pairs.iter().copied().collect());
            Origin::new(context, None).counted_as().into_owned()
        };
        let unit = ("_SYSTEMD_UNIT", "cron.service");
        assert_eq!(counted(&[("_UID", "0"), unit]), b"cron.service");
        assert_eq!(counted(&[("_UID", "7"), unit]), b"//others/cron.service");
        assert_eq!(counted(&[("_UID", "100000"), unit]), b"//others/cron.service");
        assert_eq!(counted(&[unit]), b"cron.service");
        assert_eq!(counted(&[("_UID", "0")]), b"//user/0");
        assert_eq!(counted(&[("_UID", "7")]), b"//user/7");
        assert_eq!(counted(&[]), b"");
    }
}
