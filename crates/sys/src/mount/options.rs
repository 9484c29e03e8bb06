//! Option strings of fstab(5) and Options=: which are the kernel's flags, which go to the file
//! system, which only mean something to tools; mount(8). Pure.

use rustix::mount::{MountAttrFlags, MountFlags, MountPropagationFlags};

/// How mounts below a mount are shared with other namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Both ways.
    Shared,
    /// Not at all.
    Private,
    /// Only towards this one.
    Slave,
    /// Not at all, and it cannot be bound elsewhere.
    Unbindable,
}

impl Sharing {
    pub(super) fn flag(self) -> MountPropagationFlags {
        match self {
            Sharing::Shared => MountPropagationFlags::SHARED,
            Sharing::Private => MountPropagationFlags::PRIVATE,
            Sharing::Slave => MountPropagationFlags::DOWNSTREAM,
            Sharing::Unbindable => MountPropagationFlags::UNBINDABLE,
        }
    }
}

/// Kind, and whether it applies to everything below.
pub type Propagation = (Sharing, bool);

/// A split option string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// The kernel's flags.
    pub flags: MountFlags,
    /// `remount`: change what is mounted there.
    pub remount: bool,
    /// Change of propagation, done after mounting.
    pub propagation: Option<Propagation>,
    /// What the file system understands, in order: `name` or `name=value`.
    pub data: Vec<String>,
    /// What only tools understand (`noauto`, `x-...`), in order.
    pub userspace: Vec<String>,
}

/// Sets or clears a flag.
fn flag(name: &str) -> Option<(MountFlags, bool)> {
    Some(match name {
        "ro" => (MountFlags::RDONLY, true),
        "rw" => (MountFlags::RDONLY, false),
        "nosuid" => (MountFlags::NOSUID, true),
        "suid" => (MountFlags::NOSUID, false),
        "nodev" => (MountFlags::NODEV, true),
        "dev" => (MountFlags::NODEV, false),
        "noexec" => (MountFlags::NOEXEC, true),
        "exec" => (MountFlags::NOEXEC, false),
        "sync" => (MountFlags::SYNCHRONOUS, true),
        "async" => (MountFlags::SYNCHRONOUS, false),
        "dirsync" => (MountFlags::DIRSYNC, true),
        "noatime" => (MountFlags::NOATIME, true),
        "atime" => (MountFlags::NOATIME, false),
        "nodiratime" => (MountFlags::NODIRATIME, true),
        "diratime" => (MountFlags::NODIRATIME, false),
        "relatime" => (MountFlags::RELATIME, true),
        "norelatime" => (MountFlags::RELATIME, false),
        "strictatime" => (MountFlags::STRICTATIME, true),
        "nostrictatime" => (MountFlags::STRICTATIME, false),
        "lazytime" => (MountFlags::LAZYTIME, true),
        "nolazytime" => (MountFlags::LAZYTIME, false),
        "mand" => (MountFlags::PERMIT_MANDATORY_FILE_LOCKING, true),
        "nomand" => (MountFlags::PERMIT_MANDATORY_FILE_LOCKING, false),
        "iversion" => (I_VERSION, true),
        "noiversion" => (I_VERSION, false),
        "silent" => (MountFlags::SILENT, true),
        "loud" => (MountFlags::SILENT, false),
        "nosymfollow" => (NOSYMFOLLOW, true),
        "symfollow" => (NOSYMFOLLOW, false),
        "bind" => (MountFlags::BIND, true),
        "rbind" => (MountFlags::BIND.union(MountFlags::REC), true),
        _ => return None,
    })
}

/// MS_NOSYMFOLLOW of linux/mount.h, Linux 5.10.
const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

/// MS_I_VERSION of linux/mount.h.
const I_VERSION: MountFlags = MountFlags::from_bits_retain(1 << 23);

fn sharing(name: &str) -> Option<Propagation> {
    let kind = |name: &str| {
        Some(match name {
            "shared" => Sharing::Shared,
            "private" => Sharing::Private,
            "slave" => Sharing::Slave,
            "unbindable" => Sharing::Unbindable,
            _ => return None,
        })
    };
    let recursive = name.strip_prefix('r').and_then(kind).map(|k| (k, true));
    kind(name).map(|k| (k, false)).or(recursive)
}

/// Options that mount(8) and its callers use and no kernel sees.
fn is_userspace(option: &str) -> bool {
    const NAMES: [&str; 15] = [
        "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "_netdev",
        "nofail", "comment", "uhelper", "helper", "loop", "noowner",
    ];
    let name = option.split('=').next().unwrap_or(option);
    NAMES.contains(&name) || name.starts_with("x-") || name.starts_with("X-")
}

