//! journald.conf(5): what the log daemon is told in files.
//!
//! `table` is the one table of settings, which the parser and the page in `docs/` share. Pure but
//! for [`load`], which finds the files: `/etc/warren/journald.conf`, and over it the drop-ins of
//! `journald.conf.d` in `/etc/warren`, `/run/warren` and `/usr/lib/warren`, sorted by name, where a
//! file hides one of the same name in a later directory. What cannot be understood is said with
//! file and line and left out; it never stops the daemon.

mod classes;
mod table;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use classes::ClassRoom;
pub use table::{SETTINGS, Setting, documentation};

use crate::input::limit::Rate;
use crate::input::stream::LINE_BYTES_DEFAULT;
use warren_log_store::store::{CLASSES_MAX, DEFAULT_CLASS};

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most drop-ins that are read.
const DROP_INS_MAX: usize = 1024;

/// Most faults that are kept.
const FAULTS_MAX: usize = 100;

/// Directories of configuration below the root; what is in an earlier one hides the same name in a
/// later one.
const DIRECTORIES: [&str; 3] = ["etc/warren", "run/warren", "usr/lib/warren"];

/// `Storage=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In memory only.
    Volatile,
    /// On disk once `/var` is there; its directory is made.
    Persistent,
    /// On disk once `/var` is there, if its directory is.
    Auto,
    /// Nowhere.
    None,
}

/// Limits of one of both places, before defaults are worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// `MaxUse=`, bytes.
    pub use_bytes_max: Option<u64>,
    /// `KeepFree=`, bytes.
    pub keep_free_bytes: Option<u64>,
    /// `MaxFileSize=`, bytes.
    pub file_bytes_max: Option<u64>,
    /// `MaxFiles=`; 0: no limit.
    pub files_max: u64,
}

/// To where messages are forwarded, and the least urgent level that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// `ForwardTo…=`.
    pub on: bool,
    /// `MaxLevel…=`, 0 to 7.
    pub level_max: u8,
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `Storage=`.
    pub storage: Storage,
    /// `System…=`: on disk.
    pub system: Room,
    /// `Runtime…=`: in memory.
    pub runtime: Room,
    /// `MaxRetentionSec=`, µs; 0: no limit.
    pub retention_us: u64,
    /// `SyncIntervalSec=`, µs.
    pub sync_us: u64,
    /// `DiskPatienceSec=`, µs; see [`Config::disk_patience`].
    pub disk_patience_us: u64,
    /// `RateLimitIntervalSec=` and `RateLimitBurst=`.
    pub rate: Rate,
    /// `MaxLevelStore=`.
    pub store_level_max: u8,
    /// To the socket of a syslog daemon.
    pub to_syslog: Forward,
    /// To the kernel's log.
    pub to_kmsg: Forward,
    /// To the console.
    pub to_console: Forward,
    /// To the terminals of all users.
    pub to_wall: Forward,
    /// `TTYPath=`.
    pub tty_path: PathBuf,
    /// `ReadKMsg=`; without it, the kernel's log is read where it is this daemon's to read.
    pub read_kmsg: Option<bool>,
    /// `Audit=`; without it, records of the audit system are read where the kernel's log is.
    pub audit: Option<bool>,
    /// `LineMax=`, bytes.
    pub line_bytes_max: usize,
    /// `Mirror=`, bytes; 0: none; see [`Config::mirror_bytes`].
    pub mirror_bytes: Option<u64>,
    /// `[Class NAME]`, by name.
    pub classes: BTreeMap<String, ClassRoom>,
}

/// `SystemMaxFiles=` and `RuntimeMaxFiles=`.
pub const FILES_DEFAULT: u64 = 100;

