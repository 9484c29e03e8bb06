//! Mounts of a process's own, made ready: paths are resolved and directories made, before there is a process.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError};
use warren_sandbox::mounts::arrange::{self, Source, Step, below, joined};
use warren_sandbox::mounts::{
    self, Content, DEVICE_LINKS, DEVICE_NODES, Entry, Propagation, Purpose, TEMPORARY, Tmpfs,
};
use warren_sys::errno::ENOENT;
use warren_sys::mount::places::{self, Kind};
use warren_sys::mount::{Sharing, own};
use warren_sys::{Error, child, tree};

use crate::credentials;
use crate::fault::{c_string, failed, wrong};
use crate::identity::Identity;
use crate::images;

const STEP: ExecStep = ExecStep::Namespace;

/// What a process mounts for itself.
pub struct OwnMounts {
    /// In order.
    pub mounts: Vec<OwnMount>,
    /// The unit's root directory, if it has one.
    pub root: Option<CString>,
    /// What the helper mounted images below, which the unit does not see.
    pub hidden: Option<CString>,
    /// How mounts travel afterwards.
    pub sharing: Sharing,
    /// The unit runs without them where there are none to be had.
    pub may_be_missing: bool,
    /// Which of them is at work, for what is said of a failure.
    pub at: usize,
    /// Whom credentials belong to.
    pub owner: (u32, u32),
    /// There were none to be had, or not all of them.
    pub are_missing: bool,
}

/// One mount.
pub struct OwnMount {
    /// What.
    pub source: MountSource,
    /// Where.
    pub target: CString,
    /// What is made in a new file system if nothing is there, outer directories first; the last is the target itself.
    pub makes: Vec<CString>,
    /// The target is a directory.
    pub is_directory: bool,
    /// Bits of `arrange::attribute`.
    pub attributes: u64,
    /// Nothing is amiss if it cannot be found.
    pub optional: bool,
    /// The mount, from when it is made until all are.
    pub mount: Option<OwnedFd>,
}

/// What is mounted.
pub enum MountSource {
    /// Nothing new.
    InPlace,
    /// A copy of the mounts at this path, with those below it if it is recursive.
    Tree(CString, bool),
    /// A copy of what is at the target.
    Copy,
    /// A file system with options.
    FileSystem(&'static std::ffi::CStr, Vec<(CString, Option<CString>)>),
    /// The credentials of the unit, in a directory of this name.
    Credentials(CString, Vec<(CString, Vec<u8>)>),
    /// A private /dev, whose nodes can be made.
    Devices {
        /// They can be made.
        nodes: bool,
    },
}

impl MountSource {
    /// Whether its attributes are set when everything is mounted on it, and on itself alone.
    pub fn is_new(&self) -> bool {
        use MountSource::{Credentials, Devices, FileSystem};
        matches!(self, FileSystem(..) | Devices { .. } | Credentials(..))
    }
}

impl OwnMounts {
    /// The path that was at work, for people.
    pub fn describe(&self) -> String {
        let mount = self.mounts.get(self.at);
        mount.map_or_else(String::new, |m| m.target.to_string_lossy().into_owned())
    }

    /// Forgets the mounts of a process that did not come to its end: the numbers were its own.
    pub fn forget(&mut self) {
        self.mounts.iter_mut().filter_map(|m| m.mount.take()).for_each(std::mem::forget);
    }
}

/// What a process of this spec mounts for itself; nothing if it asks for nothing.
pub fn prepare(spec: &ExecSpec, identity: &Identity) -> Result<Option<OwnMounts>, SpawnError> {
    let plan = &spec.view.plan;
    let root_path = spec.root_directory.as_deref().filter(|root| *root != "/");
    let has_api = !plan.bare_root && root_path.is_some();
    if !plan.has_mounts() && !has_api {
        return Ok(None);
    }
    let is_protection = plan.purpose() == Purpose::Protection && root_path.is_none();
    let may_be_missing = is_protection && !spec.view.must_hold;
    let root = Root::open(root_path)?;
    let mounts = match may_be_missing && !may_mount() {
        // The process will find that it gets none.
        true => Vec::new(),
        false => ordered(spec, &root, has_api)?,
    };
    Ok(Some(OwnMounts {
        mounts,
        hidden: images::are_used(spec).then(|| c_string(images::AT, STEP)).transpose()?,
        root: root_path.map(|_| c_string(&root.path, STEP)).transpose()?,
        sharing: match plan.propagation {
            Propagation::Shared => Sharing::Shared,
            Propagation::Slave => Sharing::Slave,
            Propagation::Private => Sharing::Private,
        },
        may_be_missing,
        at: 0,
        owner: (identity.uid.unwrap_or(0), identity.gid.unwrap_or(0)),
        are_missing: false,
    }))
}

/// Whether this process may have mounts of its own.
fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    child::capabilities().is_ok_and(|own| own.effective & CAP_SYS_ADMIN != 0)
}