impl MountOptions {
    /// Splits a comma-separated string. A comma inside double quotes separates nothing, as
    /// mount(8) has it for security contexts. `user` and its like imply nosuid, nodev, noexec.
    pub fn parse(text: &str) -> MountOptions {
        let mut options = MountOptions {
            flags: MountFlags::empty(),
            remount: false,
            propagation: None,
            data: Vec::new(),
            userspace: Vec::new(),
        };
        for option in split(text) {
            options.add(option);
        }
        options
    }

    fn add(&mut self, option: &str) {
        if let Some((flag, on)) = flag(option) {
            self.flags.set(flag, on);
        } else if let Some(propagation) = sharing(option) {
            self.propagation = Some(propagation);
        } else if option == "remount" {
            self.remount = true;
        } else if is_userspace(option) {
            self.imply(option);
            self.userspace.push(option.to_owned());
        } else {
            self.data.push(option.replace('"', ""));
        }
    }

    fn imply(&mut self, option: &str) {
        match option {
            "user" | "users" => {
                self.flags |= MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV
            }
            "owner" | "group" => self.flags |= MountFlags::NOSUID | MountFlags::NODEV,
            _ => {}
        }
    }

    /// Flags that belong to the file system and are set by name in the mount API.
    pub fn superblock_flags(&self) -> impl Iterator<Item = &'static str> {
        let names = [
            (MountFlags::RDONLY, "ro"),
            (MountFlags::SYNCHRONOUS, "sync"),
            (MountFlags::DIRSYNC, "dirsync"),
            (MountFlags::LAZYTIME, "lazytime"),
            (MountFlags::PERMIT_MANDATORY_FILE_LOCKING, "mand"),
        ];
        let flags = self.flags;
        names.into_iter().filter(move |(flag, _)| flags.contains(*flag)).map(|(_, name)| name)
    }

    /// Flags that belong to the mount.
    pub fn attributes(&self) -> MountAttrFlags {
        let pairs = [
            (MountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
            (MountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
            (MountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
            (MountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
            (MountFlags::NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
            (NOSYMFOLLOW, MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
        ];
        let set = pairs.into_iter().filter(|(flag, _)| self.flags.contains(*flag));
        let mut attributes = set.fold(MountAttrFlags::empty(), |all, (_, a)| all | a);
        // The three ways to keep access times exclude each other; relatime is the default.
        if self.flags.contains(MountFlags::NOATIME) {
            attributes |= MountAttrFlags::MOUNT_ATTR_NOATIME;
        } else if self.flags.contains(MountFlags::STRICTATIME) {
            attributes |= MountAttrFlags::MOUNT_ATTR_STRICTATIME;
        }
        attributes
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let parts = text.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let o = MountOptions::parse(text);
        let sharing = o.propagation.map(|p| format!(" {p:?}")).unwrap_or_default();
        let flags: Vec<&str> = o.flags.iter_names().map(|(name, _)| name).collect();
        let remount = if o.remount { " remount" } else { "" };
        let found = format!(
            "[{}] [{}] [{}]{sharing}{remount}",
            flags.join("|"),
            o.data.join(" "),
            o.userspace.join(" ")
        );
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn options_are_split() {
        check("", "[] [] []");
        check("defaults,nofail", "[] [] [defaults nofail]");
        check("ro,nosuid,size=10m,mode=0755", "[NOSUID|RDONLY] [size=10m mode=0755] []");
        check("ro,rw,noatime,atime", "[] [] []");
        check("rbind,rslave", "[BIND|REC] [] [] (Slave, true)");
        check("remount,ro,private", "[RDONLY] [] [] (Private, false) remount");
        check("user,exec", "[NODEV|NOSUID] [] [user]");
        check("x-systemd.automount,_netdev,vers=4", "[] [vers=4] [x-systemd.automount _netdev]");
        check("context=\"a:b,c\",ro", "[RDONLY] [context=a:b,c] []");
        check("iversion,noiversion,size=1", "[] [size=1] []");
        check(",,ro,,", "[RDONLY] [] []");
    }

    #[test]
    fn flags_are_divided_between_file_system_and_mount() {
        let o = MountOptions::parse("ro,sync,noexec,noatime,strictatime");
        assert_eq!(o.superblock_flags().collect::<Vec<_>>(), ["ro", "sync"]);
        use MountAttrFlags as A;
        let expected = A::MOUNT_ATTR_RDONLY | A::MOUNT_ATTR_NOEXEC | A::MOUNT_ATTR_NOATIME;
        assert_eq!(o.attributes(), expected);
    }
}
