//! What each unit type requires of its settings, and the dependencies that follow from them: the
//! sections "Implicit Dependencies" and "Default Dependencies" of each manual page. What makes
//! a unit unusable was compared with `systemd-analyze verify` of systemd 252.

use super::{Loader, known};
use crate::config::{Address, EmergencyAction, ExitType, Listen, ListenKind, Restart, ServiceType};
use crate::device_name::link_of_tag;
use crate::diagnostic::Code;
use crate::loaded::UnitFlags;
use crate::name::{UnitName, UnitType};
use crate::relation::Relation;
use crate::settings::{Id, id};
use crate::value::{self, Fault};

/// Why a unit cannot be used.
type Check = Result<(), String>;

/// Whether a value can be used.
type Rule = fn(&str) -> bool;

/// File systems that need the network (systemd.mount(5), "Default Dependencies").
const NETWORK_FILE_SYSTEMS: &[&str] = &[
    "afs",
    "ceph",
    "cifs",
    "davfs",
    "gfs",
    "gfs2",
    "glusterfs",
    "lustre",
    "ncp",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "pvfs2",
    "smb3",
    "smbfs",
    "sshfs",
];

impl Loader<'_, '_> {
    pub(super) fn by_type(&mut self) -> Check {
        match self.merged.name().unit_type() {
            UnitType::Service => self.service()?,
            UnitType::Socket => self.socket()?,
            UnitType::Mount => self.mount()?,
            UnitType::Automount => self.automount()?,
            UnitType::Swap => self.swap()?,
            UnitType::Timer => self.timer()?,
            UnitType::Path => self.path()?,
            UnitType::Slice => self.parent_slice(),
            UnitType::Scope => self.slice(),
            UnitType::Target | UnitType::Device => {}
        }
        if self.flags.default_dependencies() {
            self.defaults();
        }
        Ok(())
    }

    /// Dependencies that DefaultDependencies=no switches off.
    fn defaults(&mut self) {
        self.looked_after_by_oomd();
        match self.merged.name().unit_type() {
            UnitType::Service => {
                self.default_early(None);
                self.before_its_bus();
            }
            UnitType::Socket => self.default_early(Some(known::sockets_target())),
            UnitType::Timer => {
                self.default_early(Some(known::timers_target()));
                if self.merged.has(id!(Timer "OnCalendar")) && self.is_system() {
                    self.add(Relation::After, known::time_set_target());
                    self.add(Relation::After, known::time_sync_target());
                }
            }
            UnitType::Path => self.default_early(Some(known::paths_target())),
            UnitType::Target => {
                self.flags.set(UnitFlags::COMPLETES_ORDERING, true);
                self.until_shutdown();
            }
            UnitType::Slice | UnitType::Scope if !self.flags.perpetual() => self.until_shutdown(),
            UnitType::Mount => self.default_mount(),
            UnitType::Automount if self.is_system() => {
                self.until_umount();
                self.add(Relation::After, known::local_fs_pre_target());
                self.add(Relation::Before, known::local_fs_target());
            }
            UnitType::Swap if self.is_system() => {
                self.until_umount();
                self.add(Relation::Before, known::swap_target());
            }
            _ => {}
        }
    }

    /// systemd-oomd is there before what it looks after (systemd.resource-control(5), "ManagedOOMSwap=").
    fn looked_after_by_oomd(&mut self) {
        let settings = [id!(Cgroup "ManagedOOMSwap"), id!(Cgroup "ManagedOOMMemoryPressure")];
        let is_set = |setting| self.merged.text(setting).as_deref() == Some("kill");
        // As of 252: slices that are always there have no default dependencies.
        if self.is_system() && !self.flags.perpetual() && settings.into_iter().any(is_set) {
            self.add_two(Relation::Wants, Relation::After, known::oomd_service());
        }
    }