fn ordered(spec: &ExecSpec, root: &Root, has_api: bool) -> Result<Vec<OwnMount>, SpawnError> {
    let plan = &spec.view.plan;
    let mut entries = Vec::new();
    if has_api {
        let is_stated = |api: &Entry| {
            let is_content = |e: &&Entry| !matches!(e.content, Content::Access(_));
            plan.entries.iter().filter(is_content).any(|entry| entry.path == api.path)
        };
        let api = mounts::api_file_systems().into_iter();
        entries.extend(api.filter(|entry| !is_stated(entry) && !root.is_mounted(entry)));
    }
    entries.extend(plan.entries.iter().cloned());
    if plan.private_tmp {
        for path in TEMPORARY {
            entries.push(private_tmp(path, &spec.view.private_tmp)?);
        }
    }
    add_device_nodes(&mut entries);
    let resolved = entries.iter().map(|entry| root.resolve(entry, &entries));
    let resolved: Vec<Option<Entry>> = resolved.collect::<Result<_, _>>()?;
    let steps = arrange::arrange(resolved.into_iter().flatten().collect(), &root.path);
    let mut mounts = Vec::with_capacity(steps.len() + 1);
    if root.directory.is_some() {
        mounts.push(own_root(&root.path)?);
    }
    for step in steps {
        mounts.extend(root.mount(step, spec)?);
    }
    Ok(mounts)
}

/// The unit's root directory becomes a mount point, so that it can become the root.
fn own_root(path: &str) -> Result<OwnMount, SpawnError> {
    let path = c_string(path, STEP)?;
    Ok(OwnMount {
        source: MountSource::Tree(path.clone(), true),
        target: path,
        makes: Vec::new(),
        is_directory: true,
        attributes: 0,
        optional: false,
        mount: None,
    })
}

/// Whether it is a path of a private /dev that has nothing there, whatever the host has.
fn lacks_device(path: &str, all: &[Entry]) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    let name = name.split('/').next().unwrap_or_default();
    let is_private = all.iter().any(|entry| entry.content == Content::Devices);
    let is_made = DEVICE_NODES.iter().any(|(known, ..)| *known == name)
        || DEVICE_LINKS.iter().any(|(known, _)| *known == name);
    let is_mounted = |entry: &Entry| {
        let is_content = !matches!(entry.content, Content::Access(_) | Content::Inaccessible);
        is_content && entry.content != Content::Devices && below(path, &entry.path).is_some()
    };
    is_private && !is_made && !all.iter().any(is_mounted)
}

/// A directory of the unit's own in place of one for all.
fn private_tmp(path: &str, name: &str) -> Result<Entry, SpawnError> {
    let source = places::private_tmp(path, name).map_err(|e| wrong(STEP, &e))?;
    let content = Content::Bind { source, recursive: true, read_only: false };
    Ok(Entry { path: path.to_owned(), in_root: true, optional: false, content })
}

/// Where no devices can be made, those of the host are mounted over empty files.
fn add_device_nodes(entries: &mut Vec<Entry>) {
    if !entries.iter().any(|entry| entry.content == Content::Devices) || can_make_devices() {
        return;
    }
    for (name, ..) in DEVICE_NODES {
        let path = format!("/dev/{name}");
        let content = Content::Bind { source: path.clone(), recursive: false, read_only: false };
        entries.push(Entry { path, in_root: true, optional: true, content });
    }
}

/// Whether the kernel lets this process make devices; asked once.
fn can_make_devices() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let ask = || {
        let place = own::file_system(c"tmpfs", std::iter::empty());
        place.is_ok_and(|place| own::make_device(place.as_fd(), c"null", 1, 3).is_ok())
    };
    *ANSWER.get_or_init(ask)
}

