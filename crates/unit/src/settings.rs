//! The one table of settings: everything the parser, the checks and the documentation know
//! about a setting comes from here.
//!
//! To add a setting, add its name to a row of `table.rs`; nothing else lists settings. Names,
//! sections and list rules are those of the manual page that [`Group::manual`] names.

mod index;
mod meaning;
mod table;

pub use table::{ALIASES, SETTINGS};

use crate::config::{ConditionKind, ListenKind, Resource};
use crate::name::UnitType;
use crate::relation::Relation;

/// Which manual page describes a setting; several groups share a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Group {
    /// \[Unit\], systemd.unit(5)
    Unit,
    /// \[Install\], systemd.unit(5)
    Install,
    /// \[Service\], systemd.service(5)
    Service,
    /// \[Socket\], systemd.socket(5)
    Socket,
    /// \[Mount\], systemd.mount(5)
    Mount,
    /// \[Automount\], systemd.automount(5)
    Automount,
    /// \[Swap\], systemd.swap(5)
    Swap,
    /// \[Timer\], systemd.timer(5)
    Timer,
    /// \[Path\], systemd.path(5)
    Path,
    /// \[Slice\], systemd.slice(5)
    Slice,
    /// \[Scope\], systemd.scope(5)
    Scope,
    /// The execution environment, systemd.exec(5)
    Exec,
    /// Stopping, systemd.kill(5)
    Kill,
    /// Limits, systemd.resource-control(5)
    Cgroup,
    /// What only this manager knows, \[X-Warren\]
    Warren,
    /// \[Manager\] of the manager's own file, systemd-system.conf(5)
    Manager,
}

impl Group {
    /// Every group.
    pub const ALL: [Group; 16] = [
        Group::Unit,
        Group::Install,
        Group::Service,
        Group::Socket,
        Group::Mount,
        Group::Automount,
        Group::Swap,
        Group::Timer,
        Group::Path,
        Group::Slice,
        Group::Scope,
        Group::Exec,
        Group::Kill,
        Group::Cgroup,
        Group::Warren,
        Group::Manager,
    ];

    /// The manual page.
    pub const fn manual(self) -> &'static str {
        match self {
            Group::Unit | Group::Install => "systemd.unit(5)",
            Group::Service => "systemd.service(5)",
            Group::Socket => "systemd.socket(5)",
            Group::Mount => "systemd.mount(5)",
            Group::Automount => "systemd.automount(5)",
            Group::Swap => "systemd.swap(5)",
            Group::Timer => "systemd.timer(5)",
            Group::Path => "systemd.path(5)",
            Group::Slice => "systemd.slice(5)",
            Group::Scope => "systemd.scope(5)",
            Group::Exec => "systemd.exec(5)",
            Group::Kill => "systemd.kill(5)",
            Group::Cgroup => "systemd.resource-control(5)",
            Group::Warren => "section [X-Warren]; systemd ignores it",
            Group::Manager => "systemd-system.conf(5)",
        }
    }

    const fn bit(self) -> u16 {
        1 << (self as u8)
    }
}

/// A section of a unit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// \[Unit\]
    Unit,
    /// \[Install\]
    Install,
    /// \[X-Warren\]
    Warren,
    /// The section of the unit's type.
    Type(UnitType),
    /// \[Manager\], the one section of the manager's own file
    Manager,
}

impl Section {
    /// The section with this name in a unit of this type; `None` for all that does not belong.
    pub fn find(name: &str, unit_type: UnitType) -> Option<Section> {
        match name {
            "Unit" => Some(Section::Unit),
            "Install" => Some(Section::Install),
            "X-Warren" => Some(Section::Warren),
            name if name == unit_type.section() => Some(Section::Type(unit_type)),
            _ => None,
        }
    }

