//! What a command does to the boot loader, as steps. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use super::loader::Loader;
use crate::args::HostAction;

/// The file by which GRUB boots Warrener by default.
const GRUB_DEFAULT: &str = "/etc/default/grub.d/warrener.cfg";

/// What an entry of ours adds to the kernel's command line.
const INIT: &str = "init=/usr/lib/warren/warren-init";

/// What the entry of a try adds to that: a kernel that gives up reboots, and the manager knows that it is to be confirmed.
const OF_TRY: &str = "panic=30 warren.try";

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A file is written.
    Write {
        /// Which.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// A file is removed, if it is there.
    Remove {
        /// Which.
        path: PathBuf,
    },
    /// A program is run.
    Run(Vec<String>),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write { path, .. } => write!(f, "write {}", path.display()),
            Step::Remove { path } => write!(f, "remove {}", path.display()),
            Step::Run(command) => write!(f, "run {}", command.join(" ")),
        }
    }
}

/// The steps, in order.
///
/// # Errors
/// In words, where this loader cannot do it safely.
pub fn plan(action: HostAction, loader: &Loader) -> Result<Vec<Step>, String> {
    match loader {
        Loader::Grub { has_script: false, .. } if action != HostAction::Release => {
            Err("/etc/grub.d/11_warrener is not there, which makes the entries: install the package warrener-init".into())
        }
        Loader::Grub { has_entries, cannot_forget, next_is_ours, .. } => {
            grub(action, *has_entries, cannot_forget.as_deref(), *next_is_ours)
        }
        Loader::SystemdBoot { entries, model, adopted, next_is_ours } => {
            systemd_boot(action, entries, model.as_deref(), (*adopted, *next_is_ours))
        }
    }
}

/// What is said when it is done.
pub fn said(action: HostAction, loader: &Loader) -> &'static str {
    match (action, loader) {
        (HostAction::Try, _) => {
            "The next boot is Warrener's, and that one only. Confirm it with `warren host confirm` within 10 minutes, or \
             the machine reboots into what is the default."
        }
        (HostAction::Adopt, Loader::Grub { .. }) => {
            "Warrener is the default from the next boot on. `warren host release` takes that back."
        }
        (HostAction::Adopt, Loader::SystemdBoot { .. }) => {
            "Warrener is the default from the next boot on, with the kernel that runs now: run this again when another \
             one does. `warren host release` takes it back."
        }
        (HostAction::Release, _) => "No boot is Warrener's any more. Nothing else was changed.",
        (HostAction::Status | HostAction::Confirm, _) => "",
    }
}

fn run(words: &[&str]) -> Step {
    Step::Run(words.iter().map(|word| (*word).to_owned()).collect())
}

fn grub(
    action: HostAction,
    has_entries: bool,
    cannot_forget: Option<&str>,
    next_is_ours: bool,
) -> Result<Vec<Step>, String> {
    let update = run(&["update-grub"]);
    Ok(match action {
        HostAction::Try => {
            if let Some(why) = cannot_forget {
                return Err(format!(
                    "{why}: GRUB cannot write there while it boots, so it would boot Warrener each time. Choose the \
                     entry 'Warrener, to be confirmed' in its menu instead"
                ));
            }
            let mut steps = if has_entries { Vec::new() } else { vec![update] };
            steps.push(run(&["grub-reboot", "warrener-try"]));
            steps
        }
        HostAction::Adopt => {
            let text = "# Written by `warren host adopt`; `warren host release` removes it.\nGRUB_DEFAULT=warrener\n";
            vec![Step::Write { path: GRUB_DEFAULT.into(), text: text.to_owned() }, update]
        }
        HostAction::Release => {
            let mut steps = vec![Step::Remove { path: GRUB_DEFAULT.into() }];
            steps.extend(next_is_ours.then(|| run(&["grub-editenv", "-", "unset", "next_entry"])));
            steps.push(update);
            steps
        }
        HostAction::Status | HostAction::Confirm => Vec::new(),
    })
}

fn systemd_boot(
    action: HostAction,
    entries: &Path,
    model: Option<&str>,
    (adopted, next_is_ours): (bool, bool),
) -> Result<Vec<Step>, String> {
    let write = |name: &str, title: &str, more: &str| -> Result<Step, String> {
        let model = model.ok_or_else(|| {
            format!(
                "{}: no entry is of the kernel that runs; there is none to go by",
                entries.display()
            )
        })?;
        Ok(Step::Write { path: entries.join(name), text: entry(model, title, more) })
    };
    Ok(match action {
        HostAction::Try => vec![
            write("warrener-try.conf", "Warrener, to be confirmed", OF_TRY)?,
            run(&["bootctl", "set-oneshot", "warrener-try.conf"]),
        ],
        HostAction::Adopt => vec![
            write("warrener.conf", "Warrener", "")?,
            run(&["bootctl", "set-default", "warrener.conf"]),
        ],
        HostAction::Release => {
            // An empty name takes back what was set; bootctl(1).
            let mut steps = Vec::new();
            steps.extend(adopted.then(|| run(&["bootctl", "set-default", ""])));
            steps.extend(next_is_ours.then(|| run(&["bootctl", "set-oneshot", ""])));
            let files = ["warrener.conf", "warrener-try.conf"];
            steps.extend(files.map(|name| Step::Remove { path: entries.join(name) }));
            steps
        }
        HostAction::Status | HostAction::Confirm => Vec::new(),
    })
}

