//! Which boot loader the machine has, and how it stands.
//! Must not: change anything.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

/// Where to look.
#[derive(Debug)]
pub struct Tools {
    /// The root file system; programs are those of `PATH`.
    pub root: PathBuf,
}

/// A boot loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loader {
    /// GRUB 2.
    Grub {
        /// grub.cfg has both of our entries.
        has_entries: bool,
        /// What makes them is there.
        has_script: bool,
        /// Why GRUB cannot forget a choice at the boot; none if it can.
        cannot_forget: Option<String>,
        /// Warrener is the default.
        adopted: bool,
        /// Our entry is the one for the next boot.
        next_is_ours: bool,
    },
    /// systemd-boot.
    SystemdBoot {
        /// Where entries lie.
        entries: PathBuf,
        /// The entry of the kernel that runs, to be made ours of; none if there is none.
        model: Option<String>,
        /// Warrener is the default.
        adopted: bool,
        /// Our entry is the one for the next boot.
        next_is_ours: bool,
    },
}

impl fmt::Display for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loader::Grub { .. } => f.write_str("GRUB")?,
            Loader::SystemdBoot { entries, .. } => {
                write!(f, "systemd-boot, with entries in {}", entries.display())?;
            }
        }
        let (Loader::Grub { adopted, next_is_ours, .. }
        | Loader::SystemdBoot { adopted, next_is_ours, .. }) = self;
        f.write_str(match adopted {
            true => "; boots Warrener by default",
            false => "; does not boot Warrener by default",
        })?;
        f.write_str(if *next_is_ours { ", and at the next boot" } else { "" })
    }
}

/// Finds it.
///
/// # Errors
/// Where there is neither: it says what to do by hand.
pub fn find(tools: &Tools) -> Result<Loader> {
    if let Some(directory) = systemd_boot(tools) {
        return Ok(directory);
    }
    let config = tools.root.join("boot/grub/grub.cfg");
    if let Ok(text) = fs::read_to_string(&config)
        && runs("grub-reboot", &["--version"]).is_some()
    {
        return Ok(Loader::Grub {
            has_entries: ["'warrener'", "'warrener-try'"].iter().all(|id| text.contains(id)),
            has_script: tools.root.join("etc/grub.d/11_warrener").exists(),
            cannot_forget: cannot_forget(tools),
            adopted: tools.root.join("etc/default/grub.d/warrener.cfg").exists(),
            next_is_ours: runs("grub-editenv", &["-", "list"])
                .is_some_and(|list| list.lines().any(|line| line == "next_entry=warrener-try")),
        });
    }
    bail!(
        "no boot loader that can be asked: neither GRUB (grub-reboot and /boot/grub/grub.cfg) nor systemd-boot \
         (bootctl is-installed). Put init=/usr/lib/warren/warren-init on the kernel's command line by hand"
    )
}

/// Standard output of a program that succeeds.
fn runs(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// GRUB writes to its environment through the blocks of a plain file alone: where /boot/grub lies elsewhere it boots a
/// chosen entry again and again; grub-reboot(8), GRUB's manual ("Environment block").
fn cannot_forget(tools: &Tools) -> Option<String> {
    let directory = tools.root.join("boot/grub").display().to_string();
    let below = runs("grub-probe", &["--target=abstraction", &directory]).unwrap_or_default();
    if !below.is_empty() {
        return Some(format!("/boot/grub lies on {below}"));
    }
    let fs = runs("grub-probe", &["--target=fs", &directory]).unwrap_or_default();
    ["btrfs", "zfs", "f2fs"].contains(&&*fs).then(|| format!("/boot/grub lies on {fs}"))
}

fn systemd_boot(tools: &Tools) -> Option<Loader> {
    runs("bootctl", &["--quiet", "is-installed"])?;
    let boot = runs("bootctl", &["--print-boot-path"])?;
    let entries = Path::new(&boot).join("loader/entries");
    let model = model(&super::below(&tools.root, &entries), &release(tools));
    let is_ours =
        |variable: &str| chosen(tools, variable).is_some_and(|entry| entry.starts_with("warrener"));
    let (adopted, next_is_ours) = (is_ours("LoaderEntryDefault"), is_ours("LoaderEntryOneShot"));
    Some(Loader::SystemdBoot { entries, model, adopted, next_is_ours })
}

/// The entry that a variable of the firmware names; none if it is not set. The Boot Loader Interface has the names;
/// the file has four bytes of attributes before the UTF-16 (the kernel's efivarfs.rst).
fn chosen(tools: &Tools, variable: &str) -> Option<String> {
    let file = format!("{variable}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f");
    let bytes = fs::read(tools.root.join("sys/firmware/efi/efivars").join(file)).ok()?;
    let units = bytes.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let name: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16(&name).ok()
}

fn release(tools: &Tools) -> String {
    let text = fs::read_to_string(tools.root.join("proc/sys/kernel/osrelease"));
    text.unwrap_or_default().trim().to_owned()
}

/// The entry of that kernel that is not ours; the last by its name where there are several.
fn model(entries: &Path, release: &str) -> Option<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(entries).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let is_other = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".conf") && !name.starts_with("warrener")
    };
    let mut texts = files.iter().filter(is_other).filter_map(|path| fs::read_to_string(path).ok());
    texts.rfind(|text| text.contains("\nlinux") && text.contains(release))
}
