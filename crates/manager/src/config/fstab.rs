//! Units of what fstab(5) says, where systemd's own generator for it is not installed. [`read`] has its
//! bytes, [`units`], which is pure, makes files and links of them, and [`FstabUnits::write`] puts those into a
//! directory.
//!
//! What becomes what is in systemd.mount(5), "FSTAB", and systemd.swap(5). Of the options that
//! begin with `x-systemd.`, those that need programs of systemd (`makefs`, `growfs`, `pcrfs`) are
//! told of and not done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use warren_unit::device_name::link_of_tag;
use warren_unit::load::{is_api_file_system, is_network_file_system};
use warren_unit::{UnitName, UnitType, value};

/// The program in whose place this stands.
pub const GENERATOR: &str = "systemd-fstab-generator";

/// Largest fstab that is read, in bytes.
const FSTAB_BYTES_MAX: u64 = 4 << 20;

/// Fields of a line; what is behind them says nothing.
const FIELDS: usize = 6;

/// What became of a table.
#[derive(Debug, Default)]
pub struct FstabUnits {
    /// Texts of files, by their paths.
    files: BTreeMap<String, String>,
    /// Where links lead to, by their paths.
    links: BTreeMap<String, String>,
    /// What is wrong with which line.
    pub complaints: Vec<String>,
}

/// What is to be known of the host.
pub struct Host<'h> {
    /// Whether a file system of that type, which may be `auto`, can be checked here.
    pub has_checker: &'h dyn Fn(&str) -> bool,
    /// Where a mount point lies, symbolic links followed as far as they are there: mounts are not made over links.
    pub place_of: &'h dyn Fn(&str) -> String,
    /// Whether anything is swapped to.
    pub swaps: bool,
}

/// Links that are followed on the way to one place.
const LINKS_MAX: u32 = 40;