/// An entry as another one, with a title and a command line of its own; the Boot Loader Specification, type 1.
fn entry(model: &str, title: &str, more: &str) -> String {
    let mut out =
        format!("# Written by `warren host`; `warren host release` removes it.\ntitle {title}\n");
    let mut has_options = false;
    for line in model.lines() {
        let (key, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        match key {
            "title" | "sort-key" | "" => {}
            "options" if !has_options => {
                has_options = true;
                let kept = value.split_whitespace().filter(|word| !word.starts_with("init="));
                let words: Vec<&str> =
                    kept.chain(INIT.split(' ')).chain(more.split_whitespace()).collect();
                out += &format!("options {}\n", words.join(" "));
            }
            key if key.starts_with('#') => {}
            _ => out += &format!("{key} {}\n", value.trim()),
        }
    }
    if !has_options {
        out += &format!("options {}\n", format!("{INIT} {more}").trim());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(action: HostAction, loader: &Loader, expected: &str) {
        let text = match plan(action, loader) {
            Ok(steps) => steps.iter().map(Step::to_string).collect::<Vec<_>>().join("; "),
            Err(why) => format!("no: {why}"),
        };
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn grub() {
        let loader = |has_entries, cannot_forget: Option<&str>| Loader::Grub {
            has_entries,
            has_script: true,
            cannot_forget: cannot_forget.map(str::to_owned),
            adopted: false,
            next_is_ours: cannot_forget.is_none(),
        };
        check(HostAction::Try, &loader(true, None), "run grub-reboot warrener-try");
        check(
            HostAction::Try,
            &loader(false, None),
            "run update-grub; run grub-reboot warrener-try",
        );
        check(
            HostAction::Try,
            &loader(true, Some("/boot/grub lies on lvm")),
            "no: /boot/grub lies on lvm: GRUB",
        );
        let adopted = "write /etc/default/grub.d/warrener.cfg; run update-grub";
        check(HostAction::Adopt, &loader(true, Some("/boot/grub lies on lvm")), adopted);
        let released = "remove /etc/default/grub.d/warrener.cfg; run grub-editenv - unset next_entry; run update-grub";
        check(HostAction::Release, &loader(true, None), released);
        // What somebody else chose for the next boot stays.
        let released = "remove /etc/default/grub.d/warrener.cfg; run update-grub";
        check(HostAction::Release, &loader(true, Some("")), released);
    }

    #[test]
    fn systemd_boot() {
        let loader = |model: Option<&str>| Loader::SystemdBoot {
            entries: "/boot/efi/loader/entries".into(),
            model: model.map(str::to_owned),
            adopted: model.is_some(),
            next_is_ours: model.is_some(),
        };
        let written = "write /boot/efi/loader/entries/warrener-try.conf; run bootctl set-oneshot warrener-try.conf";
        check(HostAction::Try, &loader(Some("linux /vmlinuz")), written);
        check(
            HostAction::Try,
            &loader(None),
            "no: /boot/efi/loader/entries: no entry is of the kernel",
        );
        check(
            HostAction::Release,
            &loader(Some("linux /vmlinuz")),
            "run bootctl set-default ; run bootctl set-oneshot ; remove ",
        );
        check(HostAction::Release, &loader(None), "remove /boot/efi/loader/entries/warrener.conf");
    }

    #[test]
    fn an_entry_is_the_other_one_with_our_init() {
        let model = "# Boot Loader Specification type#1 entry\ntitle      Debian\nsort-key debian\n\
            version    6.1.0\noptions    root=/dev/sda1 init=/sbin/init ro quiet\nlinux      /6.1.0/linux\n\
            initrd     /6.1.0/initrd\n";
        let expected = "# Written by `warren host`; `warren host release` removes it.\ntitle Warrener\n\
            version 6.1.0\noptions root=/dev/sda1 ro quiet init=/usr/lib/warren/warren-init panic=30 warren.try\n\
            linux /6.1.0/linux\ninitrd /6.1.0/initrd\n";
        assert_eq!(entry(model, "Warrener", OF_TRY), expected);
        let without = entry("linux /l\n", "Warrener", "");
        assert!(
            without.ends_with("linux /l\noptions init=/usr/lib/warren/warren-init\n"),
            "{without}"
        );
    }
}