    /// Its name without brackets.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Unit => "Unit",
            Section::Install => "Install",
            Section::Warren => "X-Warren",
            Section::Type(unit_type) => unit_type.section(),
            Section::Manager => "Manager",
        }
    }

    /// The groups whose settings it holds, as bits.
    const fn groups(self) -> u16 {
        let cgroup = Group::Cgroup.bit();
        let kill = cgroup | Group::Kill.bit();
        let exec = kill | Group::Exec.bit();
        match self {
            Section::Unit => Group::Unit.bit(),
            Section::Install => Group::Install.bit(),
            Section::Type(UnitType::Service) => Group::Service.bit() | exec,
            Section::Type(UnitType::Socket) => Group::Socket.bit() | exec,
            Section::Type(UnitType::Mount) => Group::Mount.bit() | exec,
            Section::Type(UnitType::Swap) => Group::Swap.bit() | exec,
            Section::Type(UnitType::Automount) => Group::Automount.bit(),
            Section::Type(UnitType::Timer) => Group::Timer.bit(),
            Section::Type(UnitType::Path) => Group::Path.bit(),
            Section::Type(UnitType::Slice) => Group::Slice.bit() | cgroup,
            Section::Type(UnitType::Scope) => Group::Scope.bit() | kill,
            Section::Warren => Group::Warren.bit(),
            Section::Manager => Group::Manager.bit(),
            Section::Type(UnitType::Target | UnitType::Device) => 0,
        }
    }

    /// The settings that it can have, in the order of the table.
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        let groups = self.groups();
        SETTINGS.iter().filter(move |row| row.group.bit() & groups != 0)
    }

    /// The setting with this name in this section; aliases lead to what they stand for.
    pub fn setting(self, name: &str) -> Option<Id> {
        index::find(name, self.groups())
    }
}

/// What happens when a setting is assigned more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// The last one counts; an empty one goes back to the default.
    Last,
    /// All count; an empty one drops those before it.
    Append,
    /// All count; an empty one does nothing (dependencies).
    Keep,
}

/// What this version does with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It has its effect.
    Acted,
    /// It is known and has no effect yet.
    Parsed,
    /// It protects the host, and is applied from its text ([`crate::config::ExecConfig::protections`]).
    Applied,
    /// It protects the host or hands over secrets, and is not applied: reported loudly wherever it is used.
    Sandbox,
    /// systemd ignores it too, or it is of cgroup v1.
    Obsolete,
}

impl Status {
    /// The word in the compatibility list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Acted | Status::Applied => "acted on",
            Status::Parsed => "known, no effect yet",
            Status::Sandbox => "known, not applied, reported",
            Status::Obsolete => "obsolete",
        }
    }
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text, specifiers replaced.
    Text,
    /// Any text, not looked at.
    Raw,
    /// `yes` or `no`.
    Bool,
    /// Unit names, an edge to each.
    Units(Relation),
    /// A word of [`crate::config::RestartRule`], then unit names, an edge to each.
    RestartOn,
    /// Unit names without an edge.
    Names,
    /// Absolute paths whose mounts are needed.
    MountsFor,
    /// An absolute path.
    Path,
    /// One word of a list.
    Word(&'static [&'static str]),
    /// `yes`, `no` or one word of a list.
    BoolOr(&'static [&'static str]),
    /// A time span, systemd.time(7); `infinity` is none.
    Span,
    /// A calendar expression, systemd.time(7).
    Calendar,
    /// Bytes with K, M, G, T; base 1024.
    Bytes,
    /// Bytes, a percentage or `infinity`.
    Memory,
    /// A number of tasks, a percentage or `infinity`.
    Tasks,
    /// A number of 32 bits, or `infinity`.
    CountOrInfinity,
    /// A whole number within bounds.
    Number(i64, i64),
    /// A percentage.
    Percent,
    /// An octal file mode.
    Mode,
    /// A signal.
    Signal,
    /// Exit codes and signals.
    ExitStatus,
    /// A command line.
    Command,
    /// An address to listen on.
    Listen(ListenKind),
    /// A condition.
    Condition(ConditionKind),
    /// An assertion.
    Assert(ConditionKind),
    /// `NAME=value` words.
    Environment,
    /// A resource limit.
    Rlimit(Resource),
    /// Words, unquoted.
    Words,
    /// CPU or memory node numbers and ranges.
    Indexes,
    /// 1 to 10,000, or `idle`.
    CpuWeight,
    /// Names of capabilities, inverted by a leading `~`.
    Capabilities,
    /// A file that is opened for a service: `PATH[:NAME:OPTIONS]`.
    OpenFile,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Where it belongs.
    pub group: Group,
    /// Its name, without `=`.
    pub name: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// What more than one of it means.
    pub list: List,
    /// What is done with it.
    pub status: Status,
}

