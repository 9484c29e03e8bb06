//! Unit names: `prefix[@instance].type`, checked once and then cheap to copy and compare.
//!
//! The rules are those of systemd.unit(5), "DESCRIPTION": at most 255 bytes, ASCII letters,
//! digits and `:-_.\` (and `@` before the instance). A [`UnitName`] that exists is valid.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::escape;

/// The longest unit name, in bytes, with its suffix (systemd.unit(5)).
pub const NAME_BYTES_MAX: usize = 255;

/// What kind of unit a name denotes; its suffix decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum UnitType {
    /// A supervised group of processes, systemd.service(5).
    Service,
    /// A listening socket or FIFO that starts a service, systemd.socket(5).
    Socket,
    /// A named group of units, systemd.target(5).
    Target,
    /// A device that the kernel announced, systemd.device(5).
    Device,
    /// A mount point, systemd.mount(5).
    Mount,
    /// A mount point that is mounted on first access, systemd.automount(5).
    Automount,
    /// Swap space, systemd.swap(5).
    Swap,
    /// A unit started by the clock, systemd.timer(5).
    Timer,
    /// A unit started by a change in the file system, systemd.path(5).
    Path,
    /// An inner node of the cgroup tree, systemd.slice(5).
    Slice,
    /// Processes that something else started, systemd.scope(5).
    Scope,
}

impl UnitType {
    /// Every type, in the order of the enum.
    pub const ALL: [UnitType; 11] = [
        UnitType::Service,
        UnitType::Socket,
        UnitType::Target,
        UnitType::Device,
        UnitType::Mount,
        UnitType::Automount,
        UnitType::Swap,
        UnitType::Timer,
        UnitType::Path,
        UnitType::Slice,
        UnitType::Scope,
    ];

    /// The suffix without its dot: `service`.
    pub const fn suffix(self) -> &'static str {
        match self {
            UnitType::Service => "service",
            UnitType::Socket => "socket",
            UnitType::Target => "target",
            UnitType::Device => "device",
            UnitType::Mount => "mount",
            UnitType::Automount => "automount",
            UnitType::Swap => "swap",
            UnitType::Timer => "timer",
            UnitType::Path => "path",
            UnitType::Slice => "slice",
            UnitType::Scope => "scope",
        }
    }

    /// The type with this suffix (without a dot), if there is one.
    pub fn from_suffix(suffix: &str) -> Option<UnitType> {
        UnitType::ALL.into_iter().find(|t| t.suffix() == suffix)
    }

    /// The section that holds the type's own settings: `Service`.
    pub const fn section(self) -> &'static str {
        match self {
            UnitType::Service => "Service",
            UnitType::Socket => "Socket",
            UnitType::Target => "Target",
            UnitType::Device => "Device",
            UnitType::Mount => "Mount",
            UnitType::Automount => "Automount",
            UnitType::Swap => "Swap",
            UnitType::Timer => "Timer",
            UnitType::Path => "Path",
            UnitType::Slice => "Slice",
            UnitType::Scope => "Scope",
        }
    }
}

impl fmt::Display for UnitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}

/// Why a text is not a unit name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing was given, or nothing stands before the suffix.
    Empty,
    /// Longer than [`NAME_BYTES_MAX`]; holds the length in bytes.
    TooLong(usize),
    /// There is no dot, or what follows the last one is no unit type.
    BadSuffix(String),
    /// A byte that names cannot hold; holds the character and its offset in bytes.
    BadCharacter(char, usize),
    /// A template operation on a name that is no template, or the reverse.
    NotTemplate(String),
    /// An escape sequence that does not decode, or decodes to no text.
    BadEscape(String),
    /// A path that is not absolute, has `..` in it or is no path at all.
    BadPath(String),
    /// A slice name with an empty part: a leading, trailing or double dash.
    BadSlice(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("the name is empty"),
            NameError::TooLong(n) => {
                write!(f, "the name has {n} bytes, at most {NAME_BYTES_MAX} are allowed")
            }
            NameError::BadSuffix(s) => write!(f, "'{s}' does not end in a unit type"),
            NameError::BadCharacter(c, at) => write!(f, "character {c:?} at byte {at}"),
            NameError::NotTemplate(s) => write!(f, "'{s}' is not a template"),
            NameError::BadEscape(s) => write!(f, "'{s}' has an escape that does not decode"),
            NameError::BadPath(s) => write!(f, "'{s}' is not a normalized absolute path"),
            NameError::BadSlice(s) => write!(f, "'{s}' has an empty part between dashes"),
        }
    }
}

impl std::error::Error for NameError {}

/// A valid unit name. Cloning copies a pointer; comparing compares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(Arc<str>);

/// Whether a byte may stand in a prefix.
const fn is_prefix_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_' | b'.' | b'\\')
}

impl UnitName {
    /// Checks a name by the rules of systemd.unit(5).
    pub fn parse(text: &str) -> Result<UnitName, NameError> {
        check(text)?;
        Ok(UnitName(Arc::from(text)))
    }