impl Default for Config {
    fn default() -> Config {
        let room = Room { files_max: FILES_DEFAULT, ..Room::default() };
        let forward = |on, level_max| Forward { on, level_max };
        Config {
            storage: Storage::Auto,
            system: room,
            runtime: room,
            retention_us: 0,
            sync_us: 10_000_000,
            disk_patience_us: 30_000_000,
            rate: Rate { interval_us: 30_000_000, burst: 10_000 },
            store_level_max: 7,
            to_syslog: forward(true, 7),
            to_kmsg: forward(false, 5),
            to_console: forward(false, 6),
            to_wall: forward(true, 0),
            tty_path: PathBuf::from("/dev/console"),
            read_kmsg: None,
            audit: None,
            line_bytes_max: LINE_BYTES_DEFAULT,
            mirror_bytes: None,
            classes: BTreeMap::new(),
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, or the option of the command line.
    pub path: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    /// What it is.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Below this a disk has no time to answer.
const DISK_PATIENCE_MIN: Duration = Duration::from_millis(100);

impl Config {
    /// How long the disk is waited for, with all who send.
    pub fn disk_patience(&self) -> Duration {
        Duration::from_micros(self.disk_patience_us).max(DISK_PATIENCE_MIN)
    }

    /// Takes the text of a file: systemd.syntax(7), sections `[Journal]` and `[Class NAME]`.
    pub fn read(&mut self, path: &str, text: &str, faults: &mut Vec<Fault>) {
        let mut fault = |line, text| put(faults, path, line, text);
        let mut section = Section::Other;
        for (number, line) in joined_lines(text) {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            let taken = match trimmed.strip_prefix('[') {
                Some(name) => self.enter(name.trim_end_matches(']')).map(|entered| {
                    section = entered;
                }),
                None => self.take(&section, trimmed),
            };
            if let Err(text) = taken {
                if trimmed.starts_with('[') {
                    section = Section::Other;
                }
                fault(number, text);
            }
        }
    }

    fn enter(&mut self, name: &str) -> Result<Section, String> {
        if name == "Journal" {
            return Ok(Section::Journal);
        }
        let Some(class) = classes::of_section(name).transpose()? else {
            let foreign = name.starts_with("X-");
            return if foreign {
                Ok(Section::Other)
            } else {
                Err(format!("unknown section [{name}]"))
            };
        };
        let named = self.classes.keys().filter(|name| *name != DEFAULT_CLASS).count();
        let is_new = class != DEFAULT_CLASS && !self.classes.contains_key(class);
        if is_new && named + 1 >= CLASSES_MAX {
            return Err(classes::too_many());
        }
        self.classes.entry(class.to_owned()).or_default();
        Ok(Section::Class(class.to_owned()))
    }

    fn take(&mut self, section: &Section, line: &str) -> Result<(), String> {
        match section {
            Section::Other => Err("is not in the section [Journal] or [Class NAME]".to_owned()),
            Section::Journal => self.set(line),
            Section::Class(class) => {
                let room = self.classes.get_mut(class).expect("made when its section began");
                let (key, value) = assignment(line)?;
                room.set(key, value)
            }
        }
    }

    /// How long messages of a class are kept, µs; `None`: no matter how old they are.
    pub fn retention_of(&self, class: &str) -> Option<u64> {
        let all = (self.retention_us > 0).then_some(self.retention_us);
        self.classes.get(class).map_or(all, |room| room.limits(all).age_max_us)
    }

    /// Every time that messages are kept for, µs.
    pub fn retentions(&self) -> impl Iterator<Item = u64> {
        self.known_classes().filter_map(|class| self.retention_of(class))
    }

    /// The classes that entries may be of.
    pub fn known_classes(&self) -> impl Iterator<Item = &str> {
        self.classes.keys().map(String::as_str).chain([DEFAULT_CLASS])
    }

    /// Takes what a command line sets: `KEY=VALUE`, or `CLASS.KEY=VALUE` for a setting of a class.
    ///
    /// # Errors
    /// What is wrong with it, or that it has no effect here.
    pub fn set_by_hand(&mut self, assignment: &str) -> Result<(), String> {
        let of_class = assignment.split_once('.').filter(|(class, _)| !class.contains('='));
        match of_class {
            None => self.set(assignment),
            Some((class, setting)) => {
                let section = self.enter(&format!("Class {class}"))?;
                self.take(&section, setting)
            }
        }
    }

    /// What the mirror may have, bytes. Without `Mirror=` there is one where programs look for it: of the system's own log,
    /// if that is kept at all.
    pub fn mirror_bytes(&self, is_of_system: bool) -> u64 {
        /// Some 11,000 messages, and 2 MB of memory.
        const DEFAULT: u64 = 8 << 20;
        let default = if is_of_system && self.storage != Storage::None { DEFAULT } else { 0 };
        self.mirror_bytes.unwrap_or(default)
    }

    /// Takes one assignment, `KEY=VALUE`. An empty value sets the default.
    ///
    /// # Errors
    /// What is wrong with it, or that it has no effect here.
    pub fn set(&mut self, assignment: &str) -> Result<(), String> {
        let (key, value) = self::assignment(assignment)?;
        let setting = SETTINGS.iter().find(|setting| setting.name == key);
        let setting = setting.ok_or_else(|| format!("unknown setting {key}="))?;
        if value.is_empty() {
            (setting.reset)(self, &Config::default());
            return Ok(());
        }
        let set = (setting.set)(self, value).map_err(|wanted| format!("{key}={value}: {wanted}"));
        match setting.without_effect {
            Some(why) => set.and(Err(format!("{key}= has no effect here: {why}"))),
            None => set,
        }
    }
}

/// The section that a line stands in.
enum Section {
    Journal,
    Class(String),
    Other,
}

fn assignment(line: &str) -> Result<(&str, &str), String> {
    let (key, value) =
        line.split_once('=').ok_or_else(|| "is not an assignment, KEY=VALUE".to_owned())?;
    Ok((key.trim(), value.trim()))
}

/// What the kernel's command line sets, as assignments: journald.conf(5),
/// `systemd.journald.forward_to_…` and `max_level_…`.
pub fn of_command_line(words: &str) -> Vec<String> {
    const NAMES: [(&str, &str); 9] = [
        ("forward_to_syslog", "ForwardToSyslog"),
        ("forward_to_kmsg", "ForwardToKMsg"),
        ("forward_to_console", "ForwardToConsole"),
        ("forward_to_wall", "ForwardToWall"),
        ("max_level_store", "MaxLevelStore"),
        ("max_level_syslog", "MaxLevelSyslog"),
        ("max_level_kmsg", "MaxLevelKMsg"),
        ("max_level_console", "MaxLevelConsole"),
        ("max_level_wall", "MaxLevelWall"),
    ];
    let one = |word: &str| {
        let word = word.strip_prefix("systemd.journald.")?;
        let (name, value) = word.split_once('=').unwrap_or((word, "yes"));
        let (_, setting) = NAMES.iter().find(|(known, _)| *known == name)?;
        Some(format!("{setting}={value}"))
    };
    words.split_whitespace().filter_map(one).collect()
}

fn put(faults: &mut Vec<Fault>, path: &str, line: usize, text: String) {
    if faults.len() < FAULTS_MAX {
        faults.push(Fault { path: path.to_owned(), line, text });
    }
}

/// Lines with the number of their first; a `\` at the end joins the next one.
fn joined_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, begun)) => *begun = format!("{begun} {}", part.trim_start()),
            None => lines.push((at + 1, part.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// Reads the files of a namespace, or of the default one, below a root.
pub fn load(root: &Path, namespace: Option<&str>) -> (Config, Vec<Fault>) {
    let name = match namespace {
        Some(namespace) => format!("journald@{namespace}.conf"),
        None => "journald.conf".to_owned(),
    };
    let (mut config, mut faults) = (Config::default(), Vec::new());
    let main = root.join(DIRECTORIES[0]).join(&name);
    for path in std::iter::once(main).chain(drop_ins(root, &name)) {
        let shown = path.display().to_string();
        match read_file(&path) {
            Ok(text) => config.read(&shown, &text, &mut faults),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => put(&mut faults, &shown, 0, e.to_string()),
        }
    }
    (config, faults)
}

/// The drop-ins that count, in the order in which they do.
fn drop_ins(root: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = BTreeMap::new();
    for directory in DIRECTORIES.iter().rev() {
        let directory = root.join(directory).join(format!("{name}.d"));
        let Ok(listing) = std::fs::read_dir(directory) else { continue };
        for path in listing.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "conf") {
                found.insert(path.file_name().map(ToOwned::to_owned), path);
            }
        }
    }
    found.into_values().take(DROP_INS_MAX).collect()
}

fn read_file(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    // A mark of the byte order that some editors begin a file with.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    Ok(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        let (mut config, mut faults) = (Config::default(), Vec::new());
        config.read("f", text, &mut faults);
        (config, faults.iter().map(Fault::to_string).collect())
    }

