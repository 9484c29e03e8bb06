//! The id of the machine, and whether it boots for the first time (machine-id(5)).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use warren_sys::mount::{self, MountFlags};
use warren_sys::{text, virtualization};

use crate::command_line::asked_for;
use crate::say::say;

/// What is in the file until the first boot is over.
const UNINITIALIZED: &str = "uninitialized";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// There is no file: a first boot.
    Nothing,
    /// An image that has not been booted: a first boot, too.
    Uninitialized,
    /// An empty file, or one without an id in it.
    Empty,
    /// There may be an id.
    Unreadable(String),
    Id(String),
}

impl Found {
    fn in_text(text: io::Result<String>) -> Found {
        match text {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Ok(text) if text.trim() == UNINITIALIZED => Found::Uninitialized,
            Ok(text) => id(&text).map_or(Found::Empty, Found::Id),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Found::Empty,
            Err(error) => Found::Unreadable(error.to_string()),
        }
    }

    fn is_first_boot(&self) -> bool {
        matches!(self, Found::Nothing | Found::Uninitialized)
    }
}

/// An id as text: 32 hexadecimal digits, also those of a UUID, and not all of them 0.
fn id(text: &str) -> Option<String> {
    let digits: String = text.trim().chars().filter(|&c| c != '-').collect();
    let is_id = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    let is_null = digits.chars().all(|c| c == '0');
    (is_id && !is_null).then(|| digits.to_ascii_lowercase())
}

/// An id for a machine that has none: that of D-Bus, of the container, of the virtual machine, or a random one.
fn new_id(root: &Path, is_host: bool) -> Option<String> {
    let file = |path: &str| id(&text::read(root.join(path)).ok()?);
    let container = || id(&std::env::var("container_uuid").ok()?);
    let of_machine = || {
        let is_virtual = is_host && virtualization::machine().is_some();
        let places = ["sys/class/dmi/id/product_uuid", "sys/hypervisor/uuid"];
        is_virtual.then(|| places.into_iter().find_map(file))?
    };
    let random = || file("proc/sys/kernel/random/uuid");
    file("var/lib/dbus/machine-id").or_else(container).or_else(of_machine).or_else(random)
}

/// Where it all lies.
struct Files {
    file: PathBuf,
    /// The id of this boot, where the file cannot have it yet.
    aside: PathBuf,
    /// Is there during a first boot.
    first_boot: PathBuf,
    /// Whether there is somebody to write the id to the disk when the first boot is over.
    is_committed_later: bool,
}

/// Who does so (systemd-machine-id-commit.service(8)).
const COMMITS: [&str; 2] = [
    "lib/systemd/system/systemd-machine-id-commit.service",
    "usr/lib/systemd/system/systemd-machine-id-commit.service",
];

impl Files {
    fn below(root: &Path) -> Files {
        Files {
            file: root.join("etc/machine-id"),
            aside: root.join("run/machine-id"),
            first_boot: root.join("run/systemd/first-boot"),
            is_committed_later: COMMITS.iter().any(|path| root.join(path).exists()),
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o444)
            .open(&self.file)?;
        file.write_all(format!("{text}\n").as_bytes())?;
        file.sync_all()
    }

    /// The file has this id for this boot only: systemd-machine-id-commit.service(8) writes it to the disk.
    fn cover(&self, id: &str) -> Result<(), String> {
        let covered = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        fs::write(&self.aside, format!("{id}\n")).map_err(|e| covered(&e))?;
        let _ = fs::set_permissions(&self.aside, fs::Permissions::from_mode(0o444));
        let (from, to) = (self.aside.to_string_lossy(), self.file.to_string_lossy());
        let bound = mount::mount(&from, &to, "", MountFlags::BIND, "");
        let _ = fs::remove_file(&self.aside);
        bound.map_err(|e| covered(&e))
    }

    /// Has the file say this id. On a first boot it does so for good only when that is over: one that was cut off is
    /// a first boot again. Where nobody would write it then, it is written now: else all boots would be first ones.
    fn have(&self, id: &str, is_first_boot: bool) -> Result<(), String> {
        if is_first_boot && self.is_committed_later {
            let is_marked = self.write(UNINITIALIZED).is_ok();
            // A container may mount nothing.
            return self.cover(id).or_else(|error| match is_marked {
                true => self.write(id).map_err(|_| error),
                false => Err(error),
            });
        }
        self.write(id).or_else(|_| self.cover(id))
    }
}