/// Where a path leads, links followed as far as they are there. Behind one of `traps`, which are automount points that
/// nobody has entered yet, nothing is looked at.
pub fn place_of(path: &str, traps: &BTreeSet<String>) -> String {
    let names = |path: &Path| -> Vec<OsString> {
        let real = path.components().filter(|part| !matches!(part, Component::RootDir));
        real.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut to_go: VecDeque<OsString> = names(Path::new(path)).into();
    let (mut place, mut links, mut is_behind) = (PathBuf::from("/"), 0, false);
    while let Some(name) = to_go.pop_front() {
        if name == ".." {
            place.pop();
            continue;
        }
        let next = place.join(name);
        let link = if is_behind { None } else { fs::read_link(&next).ok() };
        let Some(link) = link else {
            is_behind |= next.to_str().is_some_and(|next| traps.contains(next));
            place = next;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return path.to_owned();
        }
        if link.is_absolute() {
            place = PathBuf::from("/");
        }
        names(&link).into_iter().rev().for_each(|name| to_go.push_front(name));
    }
    place.to_str().map_or_else(|| path.to_owned(), str::to_owned)
}

/// What the kernel's command line says (systemd-fstab-generator(8)): whether the table is to be read, and whether it is
/// to be swapped. Of several the last counts.
pub fn is_asked_for(words: &[String]) -> (bool, bool) {
    let flag = |name: &str| {
        let value =
            |word: &String| value::boolean(word.strip_prefix(name)?.strip_prefix('=')?).ok();
        words.iter().rev().find_map(value).unwrap_or(true)
    };
    (flag("fstab"), flag("systemd.swap"))
}

/// A line of the table.
struct Entry {
    what: String,
    place: String,
    fs_type: String,
    options: Vec<String>,
    is_checked: bool,
}

/// The table's bytes, which need not be text.
///
/// # Errors
/// As open(2) and read(2), and if it is too large.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FSTAB_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FSTAB_BYTES_MAX {
        true => Err(io::Error::other(format!("it has more than {FSTAB_BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}

/// Units of a table.
pub fn units(table: &[u8], host: &Host<'_>) -> FstabUnits {
    let mut made = FstabUnits::default();
    for (number, line) in table.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let done = Entry::parse(line).and_then(|entry| made.add(entry, host));
        if let Err(why) = done {
            made.complaints.push(format!("line {}: {why}", number + 1));
        }
    }
    made
}

impl Entry {
    fn parse(line: &[u8]) -> Result<Entry, String> {
        let fields = line.split(|byte| matches!(byte, b' ' | b'\t'));
        let fields = fields.filter(|field| !field.is_empty()).take(FIELDS).map(str::from_utf8);
        let fields: Result<Vec<&str>, _> = fields.collect();
        let mut fields = fields.map_err(|_| "a field is not UTF-8")?.into_iter();
        let mut next = || fields.next().map(unescape);
        let (Some(what), Some(place)) = (next(), next()) else {
            return Err("it has fewer than two fields".to_owned());
        };
        let fs_type = next().unwrap_or_else(|| "auto".to_owned());
        let options = next().unwrap_or_default();
        let is_checked = next().and(next()).is_some_and(|pass| pass != "0");
        let odd = |text: &str| text.contains(char::is_control) || text.ends_with('\\');
        if [&what, &place, &fs_type, &options].into_iter().any(|text| odd(text)) {
            return Err("a field has a character that unit names cannot have".to_owned());
        }
        let options = options.split(',').filter(|o| !matches!(*o, "" | "defaults"));
        let options = in_foreground(&fs_type, options.map(str::to_owned).collect());
        let place = without_last_slashes(place);
        Ok(Entry { what: link_of_tag(&what).unwrap_or(what), place, fs_type, options, is_checked })
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// The values of an option, each time that it is given.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let value = move |option: &'a String| option.strip_prefix(name)?.strip_prefix('=');
        self.options.iter().filter_map(value).filter(|value| !value.is_empty())
    }

    /// What mount(8) and the unit's loader are told.
    fn plain_options(&self) -> String {
        let is_loaders = |option: &str| option.starts_with("x-systemd.device-bound=");
        let is_ours = |option: &str| {
            let is_kept = option == "x-initrd.mount" || is_loaders(option);
            let is_remark = option.starts_with("x-") && !is_kept;
            matches!(option, "auto" | "noauto" | "comment") || is_remark
        };
        let options = self.options.iter().map(String::as_str).filter(|option| !is_ours(option));
        options.collect::<Vec<_>>().join(",").replace('%', "%%")
    }

    fn unit(&self, path: &str, unit_type: UnitType) -> Result<UnitName, String> {
        let is_path = path.starts_with('/');
        let name = UnitName::for_path(path, unit_type).ok().filter(|_| is_path);
        name.ok_or_else(|| format!("{path:?} is not a path"))
    }

    fn is_network(&self) -> bool {
        self.has("_netdev") || is_network_file_system(&self.fs_type)
    }

    /// The settings of [Unit] that `x-systemd.` options state, systemd.mount(5).
    fn relations(&self) -> String {
        let mut out = String::new();
        for (option, settings) in [
            ("x-systemd.requires", &["Requires", "After"][..]),
            ("x-systemd.wants", &["Wants", "After"]),
            ("x-systemd.before", &["Before"]),
            ("x-systemd.after", &["After"]),
            ("x-systemd.requires-mounts-for", &["RequiresMountsFor"]),
            ("x-systemd.wants-mounts-for", &["WantsMountsFor"]),
        ] {
            for value in self.values(option) {
                let value = match option.ends_with("-for") {
                    true => value.to_owned(),
                    false => unit_of(value),
                };
                for setting in settings {
                    let _ = writeln!(out, "{setting}={}", value.replace('%', "%%"));
                }
            }
        }
        out
    }
}

/// The NFS option `bg` would have mount(8) go on beside the unit: its job waits as long instead
/// (systemd.mount(5), "FSTAB"). Of `bg` and `fg` the last counts, nfs(5).
fn in_foreground(fs_type: &str, options: Vec<String>) -> Vec<String> {
    let last = options.iter().rev().find(|option| matches!(option.as_str(), "bg" | "fg"));
    if !matches!(fs_type, "nfs" | "nfs4") || last.is_none_or(|last| last != "bg") {
        return options;
    }
    let before = ["x-systemd.mount-timeout=infinity", "retry=10000"].map(str::to_owned);
    let after = ["fg", "nofail"].map(str::to_owned);
    before.into_iter().chain(options).chain(after).collect()
}

/// A word of a command line, in quotes: systemd.service(5), "COMMAND LINES".
fn word(text: &str) -> String {
    let plain = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", plain.replace('$', "$$").replace('%', "%%"))
}

/// A field may hold blanks, tabs, newlines and backslashes in octal, fstab(5).
fn unescape(field: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn without_last_slashes(path: String) -> String {
    match path.trim_end_matches('/') {
        "" => path,
        place => place.to_owned(),
    }
}

/// A unit by its name or by a path, as in `x-systemd.requires=`.
fn unit_of(value: &str) -> String {
    let unit_type = if value.starts_with("/dev/") { UnitType::Device } else { UnitType::Mount };
    let by_path = || UnitName::for_path(value, unit_type).ok().map(|name| name.to_string());
    value.starts_with('/').then(by_path).flatten().unwrap_or_else(|| value.to_owned())
}

impl FstabUnits {
    fn add(&mut self, mut entry: Entry, host: &Host<'_>) -> Result<(), String> {
        match entry.fs_type.as_str() {
            "ignore" => return Ok(()),
            "swap" if host.swaps => return self.swap(&entry),
            "swap" => return Ok(()),
            _ => {}
        }
        if entry.place.starts_with('/') {
            entry.place = (host.place_of)(&entry.place);
        }
        match is_api_file_system(&entry.place) {
            true => self.remount(&entry),
            false => self.mount(&entry, host),
        }
    }

    fn swap(&mut self, entry: &Entry) -> Result<(), String> {
        let name = entry.unit(&entry.what, UnitType::Swap)?;
        let mut text = head(&entry.relations());
        let _ = writeln!(text, "[Swap]\nWhat={}", entry.what.replace('%', "%%"));
        let options = entry.plain_options();
        if !matches!(options.as_str(), "" | "sw") {
            let _ = writeln!(text, "Options={options}");
        }
        self.file(&name, text)?;
        self.device_timeout(entry)?;
        self.wish(entry, &name, "swap.target", !entry.has("noauto"))
    }

    fn mount(&mut self, entry: &Entry, host: &Host<'_>) -> Result<(), String> {
        for odd in ["x-systemd.makefs", "x-systemd.growfs", "x-systemd.pcrfs"] {
            if entry.has(odd) {
                self.complaints.push(format!("{}: {odd} is not supported", entry.place));
            }
        }
        let name = entry.unit(&entry.place, UnitType::Mount)?;
        let mut text = head(&entry.relations());
        let is_root = entry.place == "/";
        if entry.is_checked && !is_root {
            match entry.what.starts_with("/dev/") {
                true if (host.has_checker)(&entry.fs_type) => {
                    let checked = self.check(&entry.what)?;
                    let _ = writeln!(text, "Requires={checked}\nAfter={checked}");
                }
                true => {}
                false => {
                    let Entry { what, place, .. } = entry;
                    self.complaints
                        .push(format!("{place}: {what} is not a device, so it is not checked"));
                }
            }
        }
        let _ = writeln!(text, "[Mount]\nWhat={}", entry.what.replace('%', "%%"));
        let _ = writeln!(text, "Where={}", entry.place.replace('%', "%%"));
        if entry.fs_type != "auto" {
            let _ = writeln!(text, "Type={}", entry.fs_type.replace('%', "%%"));
        }
        let options = entry.plain_options();
        if !options.is_empty() {
            let _ = writeln!(text, "Options={options}");
        }
        for timeout in entry.values("x-systemd.mount-timeout") {
            let _ = writeln!(text, "TimeoutSec={timeout}");
        }
        if entry.has("x-systemd.rw-only") {
            text += "ReadWriteOnly=yes\n";
        }
        self.file(&name, text)?;
        self.device_timeout(entry)?;
        match entry.place.as_str() {
            "/" => self.remount_root()?,
            "/usr" => self.remount(entry)?,
            _ => {}
        }
        let target = if entry.is_network() { "remote-fs.target" } else { "local-fs.target" };
        match entry.has("x-systemd.automount") && !is_root {
            true => self.automount(entry, target),
            false => self.wish(entry, &name, target, !entry.has("noauto")),
        }
    }

    fn automount(&mut self, entry: &Entry, target: &str) -> Result<(), String> {
        let name = entry.unit(&entry.place, UnitType::Automount)?;
        // What options say of relations is said of the mount, systemd.mount(5).
        let mut text = head("");
        if !entry.has("nofail") {
            let _ = writeln!(text, "Before={target}");
        }
        let _ = writeln!(text, "[Automount]\nWhere={}", entry.place.replace('%', "%%"));
        for idle in entry.values("x-systemd.idle-timeout") {
            let _ = writeln!(text, "TimeoutIdleSec={idle}");
        }
        self.file(&name, text)?;
        // `noauto` is said of the mount.
        self.wish(entry, &name, target, true)
    }

    /// Who is to start it: the targets that its options name, else the usual one if it is automatic.
    fn wish(
        &mut self,
        entry: &Entry,
        name: &UnitName,
        target: &str,
        is_automatic: bool,
    ) -> Result<(), String> {
        let mut is_named = false;
        let named = [("x-systemd.wanted-by", "wants"), ("x-systemd.required-by", "requires")];
        for (option, kind) in named {
            for by in entry.values(option) {
                if UnitName::parse(by).is_err() {
                    return Err(format!("{option}={by} does not name a unit"));
                }
                is_named = true;
                self.link(by, kind, name);
            }
        }
        if !is_named && is_automatic {
            self.link(target, if entry.has("nofail") { "wants" } else { "requires" }, name);
        }
        Ok(())
    }

    fn link(&mut self, target: &str, kind: &str, name: &UnitName) {
        self.links.insert(format!("{target}.{kind}/{name}"), format!("../{name}"));
    }

    fn device_timeout(&mut self, entry: &Entry) -> Result<(), String> {
        let timeout = entry.values("x-systemd.device-timeout").last();
        if let Some(timeout) = timeout.filter(|_| entry.what.starts_with("/dev/")) {
            let device = entry.unit(&entry.what, UnitType::Device)?;
            let text = format!("[Unit]\nJobRunningTimeoutSec={timeout}\n");
            self.files.insert(format!("{device}.d/50-device-timeout.conf"), text);
        }
        Ok(())
    }

    /// The service that checks a device before it is mounted.
    fn check(&mut self, what: &str) -> Result<String, String> {
        let device = UnitName::for_path(what, UnitType::Device).map_err(|e| e.to_string())?;
        let name = format!("systemd-fsck@{}.service", device.stem());
        let (shown, what) = (what.replace('%', "%%"), word(what));
        let text = format!(
            "[Unit]\nDescription=File System Check on {shown}\nDefaultDependencies=no\n\
             BindsTo={device}\nAfter={device} local-fs-pre.target\nConflicts=shutdown.target\n\
             Before=shutdown.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             SuccessExitStatus=1\nTimeoutSec=infinity\nExecStart=fsck -a -M -T {what}\n"
        );
        self.files.insert(name.clone(), text);
        Ok(name)
    }

    /// The kernel mounts the root as its command line says, read-only as a rule.
    fn remount_root(&mut self) -> Result<(), String> {
        self.remounter("systemd-remount-fs.service", "Root File System as fstab Says\n", "/")
    }

    /// What is mounted before the manager looks at fstab gets the options that this says, if any,
    /// systemd-remount-fs(8): each by a service of its own, as mount(8) may refuse those of one.
    fn remount(&mut self, entry: &Entry) -> Result<(), String> {
        let options = entry.plain_options();
        if options.split(',').all(|option| matches!(option, "" | "nofail" | "_netdev")) {
            return Ok(());
        }
        let mount = entry.unit(&entry.place, UnitType::Mount)?;
        let shown = entry.place.replace('%', "%%");
        let about = format!("{shown} as fstab Says\nConditionPathIsMountPoint={shown}\n");
        let name = format!("systemd-remount-fs@{}.service", mount.stem());
        self.remounter(&name, &about, &entry.place)
    }

    /// A service that does so; `about` is what it is called, and what else its first section says.
    fn remounter(&mut self, name: &str, about: &str, place: &str) -> Result<(), String> {
        let name = UnitName::parse(name).map_err(|e| e.to_string())?;
        let text = format!(
            "[Unit]\nDescription={about}DefaultDependencies=no\n\
             Before=local-fs-pre.target local-fs.target shutdown.target\nWants=local-fs-pre.target\n\
             Conflicts=shutdown.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=mount -o remount {}\n",
            word(place)
        );
        self.files.insert(name.to_string(), text);
        self.link("local-fs.target", "wants", &name);
        Ok(())
    }

    fn file(&mut self, name: &UnitName, text: String) -> Result<(), String> {
        match self.files.contains_key(name.as_str()) {
            true => Err(format!("an earlier line has already made {name}")),
            false => {
                self.files.insert(name.to_string(), text);
                Ok(())
            }
        }
    }

    /// Puts all of it into a directory.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let place = |path: &String| -> io::Result<std::path::PathBuf> {
            let path = directory.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            Ok(path)
        };
        for (path, text) in &self.files {
            fs::write(place(path)?, text)?;
        }
        for (path, target) in &self.links {
            symlink(target, place(path)?)?;
        }
        Ok(())
    }
}

fn head(relations: &str) -> String {
    let comment = "# FstabUnits of /etc/fstab, since systemd-fstab-generator is not installed.";
    format!("{comment}\n[Unit]\nDocumentation=man:fstab(5)\nSourcePath=/etc/fstab\n{relations}")
}

#[cfg(test)]
mod tests;