    /// Who has a name on the message bus goes down before the bus: of whom it is asked over the bus to end
    /// everything, as of logind, the answer still comes through.
    fn before_its_bus(&mut self) {
        let bus = known::dbus_service();
        let is_first = |(relation, name): &(Relation, UnitName)| {
            matches!(relation, Relation::Before) && *name == bus
        };
        if self.merged.has(id!(Service "BusName"))
            && *self.merged.name() != bus
            && !self.relations.iter().any(is_first)
        {
            self.add(Relation::After, bus);
        }
    }

    fn until_shutdown(&mut self) {
        if self.merged.name().as_str() != "shutdown.target" {
            self.add_two(Relation::Before, Relation::Conflicts, known::shutdown_target());
        }
    }

    fn until_umount(&mut self) {
        self.add_two(Relation::Before, Relation::Conflicts, known::umount_target());
    }

    /// Services and what activates them: after basic system setup, gone at shutdown. A user
    /// manager has basic.target only, and its sockets, timers and paths precede that.
    fn default_early(&mut self, group: Option<UnitName>) {
        let is_service = group.is_none();
        if let Some(target) = group {
            self.add(Relation::Before, target);
        }
        if self.is_system() {
            self.add_two(Relation::Requires, Relation::After, known::sysinit_target());
            if is_service {
                self.add(Relation::After, known::basic_target());
            }
        } else if is_service {
            self.add_two(Relation::Requires, Relation::After, known::basic_target());
        }
        self.until_shutdown();
    }

    fn service(&mut self) -> Check {
        let starts = self.commands(id!(Service "ExecStart"))?;
        let stops = self.commands(id!(Service "ExecStop"))?;
        for id in [
            id!(Service "ExecCondition"),
            id!(Service "ExecStartPre"),
            id!(Service "ExecStartPost"),
            id!(Service "ExecReload"),
            id!(Service "ExecStopPost"),
        ] {
            self.commands(id)?;
        }
        self.fatal_settings()?;
        let service_type = self.service_type(starts);
        let service_type = service_type.as_str();
        self.service_commands(service_type, starts, stops)?;
        self.service_contradictions(service_type)?;
        let reloads = self.merged.has(id!(Service "ExecReload")) || service_type == "notify-reload";
        self.flags.set(UnitFlags::CAN_RELOAD, reloads);
        if service_type == "dbus" {
            self.add_two(Relation::Requires, Relation::After, known::dbus_socket());
        }
        self.service_sockets();
        self.slice();
        self.execution();
        Ok(())
    }

    /// Type=, or its default (systemd.service(5)).
    fn service_type(&self, starts: usize) -> ServiceType {
        let has_bus_name = self.merged.has(id!(Service "BusName"));
        let written = self.last_word(id!(Service "Type"), ServiceType::from_word);
        written.unwrap_or(match (starts, has_bus_name) {
            (_, true) => ServiceType::Dbus,
            (0, false) => ServiceType::Oneshot,
            (_, false) => ServiceType::Simple,
        })
    }

    /// The last word that is one; wrong ones are said when the unit is first used.
    fn last_word<T>(&self, id: Id, from_word: fn(&str) -> Option<T>) -> Option<T> {
        self.merged.raw(id).iter().rev().find_map(|e| from_word(e.value))
    }

    fn service_commands(&self, service_type: &str, starts: usize, stops: usize) -> Check {
        let success_action = self.last_word(id!(Unit "SuccessAction"), EmergencyAction::from_word);
        let acts = success_action.is_some_and(|a| a != EmergencyAction::None);
        let remains = self.merged.flag(id!(Service "RemainAfterExit"), false);
        if starts == 0 && stops == 0 && !acts {
            return Err("no ExecStart=, ExecStop= or SuccessAction=".to_owned());
        }
        if starts == 0 && !acts && !remains {
            return Err(
                "no ExecStart=, and neither RemainAfterExit=yes nor SuccessAction=".to_owned()
            );
        }
        if starts == 0 && service_type != "oneshot" && !acts {
            return Err(format!("Type={service_type} needs ExecStart="));
        }
        if starts > 1 && service_type != "oneshot" {
            return Err(format!("Type={service_type} allows one ExecStart= only"));
        }
        Ok(())
    }

