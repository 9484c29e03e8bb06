//! The values of the settings that end in mounts.

use super::model::{
    Access, Content, Entry, Plan, ProcessVisibility, Processes, Propagation, Shared, Tmpfs, UserMap,
};
use crate::images::{Image, Place, parse_options};
use crate::paths::simple;

use super::presets::{
    self, API, AS_IT_IS, CONFIGURATION, CONTROL_GROUPS, HOMES, KERNEL_LOGS, KERNEL_MEMORY, MODULES,
    READ_ONLY, SYSTEM, TUNABLES, all,
};

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the plan.
    Yes,
    /// It is none of this crate's settings of mounts.
    Unknown,
}

/// A word that means nothing, and why.
pub type Problem = (Box<str>, String);

/// Whether the words of a setting are paths, or begin with one.
pub fn is_path_setting(setting: &str) -> bool {
    access_of(setting).is_some()
        || matches!(
            setting,
            "InaccessiblePaths" | "BindPaths" | "BindReadOnlyPaths" | "TemporaryFileSystem"
        )
}

fn access_of(setting: &str) -> Option<Access> {
    let (write, execute) = match setting {
        "ReadWritePaths" => (Some(true), None),
        "ReadOnlyPaths" => (Some(false), None),
        "ExecPaths" => (None, Some(true)),
        "NoExecPaths" => (None, Some(false)),
        _ => return None,
    };
    Some(Access { write, execute })
}

impl Plan {
    /// Takes the words of a setting in that is not off. Words that mean nothing are left out, as systemd leaves
    /// them out, and told in `problems`.
    pub fn take(&mut self, setting: &str, words: &[&str], problems: &mut Vec<Problem>) -> Taken {
        if is_path_setting(setting) {
            self.take_paths(setting, words, problems);
            return Taken::Yes;
        }
        let word = words.first().copied().unwrap_or_default();
        match setting {
            "ProtectSystem" => self.protect_system(word),
            "ProtectHome" => self.protect_home(word),
            "ProtectKernelTunables" => {
                self.extend(&TUNABLES, &READ_ONLY);
                // That is for ProtectControlGroups= to say, as systemd 252 has it: a unit may manage its own groups.
                if !self.entries.iter().any(|entry| entry.path == CONTROL_GROUPS) {
                    self.extend(&[CONTROL_GROUPS], &AS_IT_IS);
                }
                self.extend(&KERNEL_MEMORY, &Content::Inaccessible);
            }
            "ProtectKernelModules" => self.extend(&MODULES, &Content::Inaccessible),
            "ProtectKernelLogs" => self.extend(&KERNEL_LOGS, &Content::Inaccessible),
            "ProtectControlGroups" => self.control_groups(word),
            "ProtectHostname" => self.protect_host_name(word, problems),
            "ProtectProc" => self.processes().visibility = visibility(word),
            "ProcSubset" => self.processes().only_processes = true,
            "PrivateTmp" if word == "disconnected" => self.disconnected_tmp(),
            "PrivateTmp" => self.private_tmp = true,
            "PrivateNetwork" => self.namespaces.network.make_private(),
            "NetworkNamespacePath" => self.namespaces.network.take_path(word, problems),
            "PrivateIPC" => {
                self.namespaces.ipc.make_private();
                self.extend(&["/dev/mqueue"], &Content::Queues);
            }
            "IPCNamespacePath" => {
                self.namespaces.ipc.take_path(word, problems);
                self.extend(&["/dev/mqueue"], &Content::Queues);
            }
            "PrivatePIDs" => {
                self.namespaces.processes = true;
                // One that shows them.
                self.processes();
            }
            "PrivateUsers" => {
                self.namespaces.users = Some(match word {
                    "identity" => UserMap::Identity,
                    "full" => UserMap::Full,
                    _ => UserMap::Own,
                });
            }
            "PrivateDevices" => self.private_devices(),
            "PrivateMounts" => self.private_mounts = true,
            "MountAPIVFS" => self.bare_root = is_no(word),
            "RootImage" => {
                self.images.retain(|image| image.place != Place::Root);
                self.take_images(&[word], Image::root, problems);
            }
            "RootImageOptions" => {
                for word in words {
                    match parse_options(word) {
                        Ok(options) => self.root_options.push(options),
                        Err(why) => problems.push(((*word).into(), why)),
                    }
                }
            }
            "MountImages" => self.take_images(words, Image::mounted, problems),
            "ExtensionImages" => self.take_images(words, Image::extension, problems),
            "ExtensionDirectories" => self.take_images(words, Image::directory, problems),
            "MountFlags" => self.mount_flags(word, problems),
            // A spawn says where the copy is.
            "RootEphemeral" => {}
            _ => return Taken::Unknown,
        }
        Taken::Yes
    }

