//! From entries whose paths are resolved to the steps of a process that gets mounts of its own.
//!
//! A path that is to be there with other rights is a copy of the host's mounts at that path, which is taken
//! before anything is mounted. So what is nested in something read-only has the rights that the host gives it, and
//! not more.

use super::model::{Access, Content, Entry, Processes, Tmpfs};

/// Attributes of mounts: bits of mount_setattr(2).
pub mod attribute {
    /// MOUNT_ATTR_RDONLY
    pub const READ_ONLY: u64 = 0x1;
    /// MOUNT_ATTR_NOSUID
    pub const NO_SET_UID: u64 = 0x2;
    /// MOUNT_ATTR_NODEV
    pub const NO_DEVICES: u64 = 0x4;
    /// MOUNT_ATTR_NOEXEC
    pub const NO_EXECUTE: u64 = 0x8;
    /// MOUNT_ATTR_NOATIME
    pub const NO_ATIME: u64 = 0x10;
    /// MOUNT_ATTR_STRICTATIME
    pub const STRICT_ATIME: u64 = 0x20;
    /// MOUNT_ATTR_NODIRATIME
    pub const NO_DIRECTORY_ATIME: u64 = 0x80;
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where, as the unit sees it.
    pub target: String,
    /// What.
    pub source: Source,
    /// Bits of [`attribute`] that it gets, with all that is mounted below it if it is a tree, and after what is
    /// mounted on it if it is not.
    pub attributes: u64,
    /// Nothing is amiss if there is nothing at the target when its turn comes.
    pub optional: bool,
    /// Where the target lies on the host; none if it lies in something that is made anew.
    pub origin: Option<String>,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing: the mounts that are there get attributes.
    InPlace,
    /// A copy of the host's mounts at this path, as they were before the first step.
    Tree {
        /// The path on the host.
        path: String,
        /// With what is mounted below it.
        recursive: bool,
    },
    /// A copy of what is there when its turn comes.
    Copy,
    /// Nothing that can be opened.
    Inaccessible,
    /// An empty file system.
    Tmpfs(Tmpfs),
    /// The devices of a private /dev.
    Devices,
    /// The processes.
    Processes(Processes),
    /// The tree of control groups, from the group of the process on.
    ControlGroups,
    /// The message queues.
    Queues,
    /// The credentials.
    Credentials,
}

/// What the entries nested in one come from.
#[derive(Clone)]
enum Base {
    /// The host, below this prefix.
    Host(String),
    /// Another path of the host, which lies at a path of the unit's.
    Bound { source: String, at: String },
    /// Something that is made anew.
    Made,
}

/// A path that is in force for those below it.
struct Outer {
    path: String,
    access: Access,
    base: Base,
    is_hidden: bool,
}

/// The steps for entries, outer paths first. `root` is the unit's root directory on the host, empty if it is the
/// host's. All paths are resolved, sources of binds as paths of the host.
///
/// Of entries for one path, one that hides it counts alone. Then what is another content: a bind before others, the
/// last of several; what takes rights away is taken from it, and what leaves them counts last.
pub fn arrange(mut entries: Vec<Entry>, root: &str) -> Vec<Step> {
    entries.sort_by(|a, b| parts(&a.path).cmp(parts(&b.path)));
    let mut steps = Vec::new();
    let mut outer: Vec<Outer> = Vec::new();
    for group in entries.chunk_by(|a, b| a.path == b.path) {
        let Some(Entry { path, .. }) = group.first() else { continue };
        while outer.last().is_some_and(|o| below(path, &o.path).is_none()) {
            outer.pop();
        }
        let optional = group.iter().all(|entry| entry.optional);
        let (content, limits) = content_of(group);
        if let Some((step, own)) = step(path, &content, limits, outer.last(), root) {
            let origin = origin(path, &base_of(outer.last(), root));
            steps.extend(step.map(|(source, attributes)| Step {
                target: path.clone(),
                source,
                attributes,
                optional,
                origin,
            }));
            outer.push(own);
        }
    }
    steps
}

/// The content that counts of entries for one path, and the attributes that others of them add to it.
fn content_of(group: &[Entry]) -> (Content, u64) {
    let mut access = Access::default();
    let mut other = None;
    for entry in group {
        match &entry.content {
            Content::Inaccessible => return (Content::Inaccessible, 0),
            Content::Access(stated) => {
                access.write = stricter(access.write, stated.write);
                access.execute = stricter(access.execute, stated.execute);
            }
            Content::Bind { .. } => other = Some(entry.content.clone()),
            _ if matches!(other, Some(Content::Bind { .. })) => {}
            content => other = Some(content.clone()),
        }
    }
    match other {
        Some(content) => (content, attributes(access)),
        None => (Content::Access(access), 0),
    }
}

fn stricter(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a && b),
        (a, b) => a.or(b),
    }
}