/// Sees to it that the machine has an id before anybody asks for it, and has it known if it boots for the first time.
pub fn establish(is_host: bool, command_line: &str) {
    let root = Path::new("/");
    let files = Files::below(root);
    let found = Found::in_text(fs::read_to_string(&files.file));
    let asked = asked_for(command_line, "systemd.machine_id").and_then(id);
    let is_first_boot = match asked_for(command_line, "systemd.condition-first-boot") {
        Some("1" | "yes" | "y" | "true" | "t" | "on") => true,
        Some("0" | "no" | "n" | "false" | "f" | "off") => false,
        _ => found.is_first_boot(),
    };
    if let Found::Unreadable(error) = &found {
        return say(&format!("{}: {error}", files.file.display()));
    }
    if is_first_boot {
        let made = files.first_boot.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(error) = made.and_then(|()| fs::write(&files.first_boot, "")) {
            say(&format!("{}: {error}", files.first_boot.display()));
        }
    }
    let id = match (asked, &found) {
        (Some(asked), Found::Id(id)) if asked == *id => return,
        (None, Found::Id(_)) => return,
        (Some(asked), _) => Some(asked),
        (None, _) => new_id(root, is_host),
    };
    let Some(id) = id else {
        return say("the machine has no machine ID and none can be generated");
    };
    if let Err(error) = files.have(&id, found.is_first_boot()) {
        say(&format!("the machine has no machine ID: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_file_has_an_id_or_says_that_this_is_a_first_boot() {
        let found = |text: &str| Found::in_text(Ok(text.to_owned()));
        assert_eq!(found(&format!("{ID}\n")), Found::Id(ID.to_owned()));
        assert_eq!(found("01234567-89AB-cdef-0123-456789abcdef"), Found::Id(ID.to_owned()));
        assert_eq!(found("uninitialized\n"), Found::Uninitialized);
        let nothing = "0".repeat(32);
        for text in ["", "\n", "0123", nothing.as_str(), "g123456789abcdef0123456789abcdef"] {
            assert_eq!(found(text), Found::Empty, "{text}");
        }
        assert_eq!(Found::in_text(Err(io::ErrorKind::NotFound.into())), Found::Nothing);
        // An id that cannot be read now is not to be written over.
        let unreadable = Found::in_text(Err(io::ErrorKind::PermissionDenied.into()));
        assert!(matches!(unreadable, Found::Unreadable(_)));
        assert_eq!(Found::in_text(Err(io::ErrorKind::InvalidData.into())), Found::Empty);
        assert!(Found::Nothing.is_first_boot() && Found::Uninitialized.is_first_boot());
        assert!(!Found::Empty.is_first_boot());
    }

    #[test]
    fn the_last_word_of_an_option_counts() {
        let line = "quiet systemd.machine_id=a systemd.machine_ids=c systemd.machine_id=b\n";
        assert_eq!(asked_for(line, "systemd.machine_id"), Some("b"));
        assert_eq!(asked_for(line, "systemd.condition-first-boot"), None);
    }

    #[test]
    fn what_others_know_the_machine_by_is_its_id() {
        let root = std::env::temp_dir().join(format!("warren-init-id-{}", std::process::id()));
        for directory in ["etc", "var/lib/dbus", "proc/sys/kernel/random"] {
            fs::create_dir_all(root.join(directory)).expect("directories can be made");
        }
        let random = "fedcba98-7654-3210-fedc-ba9876543210\n";
        fs::write(root.join("proc/sys/kernel/random/uuid"), random).expect("a file");
        assert_eq!(new_id(&root, false).as_deref(), Some("fedcba9876543210fedcba9876543210"));
        fs::write(root.join("var/lib/dbus/machine-id"), format!("{ID}\n")).expect("a file");
        assert_eq!(new_id(&root, false).as_deref(), Some(ID));
        let files = Files::below(&root);
        // A first boot, but nobody would make an end of it.
        files.have(ID, true).expect("it can be written");
        assert_eq!(fs::read_to_string(&files.file).expect("a file"), format!("{ID}\n"));
        fs::remove_dir_all(&root).expect("it is ours");
    }
}