    #[test]
    fn what_is_written_counts() {
        let text = "# a comment\n[Journal]\nStorage=persistent\nSystemMaxUse=2G\nMaxRetentionSec=1week\n\
                    RateLimitIntervalSec=0\nMaxLevelStore=warning\nForwardToWall=no\nLineMax=1\n\
                    TTYPath=\\\n /dev/tty12\nSyncIntervalSec=5min\nSyncIntervalSec=\n";
        let (config, faults) = read(text);
        assert_eq!(faults, Vec::<String>::new());
        let expected = Config {
            storage: Storage::Persistent,
            system: Room { use_bytes_max: Some(2 << 30), ..Config::default().system },
            retention_us: 7 * 86_400_000_000,
            rate: Rate { interval_us: 0, burst: 10_000 },
            store_level_max: 4,
            to_wall: Forward { on: false, level_max: 0 },
            line_bytes_max: 79,
            tty_path: PathBuf::from("/dev/tty12"),
            ..Config::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let text = "Storage=none\n[Journal]\nStorage=often\nNoSuch=1\nSystemMaxUse=lots\nword\n\
                    [Other]\n[X-Mine]\n[Journal]\nSplitMode=none\n";
        let (config, faults) = read(text);
        assert_eq!(config, Config::default());
        let expected = [
            "f:1: is not in the section [Journal] or [Class NAME]",
            "f:3: Storage=often: expected volatile, persistent, auto or none",
            "f:4: unknown setting NoSuch=",
            "f:5: SystemMaxUse=lots: expected a size in bytes, with K, M, G, T, P or E",
            "f:6: is not an assignment, KEY=VALUE",
            "f:7: unknown section [Other]",
            "f:10: SplitMode= has no effect here: all users' messages are in one store",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn classes_have_sections() {
        let text = "[Class web]\nMaxUse=1G\n[Class audit]\nMaxRetentionSec=1d\nMinUse=2M\nNo=1\n\
                    MinUse=x\n[Class web]\nMaxUse=\nMinUse=3\n[Class Bad]\nMaxUse=1\n[Class system]\n";
        let (config, faults) = read(text);
        let audit = ClassRoom {
            retention_us: Some(86_400_000_000),
            use_bytes_min: 2 << 20,
            ..ClassRoom::default()
        };
        let web = ClassRoom { use_bytes_min: 3, ..ClassRoom::default() };
        let expected = [("audit", audit), ("system", ClassRoom::default()), ("web", web)];
        assert_eq!(config.classes, expected.map(|(name, room)| (name.to_owned(), room)).into());
        let expected = [
            "f:6: unknown setting No=",
            "f:7: MinUse=x: expected a size in bytes, with K, M, G, T, P or E",
            "f:11: 'Bad' is not a class name: 1 to 32 of a-z, 0-9 and _",
            "f:12: is not in the section [Journal] or [Class NAME]",
        ];
        assert_eq!(faults, expected);
        let mut by_hand = Config::default();
        for set in ["web.MaxUse=1K", "TTYPath=/dev/tty.x", "web.MinUse=2"] {
            assert_eq!(by_hand.set_by_hand(set), Ok(()), "{set}");
        }
        assert_eq!((by_hand.classes["web"].use_bytes_max, by_hand.classes.len()), (Some(1024), 1));
        assert!(by_hand.set_by_hand("No.MaxUse=1").is_err());
        let many: String = (0..CLASSES_MAX).map(|number| format!("[Class c{number}]\n")).collect();
        let (config, faults) = read(&many);
        assert_eq!((config.classes.len(), faults.len()), (CLASSES_MAX - 1, 1));
        assert_eq!(faults, ["f:16: more than 15 classes"]);
    }

    #[test]
    fn words_of_the_command_line() {
        let words = "quiet systemd.journald.forward_to_console systemd.journald.max_level_wall=err \
                     systemd.journald.other=1 systemd.log_level=debug\n";
        let expected = ["ForwardToConsole=yes", "MaxLevelWall=err"];
        assert_eq!(of_command_line(words), expected);
    }

    #[test]
    fn drop_ins_come_by_name_and_hide_each_other() {
        let root = std::env::temp_dir().join(format!("warren-conf-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            // Some editors begin a file with a mark of its byte order.
            std::fs::write(path, format!("\u{feff}[Journal]\n{text}\n")).expect("a file");
        };
        write("etc/warren/journald.conf", "RateLimitBurst=1\nSystemMaxFiles=1");
        write("usr/lib/warren/journald.conf.d/20-a.conf", "RateLimitBurst=2\nRuntimeMaxFiles=2");
        write("run/warren/journald.conf.d/10-b.conf", "RateLimitBurst=3\nSystemMaxFiles=3");
        write("etc/warren/journald.conf.d/20-a.conf", "RateLimitBurst=4");
        write("etc/warren/journald.conf.d/30-c.txt", "RateLimitBurst=5");
        write("etc/warren/journald@web.conf", "RateLimitBurst=6");
        let (config, faults) = load(&root, None);
        let (of_web, _) = load(&root, Some("web"));
        std::fs::remove_dir_all(&root).expect("it was made");
        assert_eq!(faults, []);
        let numbers = [config.rate.burst, config.system.files_max, config.runtime.files_max];
        assert_eq!(numbers, [4, 3, FILES_DEFAULT]);
        assert_eq!(of_web.rate.burst, 6);
    }
}