/// What is mounted at a path and its attributes, if it needs a mount, and what counts for those below; nothing if the path changes nothing.
fn step(
    path: &str,
    content: &Content,
    limits: u64,
    outer: Option<&Outer>,
    root: &str,
) -> Option<(Option<(Source, u64)>, Outer)> {
    if outer.is_some_and(|o| o.is_hidden) {
        return None;
    }
    let base = base_of(outer, root);
    let own = |access, base, is_hidden| Outer { path: path.to_owned(), access, base, is_hidden };
    let free = Access::default();
    Some(match content {
        Content::Access(stated) => {
            let above = outer.map(|o| o.access).unwrap_or_default();
            let access = Access {
                write: stated.write.or(above.write),
                execute: stated.execute.or(above.execute),
            };
            // In something that is made anew the path may not be there, which is to be seen.
            if attributes(access) == attributes(above) && !matches!(base, Base::Made) {
                return None;
            }
            let source = source_of(path, &base);
            (Some((source, attributes(access))), own(access, base, false))
        }
        Content::Inaccessible => {
            (Some((Source::Inaccessible, attribute::READ_ONLY)), own(free, Base::Made, true))
        }
        Content::Bind { source, recursive, read_only } => {
            let is_limited = *read_only || limits & attribute::READ_ONLY != 0;
            let may_execute = limits & attribute::NO_EXECUTE == 0;
            let access = Access {
                write: is_limited.then_some(false),
                execute: (!may_execute).then_some(false),
            };
            let is_host = matches!(&base, Base::Host(root) if root.is_empty());
            let changes_nothing =
                is_host && source == path && outer.is_none() && attributes(access) == 0;
            if changes_nothing && *recursive {
                return None;
            }
            let base = Base::Bound { source: source.clone(), at: path.to_owned() };
            let tree = Source::Tree { path: source.clone(), recursive: *recursive };
            (Some((tree, attributes(access))), own(access, base, false))
        }
        Content::Tmpfs(tmpfs) => {
            let attributes = tmpfs.attributes | limits;
            (Some((Source::Tmpfs(tmpfs.clone()), attributes)), own(free, Base::Made, false))
        }
        Content::Devices => {
            let attributes = attribute::READ_ONLY
                | attribute::NO_SET_UID
                | attribute::NO_EXECUTE
                | attribute::STRICT_ATIME;
            (Some((Source::Devices, attributes)), own(free, Base::Made, false))
        }
        Content::ControlGroups { read_only } => {
            let mut attributes =
                attribute::NO_SET_UID | attribute::NO_DEVICES | attribute::NO_EXECUTE;
            if *read_only {
                attributes |= attribute::READ_ONLY;
            }
            (Some((Source::ControlGroups, attributes)), own(free, Base::Made, false))
        }
        Content::Credentials => {
            let attributes = attribute::READ_ONLY
                | attribute::NO_SET_UID
                | attribute::NO_DEVICES
                | attribute::NO_EXECUTE;
            (Some((Source::Credentials, attributes)), own(free, Base::Made, false))
        }
        Content::Queues => {
            let attributes = attribute::NO_SET_UID | attribute::NO_DEVICES | attribute::NO_EXECUTE;
            (Some((Source::Queues, attributes | limits)), own(free, Base::Made, false))
        }
        Content::Processes(processes) => {
            let attributes = attribute::NO_SET_UID | attribute::NO_DEVICES | attribute::NO_EXECUTE;
            (Some((Source::Processes(*processes), attributes)), own(free, Base::Made, false))
        }
    })
}

fn base_of(outer: Option<&Outer>, root: &str) -> Base {
    outer.map_or_else(|| Base::Host(root.to_owned()), |o| o.base.clone())
}

/// Where what is at a path is copied from.
fn source_of(path: &str, base: &Base) -> Source {
    match base {
        Base::Host(root) if root.is_empty() && path == "/" => Source::InPlace,
        base => {
            origin(path, base).map_or(Source::Copy, |path| Source::Tree { path, recursive: true })
        }
    }
}

/// Where what is at a path lies on the host.
fn origin(path: &str, base: &Base) -> Option<String> {
    match base {
        Base::Host(root) => Some(joined(root, path)),
        Base::Bound { source, at } => Some(joined(source, below(path, at).unwrap_or_default())),
        Base::Made => None,
    }
}

/// A path below another.
pub fn joined(above: &str, below: &str) -> String {
    let above = above.trim_end_matches('/');
    match below.trim_matches('/') {
        "" if above.is_empty() => "/".to_owned(),
        "" => above.to_owned(),
        below => format!("{above}/{below}"),
    }
}

fn attributes(access: Access) -> u64 {
    let bit = |allowed: Option<bool>, bit| if allowed == Some(false) { bit } else { 0 };
    bit(access.write, attribute::READ_ONLY) | bit(access.execute, attribute::NO_EXECUTE)
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// What a path is below another, with a slash before it; empty if it is the other itself, nothing if it lies elsewhere.
pub fn below<'a>(path: &'a str, outer: &str) -> Option<&'a str> {
    if path == outer {
        return Some("");
    }
    let rest = path.strip_prefix(outer.trim_end_matches('/'))?;
    rest.starts_with('/').then_some(rest)
}