/// The unit's root directory.
struct Root {
    /// The host's root.
    host: OwnedFd,
    /// Its own, if that is another.
    directory: Option<OwnedFd>,
    /// On the host, without links; empty if it is the host's.
    path: String,
}

impl Root {
    fn open(path: Option<&str>) -> Result<Root, SpawnError> {
        let wrong = |e: Error| wrong(STEP, &e);
        let host = places::open_place("/").map_err(wrong)?;
        let Some(path) = path else {
            return Ok(Root { host, directory: None, path: String::new() });
        };
        let resolved = places::resolve(host.as_fd(), path).map_err(wrong)?;
        let directory = Some(places::open_place(&resolved).map_err(wrong)?);
        Ok(Root { host, directory, path: resolved })
    }

    /// A path of this root as one of the host without links.
    fn find(&self, path: &str) -> Result<String, Error> {
        places::resolve(self.directory.as_ref().unwrap_or(&self.host).as_fd(), path)
    }

    /// Whether something is mounted there already.
    fn is_mounted(&self, entry: &Entry) -> bool {
        warren_sys::mount::is_mount_point(joined(&self.path, &entry.path).as_ref())
    }

    /// The entry with paths of this root that have no links; nothing if it is optional and there is nothing.
    fn resolve(&self, entry: &Entry, all: &[Entry]) -> Result<Option<Entry>, SpawnError> {
        let Some(asked) = self.inside(entry) else { return Ok(None) };
        let is_access = matches!(entry.content, Content::Access(_) | Content::Inaccessible);
        if is_access && entry.optional && lacks_device(&asked, all) {
            return Ok(None);
        }
        let mut entry = Entry { path: asked, in_root: true, ..entry.clone() };
        let found = match &mut entry.content {
            Content::Access(_) | Content::Inaccessible => self.existing(&entry.path, all),
            Content::Bind { source, .. } => {
                places::resolve(self.host.as_fd(), source).and_then(|found| {
                    *source = found;
                    self.reachable(&entry.path)
                })
            }
            _ => self.reachable(&entry.path),
        };
        match found {
            Ok(path) => Ok(Some(Entry { path, ..entry })),
            Err(e) if entry.optional && is_missing(&e) => Ok(None),
            Err(e) => Err(failed(STEP, e.errno, entry.path)),
        }
    }

    /// The path as the unit sees it; none if it is one of the host's outside of the unit's root.
    fn inside(&self, entry: &Entry) -> Option<String> {
        if entry.in_root || self.path.is_empty() {
            return Some(entry.path.clone());
        }
        let rest = entry.path.strip_prefix(&self.path)?;
        match rest {
            "" => Some("/".to_owned()),
            rest => rest.starts_with('/').then(|| rest.to_owned()),
        }
    }

    /// A path that is there, or will be where something else of the unit's is mounted.
    fn existing(&self, path: &str, all: &[Entry]) -> Result<String, Error> {
        let missing = match self.find(path) {
            Ok(found) => return self.relative(found),
            Err(e) if is_missing(&e) => e,
            Err(e) => return Err(e),
        };
        let is_above = |outer: &str| outer != path && below(path, outer).is_some();
        let above = all.iter().filter(|other| is_above(&other.path));
        let of_content = above.filter(|other| !matches!(other.content, Content::Access(_)));
        let Some(other) = of_content.max_by_key(|o| o.path.len()) else { return Err(missing) };
        let below = below(path, &other.path).unwrap_or_default();
        let on_host = match &other.content {
            Content::Bind { source, .. } => joined(source, below),
            // The same kernel's.
            Content::Processes(_) => path.to_owned(),
            // Whether it is there is seen when it is made.
            _ => return Ok(joined(&self.reachable(&other.path)?, below)),
        };
        places::resolve(self.host.as_fd(), &on_host)?;
        Ok(joined(&self.reachable(&other.path)?, below))
    }