    fn service_contradictions(&self, service_type: &str) -> Check {
        let text = |id: Id| self.merged.text(id);
        if service_type == "dbus" && text(id!(Service "BusName")).is_none() {
            return Err("Type=dbus needs BusName=".to_owned());
        }
        let is_oneshot = service_type == "oneshot";
        let restart = self.last_word(id!(Service "Restart"), Restart::from_word);
        if is_oneshot && matches!(restart, Some(Restart::Always | Restart::OnSuccess)) {
            return Err("Type=oneshot excludes Restart=always and on-success".to_owned());
        }
        let exit_type = self.last_word(id!(Service "ExitType"), ExitType::from_word);
        if is_oneshot && exit_type == Some(ExitType::Cgroup) {
            return Err("Type=oneshot excludes ExitType=cgroup".to_owned());
        }
        let kill_mode = self.merged.text(id!(Kill "KillMode"));
        let kills_all = !matches!(kill_mode.as_deref(), Some("process" | "none"));
        if text(id!(Exec "PAMName")).is_some() && !kills_all {
            return Err("PAMName= needs KillMode=control-group or mixed".to_owned());
        }
        if self.merged.flag(id!(Exec "PrivatePIDs"), false) {
            // The kernel ends all processes of the namespace with the first one, which leaves.
            if service_type == "forking" {
                return Err("Type=forking excludes PrivatePIDs=yes".to_owned());
            }
            // As it would end the one that closes the session.
            if text(id!(Exec "PAMName")).is_some() {
                return Err("PAMName= with PrivatePIDs=yes is not supported".to_owned());
            }
        }
        Ok(())
    }

    fn service_sockets(&mut self) {
        for (entry, at, word) in self.merged.words(id!(Service "Sockets")) {
            match self.unit_name(&word) {
                Ok(name) if name.unit_type() == UnitType::Socket => {
                    self.add_two(Relation::Wants, Relation::After, name.clone());
                    self.add(Relation::TriggeredBy, name);
                }
                Ok(name) => {
                    let fault = Fault::new(at, format!("'{name}' is not a socket"));
                    self.merged.fault(&entry, Code::BadUnitName, &fault);
                }
                Err(message) => {
                    self.merged.fault(&entry, Code::BadUnitName, &Fault::new(at, message));
                }
            }
        }
    }