    fn extend(&mut self, paths: &[&str], content: &Content) {
        self.entries.extend(all(paths, content));
    }

    fn protect_system(&mut self, word: &str) {
        if word == "strict" {
            self.extend(&["/"], &READ_ONLY);
            self.extend(&API, &AS_IT_IS);
            self.extend(&HOMES, &AS_IT_IS);
            return;
        }
        self.extend(&SYSTEM, &READ_ONLY);
        if word == "full" {
            self.extend(&[CONFIGURATION], &READ_ONLY);
        }
    }

    fn protect_home(&mut self, word: &str) {
        let content = match word {
            "read-only" => READ_ONLY,
            "tmpfs" => Content::Tmpfs(Tmpfs::with_options("ro")),
            _ => Content::Inaccessible,
        };
        self.extend(&HOMES, &content);
    }

    /// `yes`, `private` (a group and all below it is all that is seen) or `strict` (and cannot be written to).
    fn control_groups(&mut self, word: &str) {
        let read_only = word == "strict";
        let content = match word {
            "private" | "strict" => Content::ControlGroups { read_only },
            _ => READ_ONLY,
        };
        self.namespaces.control_groups = content != READ_ONLY;
        self.entries.retain(|e| !(e.optional && e.path == CONTROL_GROUPS && e.content == AS_IT_IS));
        self.extend(&[CONTROL_GROUPS], &content);
    }

    /// `BOOLEAN` or `private`, and behind a colon the name that the host is to have there.
    fn protect_host_name(&mut self, word: &str, problems: &mut Vec<Problem>) {
        const HOST_NAME_BYTES_MAX: usize = 64;
        let (_, name) = word.split_once(':').unwrap_or((word, ""));
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if name.len() > HOST_NAME_BYTES_MAX || !name.bytes().all(allowed) {
            problems.push((word.into(), "is not a host name".to_owned()));
            return;
        }
        self.namespaces.host_name = true;
        self.namespaces.host_name_is = (!name.is_empty()).then(|| name.to_owned());
    }

    /// Empty file systems, which nobody else has.
    pub fn disconnected_tmp(&mut self) {
        self.private_tmp = false;
        let content = Content::Tmpfs(Tmpfs::with_options("mode=1777"));
        self.extend(&presets::TEMPORARY, &content);
    }

    fn private_devices(&mut self) {
        self.extend(&["/dev"], &Content::Devices);
        for name in presets::DEVICE_DIRECTORIES {
            let path = format!("/dev/{name}");
            let content = Content::Bind { source: path.clone(), recursive: true, read_only: false };
            self.extend(&[&path], &content);
        }
    }

    fn processes(&mut self) -> &mut Processes {
        let is = |entry: &Entry| matches!(entry.content, Content::Processes(_));
        let at = self.entries.iter().position(is).unwrap_or_else(|| {
            self.extend(&["/proc"], &Content::Processes(Processes::default()));
            self.entries.len() - 1
        });
        match &mut self.entries[at].content {
            Content::Processes(processes) => processes,
            _ => unreachable!("it was looked for, or made"),
        }
    }