    /// A path, the last parts of which need not be there.
    fn reachable(&self, path: &str) -> Result<String, Error> {
        let mut there = path;
        loop {
            match self.find(there) {
                Ok(found) => {
                    let rest = path.get(there.len()..).unwrap_or_default();
                    return Ok(joined(&self.relative(found)?, rest));
                }
                Err(e) if e.errno == ENOENT && there.len() > 1 => {
                    let end = there.rfind('/').unwrap_or(0);
                    there = there.get(..end.max(1)).unwrap_or("/");
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// What was found on the host as a path of this root.
    fn relative(&self, found: String) -> Result<String, Error> {
        match found.strip_prefix(&self.path) {
            Some("") => Ok("/".to_owned()),
            Some(rest) => Ok(rest.to_owned()),
            None => Err(Error::at("resolve", found, ENOENT)),
        }
    }

    /// The mount of a step, its target made where that lies on the host; nothing if it is optional and that fails.
    fn mount(&self, step: Step, spec: &ExecSpec) -> Result<Option<OwnMount>, SpawnError> {
        let target = joined(&self.path, &step.target);
        let kind = |path: &str| places::kind_of(path).unwrap_or(Kind::Directory);
        let (source, is_directory) = match step.source {
            Source::InPlace => (MountSource::InPlace, true),
            Source::Copy => (MountSource::Copy, true),
            Source::Tree { path, recursive } => {
                let is_directory = kind(&path) == Kind::Directory;
                (MountSource::Tree(c_string(&path, STEP)?, recursive), is_directory)
            }
            Source::Inaccessible => {
                // What is made anew has what the host has at the same path.
                let kind = kind(step.origin.as_deref().unwrap_or(&step.target));
                let node = places::inaccessible(kind).map_err(|e| wrong(STEP, &e))?;
                (MountSource::Tree(c_string(&node, STEP)?, false), kind == Kind::Directory)
            }
            Source::Tmpfs(tmpfs) => (MountSource::FileSystem(c"tmpfs", options(&tmpfs)?), true),
            Source::Devices => (MountSource::Devices { nodes: can_make_devices() }, true),
            Source::Credentials => (credentials(spec)?, true),
            Source::Queues => (MountSource::FileSystem(c"mqueue", Vec::new()), true),
            Source::ControlGroups => (MountSource::FileSystem(c"cgroup2", Vec::new()), true),
            Source::Processes(processes) => {
                let mut options = Vec::new();
                let hidden = processes.visibility.hidepid().map(|value| ("hidepid", value));
                let subset = processes.only_processes.then_some(("subset", "pid"));
                for (key, value) in hidden.into_iter().chain(subset) {
                    options.push((c_string(key, STEP)?, Some(c_string(value, STEP)?)));
                }
                (MountSource::FileSystem(c"proc", options), true)
            }
        };
        let optional = step.optional;
        let is_made = !matches!(source, MountSource::InPlace | MountSource::Copy);
        let made = match &step.origin {
            Some(path) if is_made => tree::make_mount_point(path, is_directory),
            _ => Ok(()),
        };
        match made {
            Err(_) if optional => return Ok(None),
            other => other.map_err(|e| wrong(STEP, &e))?,
        }
        let is_in_new = is_made && step.origin.is_none();
        let makes = if is_in_new { makes(&self.path, &step.target)? } else { Vec::new() };
        let (attributes, target) = (step.attributes, c_string(&target, STEP)?);
        let mount = None;
        Ok(Some(OwnMount { source, target, makes, is_directory, attributes, optional, mount }))
    }
}

fn credentials(spec: &ExecSpec) -> Result<MountSource, SpawnError> {
    let step = ExecStep::Credentials;
    let contents = credentials::read(spec)?.into_iter();
    let named = contents.map(|(name, content)| Ok((c_string(&name, step)?, content)));
    Ok(MountSource::Credentials(c_string(&spec.view.unit, step)?, named.collect::<Result<_, _>>()?))
}

fn is_missing(error: &Error) -> bool {
    error.errno == ENOENT
}

/// The directories above a path and the path itself.
fn makes(root: &str, path: &str) -> Result<Vec<CString>, SpawnError> {
    let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]);
    ends.map(|end| c_string(&joined(root, path.get(..end).unwrap_or(path)), STEP)).collect()
}

fn options(tmpfs: &Tmpfs) -> Result<Vec<(CString, Option<CString>)>, SpawnError> {
    let option = |text: &String| {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (text.as_str(), None),
        };
        Ok((c_string(key, STEP)?, value.map(|value| c_string(value, STEP)).transpose()?))
    };
    tmpfs.options.iter().map(option).collect()
}