    /// How many commands a setting has. A broken one costs the unit.
    fn commands(&self, id: Id) -> Result<usize, String> {
        let name = id.setting().name;
        let mut count = 0;
        for entry in self.merged.list(id) {
            match value::commands(entry.value, &|word| self.merged.expand_word(word)) {
                Ok((commands, _)) => count += commands.len(),
                Err(fault) if self.merged.is_fatal_in(entry) => {
                    let line = entry.line;
                    return Err(format!("line {line}: {name}=: {}", fault.message));
                }
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        Ok(count)
    }

    /// Settings that cost the unit when they are wrong, because running without them would run
    /// something else than was asked for.
    fn fatal_settings(&self) -> Check {
        let user: Rule = |text| value::user(text).is_ok();
        let groups: Rule =
            |text| text.split_ascii_whitespace().all(|word| value::user(word).is_ok());
        let path: Rule = |text| value::path(text).is_ok();
        // One that may be missing does no harm if it is wrong either.
        let directory: Rule =
            |text| text == "~" || text.starts_with('-') || value::path(text).is_ok();
        let rules: [(Id, Rule); 9] = [
            (id!(Exec "User"), user),
            (id!(Exec "Group"), user),
            (id!(Exec "SupplementaryGroups"), groups),
            (id!(Socket "SocketUser"), user),
            (id!(Socket "SocketGroup"), user),
            (id!(Exec "WorkingDirectory"), directory),
            (id!(Exec "RootDirectory"), path),
            (id!(Exec "RootImage"), path),
            (id!(Exec "DynamicUser"), |text| value::boolean(text).is_ok()),
        ];
        for (id, is_good) in rules {
            for entry in self.merged.raw(id) {
                let text = self.merged.expand_word(entry.value);
                let good = entry.value.is_empty() || text.is_ok_and(|text| is_good(&text));
                if !good && self.merged.is_fatal_in(entry) {
                    let name = id.setting().name;
                    return Err(format!("line {}: {name}={} is wrong", entry.line, entry.value));
                }
            }
        }
        Ok(())
    }

    fn socket(&mut self) -> Check {
        self.fatal_settings()?;
        let accept = self.merged.flag(id!(Socket "Accept"), false);
        let nodes = self.socket_addresses(accept)?;
        let small = |id: Id| self.merged.value(id, |text| value::number(text, 0, i64::MAX));
        if accept && small(id!(Socket "MaxConnections")) == Some(0) {
            return Err("MaxConnections= is too small".to_owned());
        }
        if self.merged.has(id!(Socket "Symlinks")) && nodes != 1 {
            return Err("Symlinks= needs exactly one node in the file system".to_owned());
        }
        self.socket_service(accept)?;
        if let Some(interface) = self.merged.text(id!(Socket "BindToDevice"))
            && interface != "lo"
        {
            let path = format!("/sys/subsystem/net/devices/{interface}");
            if let Ok(device) = UnitName::for_path(&path, UnitType::Device) {
                self.add_two(Relation::BindsTo, Relation::After, device);
            }
        }
        self.slice();
        let commands = [
            id!(Socket "ExecStartPre"),
            id!(Socket "ExecStartPost"),
            id!(Socket "ExecStopPre"),
            id!(Socket "ExecStopPost"),
        ];
        if commands.into_iter().any(|id| self.merged.has(id)) {
            self.execution();
        }
        Ok(())
    }

    /// Checks what is listened on and adds the mounts; returns the nodes in the file system.
    fn socket_addresses(&mut self, accept: bool) -> Result<usize, String> {
        let listens = self.merged.listens();
        let mut nodes = 0;
        for Listen { kind, address } in &listens {
            let accepting = matches!(kind, ListenKind::Stream | ListenKind::SequentialPacket);
            if accept && !accepting {
                return Err("Accept=yes needs sockets that accept connections".to_owned());
            }
            if let Address::Unix(path) | Address::Path(path) = address {
                nodes += usize::from(!matches!(kind, ListenKind::MessageQueue));
                if let Ok(path) = value::path(path) {
                    self.mounts_for(&path);
                }
            }
        }
        if listens.is_empty() {
            return Err("no Listen*= setting".to_owned());
        }
        Ok(nodes)
    }

    /// The service that the socket starts (systemd.socket(5), Service= and Accept=).
    fn socket_service(&mut self, accept: bool) -> Check {
        let written = self.merged.text(id!(Socket "Service"));
        if accept {
            return match written {
                Some(_) => Err("Accept=yes excludes Service=".to_owned()),
                None => Ok(()),
            };
        }
        let named = written.and_then(|text| self.unit_name(&text).ok());
        let service = match named.filter(|n| n.unit_type() == UnitType::Service) {
            Some(name) => name,
            None => self.same_name(UnitType::Service)?,
        };
        self.add_two(Relation::Before, Relation::Triggers, service);
        Ok(())
    }

    fn same_name(&self, unit_type: UnitType) -> Result<UnitName, String> {
        self.merged.name().change_type(unit_type).map_err(|e| e.to_string())
    }

    fn mount(&mut self) -> Check {
        self.fatal_settings()?;
        let where_ = self.place(id!(Mount "Where"))?;
        let what = self.merged.text(id!(Mount "What")).unwrap_or_default();
        if what.is_empty() && !self.flags.perpetual() {
            return Err("What= is missing".to_owned());
        }
        if is_api_file_system(&where_) {
            return Err(format!("{where_} is an API file system"));
        }
        self.flags.set(UnitFlags::CAN_RELOAD, true);
        self.mounts_above(&where_);
        let options = self.merged.text(id!(Mount "Options")).unwrap_or_default();
        let has = |names: &[&str]| options.split(',').any(|o| names.contains(&o));
        let is_bind = has(&["bind", "rbind"]);
        if has(&["usrquota", "grpquota", "quota", "usrjquota", "grpjquota"]) {
            for service in [known::quotacheck_service(), known::quotaon_service()] {
                self.add_two(Relation::Wants, Relation::Before, service);
            }
        }
        match device_path(&what) {
            // Of a volume manager's device that comes and goes, the mount may stay.
            Some(device) if !is_bind => match is_unbound(&options) {
                true => self.device_by(Relation::Requires, &device),
                false => self.device(&device),
            },
            _ if is_bind || has(&["loop"]) || self.is_local_image(&options) => {
                if let Ok(path) = value::path(&what) {
                    self.mounts_for(&path);
                }
            }
            _ => {}
        }
        self.slice();
        self.execution();
        Ok(())
    }

    /// Whether an absolute What= is a file of this host, and a unit's file says so: what the kernel
    /// has mounted may have any text for its source.
    fn is_local_image(&self, options: &str) -> bool {
        let fs_type = self.merged.text(id!(Mount "Type")).unwrap_or_default();
        let is_network = options.split(',').any(|o| o == "_netdev");
        self.merged.is_of_file() && !is_network && !is_network_file_system(&fs_type)
    }

    fn device(&mut self, path: &str) {
        self.device_by(Relation::BindsTo, path);
    }

    fn device_by(&mut self, relation: Relation, path: &str) {
        if let Ok(device) = UnitName::for_path(path, UnitType::Device) {
            self.add_two(relation, Relation::After, device);
        }
    }

    /// Where=, which must agree with the unit's name.
    fn place(&self, id: Id) -> Result<String, String> {
        let name = self.merged.name();
        let of_name = crate::escape::path_unescape(name.stem()).map_err(|e| e.to_string())?;
        let written = self.merged.value(id, value::path).unwrap_or_else(|| of_name.clone());
        match UnitName::for_path(&written, name.unit_type()) {
            Ok(fitting) if &fitting == name => Ok(written),
            _ => Err(format!("Where={written} does not fit the unit's name")),
        }
    }

    /// The mounts of everything above a path.
    fn mounts_above(&mut self, path: &str) {
        match path.rfind('/') {
            Some(end) if end > 0 => self.mounts_for(&path[..end]),
            _ if path != "/" => self.mounts_for("/"),
            _ => {}
        }
    }

    fn default_mount(&mut self) {
        let text = |id: Id| self.merged.text(id).unwrap_or_default();
        if !self.is_system() || self.is_extrinsic_mount() {
            return;
        }
        let (options, fs_type) = (text(id!(Mount "Options")), text(id!(Mount "Type")));
        let has = |name: &str| options.split(',').any(|o| o == name);
        let is_network = has("_netdev") || is_network_file_system(&fs_type);
        let may_fail = has("nofail");
        self.until_umount();
        if fs_type == "tmpfs" {
            self.add(Relation::After, known::swap_target());
        }
        if is_network {
            self.add(Relation::After, known::remote_fs_pre_target());
            self.add(Relation::After, known::network_target());
            self.add_two(Relation::After, Relation::Wants, known::network_online_target());
        } else {
            self.add(Relation::After, known::local_fs_pre_target());
        }
        if !may_fail {
            let target =
                if is_network { known::remote_fs_target() } else { known::local_fs_target() };
            self.add(Relation::Before, target);
        }
    }

    fn automount(&mut self) -> Check {
        let where_ = self.place(id!(Automount "Where"))?;
        if where_ == "/" {
            return Err("the root file system cannot be an automount point".to_owned());
        }
        self.mounts_above(&where_);
        let mount = self.same_name(UnitType::Mount)?;
        self.add_two(Relation::Before, Relation::Triggers, mount);
        Ok(())
    }

    fn swap(&mut self) -> Check {
        self.fatal_settings()?;
        let what = self.merged.value(id!(Swap "What"), value::path);
        let what = what.ok_or_else(|| "What= is missing".to_owned())?;
        if UnitName::for_path(&what, UnitType::Swap).ok().as_ref() != Some(self.merged.name()) {
            return Err(format!("What={what} does not fit the unit's name"));
        }
        match UnitName::for_path(&what, UnitType::Device) {
            Ok(device) if what.starts_with("/dev/") => {
                self.add_two(Relation::Requires, Relation::After, device);
            }
            _ => {
                self.mounts_for(&what);
                self.add(Relation::After, known::remount_fs_service());
            }
        }
        self.slice();
        self.execution();
        Ok(())
    }

    /// Unit= of a timer or path, or the service of the same name.
    fn triggered(&mut self, id: Id) -> Check {
        let named = self.merged.text(id).and_then(|text| self.unit_name(&text).ok());
        let name = match named {
            Some(name) => name,
            None => self.same_name(UnitType::Service)?,
        };
        self.add_two(Relation::Before, Relation::Triggers, name);
        Ok(())
    }

    fn timer(&mut self) -> Check {
        let switches = [id!(Timer "OnClockChange"), id!(Timer "OnTimezoneChange")];
        if self.merged.timer_events().is_empty()
            && !switches.into_iter().any(|id| self.merged.flag(id, false))
        {
            return Err("no On*= setting with a valid value".to_owned());
        }
        if self.is_system() && self.merged.flag(id!(Timer "Persistent"), false) {
            self.mounts_for(STAMP_FILES);
        }
        self.triggered(id!(Timer "Unit"))
    }

    fn path(&mut self) -> Check {
        let paths = self.merged.watched_paths();
        if paths.is_empty() {
            return Err("no path to watch".to_owned());
        }
        paths.iter().for_each(|spec| self.mounts_for(&spec.path));
        self.triggered(id!(Path "Unit"))
    }

    /// A slice requires the slice above it (systemd.slice(5)).
    fn parent_slice(&mut self) {
        let Some(parent) = self.merged.name().slice_parent() else { return };
        let parent = if parent.is_root_slice() { known::root_slice() } else { parent };
        self.add_two(Relation::Requires, Relation::After, parent.clone());
        self.add(Relation::InSlice, parent.clone());
        self.slice = Some(parent);
    }
}

/// Where timers have their stamp files (systemd.timer(5), Persistent=).
const STAMP_FILES: &str = "/var/lib/systemd/timers";

/// Whether file systems of this type need the network.
pub fn is_network_file_system(fs_type: &str) -> bool {
    NETWORK_FILE_SYSTEMS.contains(&fs_type.strip_prefix("fuse.").unwrap_or(fs_type))
}

/// Mount points that the manager sets up itself before any unit (file-hierarchy(7)).
pub fn is_api_file_system(path: &str) -> bool {
    const EXACT: &[&str] =
        &["/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/run", "/sys/fs/cgroup"];
    EXACT.contains(&path) || path.starts_with("/sys/fs/cgroup/")
}

/// `x-systemd.device-bound=no`: the mount stays when its device goes, systemd.mount(5).
fn is_unbound(options: &str) -> bool {
    let bound = |option: &str| value::boolean(option.strip_prefix("x-systemd.device-bound=")?).ok();
    options.rsplit(',').find_map(bound) == Some(false)
}

/// The device node that What= names, if it names one.
fn device_path(what: &str) -> Option<String> {
    let path = link_of_tag(what).map_or_else(|| value::path(what).ok(), Some)?;
    path.starts_with("/dev/").then_some(path)
}