    /// The same of a text that others have too: it is not copied.
    pub fn shared(text: &Arc<str>) -> Result<UnitName, NameError> {
        check(text)?;
        Ok(UnitName(text.clone()))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Offset of the dot before the suffix.
    fn dot(&self) -> usize {
        self.0.len() - 1 - self.unit_type().suffix().len()
    }

    /// Offset of the `@`, if there is one.
    fn at(&self) -> Option<usize> {
        memchr::memchr(b'@', self.0.as_bytes())
    }

    /// The type that the suffix denotes: told by its last letters, as no two end alike, without a search.
    pub fn unit_type(&self) -> UnitType {
        match self.0.as_bytes() {
            [.., b'r', _, b'i', b'c', b'e'] => UnitType::Service,
            [.., b'e', _, b'i', b'c', b'e'] => UnitType::Device,
            [.., b's', b'l', b'i', b'c', b'e'] => UnitType::Slice,
            [.., b'.', _, b'o', b'u', b'n', b't'] => UnitType::Mount,
            [.., b'o', b'u', b'n', b't'] => UnitType::Automount,
            [.., b'c', b'k', b'e', b't'] => UnitType::Socket,
            [.., b'r', b'g', b'e', b't'] => UnitType::Target,
            [.., b'i', b'm', b'e', b'r'] => UnitType::Timer,
            [.., b'c', b'o', b'p', b'e'] => UnitType::Scope,
            [.., b'p', b'a', b't', b'h'] => UnitType::Path,
            _ => UnitType::Swap,
        }
    }

    /// What stands before the `@` or, without one, before the suffix.
    pub fn prefix(&self) -> &str {
        &self.0[..self.at().unwrap_or_else(|| self.dot())]
    }

    /// The name without its suffix: `foo@bar` of `foo@bar.service`.
    pub fn stem(&self) -> &str {
        &self.0[..self.dot()]
    }

    /// What stands between `@` and the suffix; `None` for a template and a plain name.
    pub fn instance(&self) -> Option<&str> {
        let instance = &self.0[self.at()? + 1..self.dot()];
        (!instance.is_empty()).then_some(instance)
    }

    /// Whether this is `foo@.service`.
    pub fn is_template(&self) -> bool {
        self.at().is_some_and(|at| at + 1 == self.dot())
    }

    /// Whether this is `foo@bar.service`.
    pub fn is_instance(&self) -> bool {
        self.instance().is_some()
    }

    /// The template of an instance; `None` for anything else.
    pub fn template(&self) -> Option<UnitName> {
        self.instance()?;
        let text = format!("{}@{}", self.prefix(), &self.0[self.dot()..]);
        Some(UnitName(text.into()))
    }

    /// The instance of this template (or of this instance's template) named `instance`, which
    /// must be escaped already.
    pub fn with_instance(&self, instance: &str) -> Result<UnitName, NameError> {
        let Some(at) = self.at() else { return Err(NameError::NotTemplate(self.0.to_string())) };
        if instance.is_empty() {
            return Err(NameError::Empty);
        }
        UnitName::parse(&format!("{}@{instance}{}", &self.0[..at], &self.0[self.dot()..]))
    }

    /// The same name with another type's suffix.
    pub fn change_type(&self, unit_type: UnitType) -> Result<UnitName, NameError> {
        UnitName::parse(&format!("{}.{}", self.stem(), unit_type.suffix()))
    }

    /// The names whose `.d` directories a dashed prefix adds, longest first: `a-b-.service` and
    /// `a-.service` for `a-b-c.service` (systemd.unit(5), "DESCRIPTION"). An instance's part
    /// from the `@` on is kept.
    pub fn dash_prefixes(&self) -> impl Iterator<Item = String> + '_ {
        let prefix = self.prefix();
        let rest = &self.0[prefix.len()..];
        let whole = prefix.strip_suffix('-').unwrap_or(prefix);
        memchr::memrchr_iter(b'-', whole.as_bytes())
            .filter(|&dash| dash > 0)
            .map(move |dash| format!("{}{rest}", &prefix[..=dash]))
    }

    /// The slice above a slice: `a.slice` for `a-b.slice`, `-.slice` for `a.slice`; `None` for
    /// the root slice and for what is no slice (systemd.slice(5)).
    pub fn slice_parent(&self) -> Option<UnitName> {
        if self.unit_type() != UnitType::Slice || self.is_root_slice() {
            return None;
        }
        match self.stem().rfind('-') {
            Some(dash) if dash > 0 => Some(UnitName(format!("{}.slice", &self.0[..dash]).into())),
            _ => Some(UnitName::root_slice()),
        }
    }

    /// `-.slice`, the root of the cgroup tree.
    pub fn root_slice() -> UnitName {
        UnitName(Arc::from("-.slice"))
    }

    /// Whether this is `-.slice`.
    pub fn is_root_slice(&self) -> bool {
        &*self.0 == "-.slice"
    }

    /// Whether a slice's name has no empty part (systemd.slice(5)).
    pub fn is_valid_slice(&self) -> bool {
        let stem = self.stem();
        self.is_root_slice() || (self.at().is_none() && stem.split('-').all(|p| !p.is_empty()))
    }

    /// The unit of a path: `home-a.mount` for `/home/a` (systemd.mount(5)).
    pub fn for_path(path: &str, unit_type: UnitType) -> Result<UnitName, NameError> {
        UnitName::parse(&format!("{}.{}", escape::path_escape(path)?, unit_type.suffix()))
    }
}

/// Checks a name without keeping it.
fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    let bad_suffix = || NameError::BadSuffix(text.to_owned());
    let (stem, suffix) = text.rsplit_once('.').ok_or_else(bad_suffix)?;
    UnitType::from_suffix(suffix).ok_or_else(bad_suffix)?;
    if stem.is_empty() || stem.starts_with('@') {
        return Err(NameError::Empty);
    }
    check_characters(stem)
}

fn check_characters(stem: &str) -> Result<(), NameError> {
    let bad =
        stem.char_indices().find(|&(_, c)| c != '@' && !u8::try_from(c).is_ok_and(is_prefix_byte));
    bad.map_or(Ok(()), |(at, c)| Err(NameError::BadCharacter(c, at)))
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for UnitName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for UnitName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<UnitName, NameError> {
        UnitName::parse(s)
    }
}

impl Serialize for UnitName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitName, D::Error> {
        let text = String::deserialize(deserializer)?;
        UnitName::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