/// Settings of one value whose empty assignment goes back to the default though their kind has
/// no empty value.
const EMPTY_RESETS: &[&str] = &[
    "CPUQuotaPeriodSec",
    "CPUSchedulingPolicy",
    "FailureActionExitStatus",
    "IOSchedulingClass",
    "IOSchedulingPriority",
    "IOWeight",
    "KillMode",
    "ManagedOOMMemoryPressure",
    "ManagedOOMMemoryPressureDurationSec",
    "ManagedOOMMemoryPressureLimit",
    "ManagedOOMSwap",
    "Nice",
    "OOMScoreAdjust",
    "Personality",
    "StartupIOWeight",
    "SuccessActionExitStatus",
    "TimeoutAbortSec",
];

/// Whether a setting of the execution environment hands over secrets (systemd.exec(5), "CREDENTIALS").
pub fn is_of_credentials(name: &str) -> bool {
    matches!(
        name,
        "LoadCredential"
            | "LoadCredentialEncrypted"
            | "SetCredential"
            | "SetCredentialEncrypted"
            | "ImportCredential"
    )
}

/// Settings of one text that cannot be empty.
const EMPTY_IS_WRONG: &[&str] = &[
    "BusName",
    "LogLevelMax",
    "Service",
    "Slice",
    "StandardError",
    "StandardInput",
    "StandardOutput",
    "SyslogFacility",
    "SyslogLevel",
];

impl Setting {
    /// Whether an empty assignment resets; else it is a wrong value, ignored like any other.
    /// Seen with systemd-analyze verify of systemd 252.
    pub fn empty_resets(&self) -> bool {
        let no_empty_value = matches!(
            self.kind,
            Kind::Bool
                | Kind::BoolOr(_)
                | Kind::Word(_)
                | Kind::Span
                | Kind::Signal
                | Kind::Mode
                | Kind::Rlimit(_)
                | Kind::Number(..)
                | Kind::Bytes
        );
        match no_empty_value {
            true => EMPTY_RESETS.contains(&self.name),
            false => !EMPTY_IS_WRONG.contains(&self.name),
        }
    }
}

/// Another name of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The section's group in which the old name is accepted.
    pub group: Group,
    /// The old name.
    pub name: &'static str,
    /// What it stands for.
    pub of: (Group, &'static str),
}

/// A setting's place in [`SETTINGS`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(into = "u16", try_from = "u16")]
pub struct Id(u16);

impl From<Id> for u16 {
    fn from(id: Id) -> u16 {
        id.0
    }
}

impl TryFrom<u16> for Id {
    type Error = String;

    fn try_from(index: u16) -> Result<Id, String> {
        match SETTINGS.get(usize::from(index)) {
            Some(_) => Ok(Id(index)),
            None => Err(format!("there is no setting {index}")),
        }
    }
}

impl Id {
    /// The row.
    pub fn setting(self) -> &'static Setting {
        &SETTINGS[usize::from(self.0)]
    }

    /// The row of a setting that is known to be in the table; checked when it is compiled.
    pub const fn of(group: Group, name: &str) -> Id {
        let mut i = 0;
        while i < SETTINGS.len() {
            let row = &SETTINGS[i];
            if row.group as u8 == group as u8 && index::same(row.name, name) {
                return Id(i as u16);
            }
            i += 1;
        }
        panic!("no such setting")
    }
}

#[cfg(test)]
mod tests;

/// The id of a setting, found when the crate is compiled: `id!(Service "Type")`.
macro_rules! id {
    ($group:ident $name:literal) => {
        const { $crate::settings::Id::of($crate::settings::Group::$group, $name) }
    };
}
pub(crate) use id;