    fn mount_flags(&mut self, word: &str, problems: &mut Vec<Problem>) {
        self.propagation = match word {
            // As without the setting: no mounts of its own for its sake.
            "shared" => return,
            "slave" => Propagation::Slave,
            "private" => Propagation::Private,
            other => {
                problems.push((other.into(), "is not one of: shared, slave, private".to_owned()));
                return;
            }
        };
        self.private_mounts = true;
    }

    fn take_images(
        &mut self,
        words: &[&str],
        read: fn(&str) -> Result<Image, String>,
        problems: &mut Vec<Problem>,
    ) {
        for word in words {
            match read(word) {
                Ok(image) => self.images.push(image),
                Err(why) => problems.push(((*word).into(), why)),
            }
        }
    }

    fn take_paths(&mut self, setting: &str, words: &[&str], problems: &mut Vec<Problem>) {
        for word in words {
            let entry = match setting {
                "BindPaths" => bind(word, false),
                "BindReadOnlyPaths" => bind(word, true),
                "TemporaryFileSystem" => temporary(word),
                "InaccessiblePaths" => limited(word, Content::Inaccessible),
                _ => limited(word, Content::Access(access_of(setting).unwrap_or_default())),
            };
            match entry {
                Ok(entry) => self.entries.push(entry),
                Err(why) => problems.push(((*word).into(), why)),
            }
        }
    }
}

impl Shared {
    fn make_private(&mut self) {
        if *self == Shared::Host {
            *self = Shared::Private;
        }
    }

    fn take_path(&mut self, path: &str, problems: &mut Vec<Problem>) {
        match simple(path) {
            Ok(path) => *self = Shared::Path(path),
            Err(why) => problems.push((path.into(), why)),
        }
    }
}

/// Whether a switch is off; what is neither was found wrong when the unit was compiled.
fn is_no(word: &str) -> bool {
    matches!(word, "0" | "no" | "n" | "false" | "f" | "off")
}

fn visibility(word: &str) -> ProcessVisibility {
    match word {
        "noaccess" => ProcessVisibility::NoAccess,
        "invisible" => ProcessVisibility::Invisible,
        "ptraceable" => ProcessVisibility::Traceable,
        _ => ProcessVisibility::All,
    }
}

/// `[-][+]PATH`
fn limited(word: &str, content: Content) -> Result<Entry, String> {
    let (rest, optional) = prefixed(word, '-');
    let (path, in_root) = prefixed(rest, '+');
    Ok(Entry { path: simple(path)?, in_root, optional, content })
}

/// `[-]SOURCE[:PATH[:OPTIONS]]`
fn bind(word: &str, read_only: bool) -> Result<Entry, String> {
    let (parts, optional) = crate::images::parts(word);
    let part = |at: usize| parts.get(at).map(String::as_str).unwrap_or_default();
    let source = simple(part(0))?;
    let path = Some(part(1)).filter(|path| !path.is_empty()).map(simple).transpose()?;
    let recursive = match part(2) {
        "" | "rbind" => true,
        "norbind" => false,
        other => return Err(format!("'{other}' is not one of: rbind, norbind")),
    };
    if parts.len() > 3 {
        return Err("has more fields than source, target and option".to_owned());
    }
    let path = path.unwrap_or_else(|| source.clone());
    Ok(Entry {
        path,
        in_root: true,
        optional,
        content: Content::Bind { source, recursive, read_only },
    })
}

/// `PATH[:OPTIONS]`
fn temporary(word: &str) -> Result<Entry, String> {
    let (path, options) = word.split_once(':').unwrap_or((word, ""));
    let content = Content::Tmpfs(Tmpfs::with_options(options));
    Ok(Entry { path: simple(path)?, in_root: true, optional: false, content })
}

fn prefixed(word: &str, sign: char) -> (&str, bool) {
    word.strip_prefix(sign).map_or((word, false), |rest| (rest, true))
}
