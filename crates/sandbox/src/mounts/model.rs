//! A plan and its entries: plain data that travels to the exec helper.

use serde::{Deserialize, Serialize};

use crate::images::{Image, Place, Splits};

/// What the processes of a unit see of the file system and of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order in which the settings ask for them.
    pub entries: Vec<Entry>,
    /// Images, in the order in which the settings ask for them.
    pub images: Vec<Image>,
    /// Options of the unit's root, if that is an image (RootImageOptions=).
    pub root_options: Splits,
    /// A /tmp and a /var/tmp of the unit's own (PrivateTmp=).
    pub private_tmp: bool,
    /// Mounts of the unit's own are asked for by themselves (PrivateMounts=, MountFlags=).
    pub private_mounts: bool,
    /// How mounts that are made later travel (MountFlags=).
    pub propagation: Propagation,
    /// Namespaces besides that of mounts.
    pub namespaces: Namespaces,
    /// /proc, /sys, /dev and /run are not made below a root directory that lacks them (MountAPIVFS=no).
    pub bare_root: bool,
}

/// Namespaces besides that of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// Host and domain name (ProtectHostname=).
    pub host_name: bool,
    /// The host name there, if it is another.
    pub host_name_is: Option<String>,
    /// The view of the tree of control groups (ProtectControlGroups=private).
    pub control_groups: bool,
    /// Network devices and what belongs to them (PrivateNetwork=, NetworkNamespacePath=).
    pub network: Shared,
    /// Objects of System V and queues of POSIX (PrivateIPC=, IPCNamespacePath=).
    pub ipc: Shared,
    /// Process ids, of which each process of the unit's is the first (PrivatePIDs=).
    pub processes: bool,
    /// Users and capabilities (PrivateUsers=).
    pub users: Option<UserMap>,
}

/// A namespace that all processes of a run have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shared {
    /// The manager's.
    #[default]
    Host,
    /// One of the run's own.
    Private,
    /// The one behind this path.
    Path(String),
}

/// Which users there are in a namespace of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserMap {
    /// root and the unit's own.
    Own,
    /// The first 65,536.
    Identity,
    /// All.
    Full,
}

impl Plan {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        let Plan { bare_root, root_options, .. } = self;
        let nothing =
            Plan { bare_root: *bare_root, root_options: root_options.clone(), ..Plan::default() };
        *self == nothing
    }

    /// Whether the processes get mounts of their own.
    pub fn has_mounts(&self) -> bool {
        !self.entries.is_empty()
            || self.private_tmp
            || self.private_mounts
            || !self.images.is_empty()
    }

    /// Whether the unit's root is an image.
    pub fn has_root_image(&self) -> bool {
        self.images.iter().any(|image| image.place == Place::Root)
    }
}

/// How mounts travel between the host and the unit (systemd.exec(5), "MountFlags=").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// From the host to the unit, and among those whom the unit gives mounts of their own.
    #[default]
    Shared,
    /// From the host to the unit.
    Slave,
    /// Not at all.
    Private,
}

/// One path and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Absolute and simple.
    pub path: String,
    /// The path is one of the unit's root directory, not of the host's.
    pub in_root: bool,
    /// Nothing is amiss if the path, or what is to be there, does not exist.
    pub optional: bool,
    /// What it is to be.
    pub content: Content,
}

/// What a path is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// What is there, with other rights.
    Access(Access),
    /// Nothing that can be opened.
    Inaccessible,
    /// What another path of the host has.
    Bind {
        /// The other path.
        source: String,
        /// With what is mounted below it.
        recursive: bool,
        /// It cannot be written to.
        read_only: bool,
    },
    /// An empty file system in memory.
    Tmpfs(Tmpfs),
    /// A /dev without physical devices (PrivateDevices=).
    Devices,
    /// Another view of the processes.
    Processes(Processes),
    /// The credentials of the unit.
    Credentials,
    /// The message queues of the namespace.
    Queues,
    /// Another view of the tree of control groups.
    ControlGroups {
        /// It cannot be written to.
        read_only: bool,
    },
}

/// Rights; what is not stated is as above the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Whether it can be written to.
    pub write: Option<bool>,
    /// Whether programs can be executed.
    pub execute: Option<bool>,
}

/// An empty file system in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tmpfs {
    /// Options of tmpfs(5), `KEY` or `KEY=VALUE`.
    pub options: Vec<String>,
    /// Attributes of the mount: bits of [`crate::mounts::arrange::attribute`].
    pub attributes: u64,
}

/// A view of the processes: options of proc(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// ProtectProc=
    pub visibility: ProcessVisibility,
    /// ProcSubset=pid
    pub only_processes: bool,
}

/// Which processes of others can be seen (proc(5), "hidepid=").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessVisibility {
    /// All.
    #[default]
    All,
    /// All, but not what is in their directories.
    NoAccess,
    /// None.
    Invisible,
    /// Those that can be traced.
    Traceable,
}

impl ProcessVisibility {
    /// The value of `hidepid=`; none leaves it as it is.
    pub fn hidepid(self) -> Option<&'static str> {
        match self {
            ProcessVisibility::All => None,
            ProcessVisibility::NoAccess => Some("noaccess"),
            ProcessVisibility::Invisible => Some("invisible"),
            ProcessVisibility::Traceable => Some("ptraceable"),
        }
    }
}

/// What a plan is for: a unit that only protects the host runs without what the machine cannot give; one
/// that would run in another place does not (systemd.exec(5), "SANDBOXING").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All of it takes something away.
    Protection,
    /// Some of it is another environment: other files at a path.
    Environment,
}

impl Plan {
    /// What the plan is for.
    pub fn purpose(&self) -> Purpose {
        let is_other = |entry: &Entry| match &entry.content {
            Content::Bind { source, .. } => *source != entry.path,
            Content::Credentials => true,
            _ => false,
        };
        let has_path = |shared: &Shared| matches!(shared, Shared::Path(_));
        let joins = has_path(&self.namespaces.network) || has_path(&self.namespaces.ipc);
        match joins || !self.images.is_empty() || self.entries.iter().any(is_other) {
            true => Purpose::Environment,
            false => Purpose::Protection,
        }
    }
}
