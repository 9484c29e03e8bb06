//! `warren host` with boot loaders that only write down what they are asked for.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use warren_testkit::Scratch;

/// A machine whose programs append their names and arguments to `done`.
struct Host(Scratch);

impl Host {
    fn new(name: &str, programs: &[(&str, &str)]) -> Host {
        let host = Host(Scratch::new(name));
        for (program, script) in programs {
            let text = format!(
                "#!/bin/sh\necho \"${{0##*/}} $*\" >> {}\n{script}\n",
                host.0.text_path("done")
            );
            let path = host.0.write(&format!("bin/{program}"), &text);
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
                .expect("a file of ours");
        }
        host.0.write("root/proc/cmdline", "root=/dev/sda1 ro quiet\n");
        host.0.write("root/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
        host.0.write("root/usr/lib/warren/warren-init", "");
        let wants = "root/usr/lib/warren/system/sysinit.target.wants";
        host.0.write(&format!("{wants}/warren-host-fallback.timer"), "");
        std::fs::create_dir_all(host.0.path("root/run/warren")).expect("a scratch directory");
        host
    }

    fn grub(name: &str) -> Host {
        let programs = [
            ("grub-reboot", ""),
            ("update-grub", ""),
            ("grub-editenv", "if [ $2 = list ]; then echo next_entry=warrener-try; fi"),
            ("grub-probe", ""),
        ];
        let host = Host::new(name, &programs);
        host.0.write("root/boot/grub/grub.cfg", "menuentry 'Debian' {}\n");
        host.0.write("root/etc/grub.d/11_warrener", "");
        host
    }

    /// Whether it succeeds, and what it says.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_warren"))
            .args(["host", "--root", &self.0.text_path("root")])
            .args(arguments)
            .env("PATH", format!("{}:/bin", self.0.text_path("bin")))
            .output()
            .expect("cargo built it");
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }

    /// What programs were asked for since this was looked at last, but for questions.
    fn done(&self) -> String {
        let text = self.read("done");
        let _ = std::fs::remove_file(self.0.path("done"));
        let is_question = |line: &&str| {
            ["grub-reboot --version", "grub-probe", "grub-editenv - list", "bootctl --"]
                .iter()
                .any(|head| line.starts_with(head))
        };
        text.lines().filter(|line| !is_question(line)).collect::<Vec<_>>().join("; ")
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path(path)).unwrap_or_default()
    }
}

#[test]
fn grub_boots_it_once_then_always_then_never() {
    let host = Host::grub("host-grub");
    let (_, said) = host.run(&["try", "--dry-run"]);
    assert_eq!(
        (said.as_str(), &*host.done()),
        ("run update-grub\nrun grub-reboot warrener-try\n", "")
    );
    assert!(host.run(&["try"]).0);
    assert_eq!(host.done(), "update-grub ; grub-reboot warrener-try");
    host.0.write("root/boot/grub/grub.cfg", "--id 'warrener'\n--id 'warrener-try'\n");
    assert!(host.run(&["try"]).0);
    assert_eq!(host.done(), "grub-reboot warrener-try");
    assert!(host.run(&["adopt"]).0);
    assert_eq!(host.done(), "update-grub ");
    assert!(
        host.read("root/etc/default/grub.d/warrener.cfg").ends_with("\nGRUB_DEFAULT=warrener\n")
    );
    assert!(host.run(&[]).1.contains("GRUB; boots Warrener by default, and at"));
    host.done();
    assert!(host.run(&["release"]).0 && host.run(&["release"]).0, "twice is no fault");
    let released = "grub-editenv - unset next_entry; update-grub ";
    assert_eq!(host.done(), format!("{released}; {released}"));
    assert!(!host.0.path("root/etc/default/grub.d/warrener.cfg").exists());
}

#[test]
fn grub_that_cannot_forget_is_not_asked_to_try() {
    let host = Host::grub("host-lvm");
    host.0.write("bin/grub-probe", "#!/bin/sh\necho lvm\n");
    let (is_well, said) = host.run(&["try"]);
    assert!(!is_well && said.contains("/boot/grub lies on lvm"), "{said}");
    assert_eq!(host.done(), "");
}

#[test]
fn nothing_is_chosen_that_is_not_there() {
    let host = Host::grub("host-missing");
    let check = |file: &str, expected: &str| {
        std::fs::remove_file(host.0.path(&format!("root/{file}"))).expect("it was made");
        for action in ["try", "adopt"] {
            let (is_well, said) = host.run(&[action]);
            assert!(!is_well && said.contains(expected), "{said}");
        }
        assert_eq!(host.done(), "");
    };
    check("etc/grub.d/11_warrener", "install the package warrener-init");
    let wants = "usr/lib/warren/system/sysinit.target.wants";
    check(
        &format!("{wants}/warren-host-fallback.timer"),
        "warren-host-fallback.timer is not there",
    );
    check("usr/lib/warren/warren-init", "warren-init is not there");
    assert!(host.run(&["release"]).0, "what was chosen can be taken back");
}

#[test]
fn a_step_that_fails_is_said_and_ends_it() {
    let host = Host::grub("host-fails");
    host.0.write("bin/update-grub", "#!/bin/sh\necho no space >&2\nexit 1\n");
    let (is_well, said) = host.run(&["try"]);
    assert!(!is_well && said.contains("update-grub failed: no space"), "{said}");
    assert!(!host.done().contains("warrener-try"));
}

#[test]
fn systemd_boot_gets_entries_like_the_one_of_the_kernel_that_runs() {
    let host = Host::new("host-sd-boot", &[]);
    let boot = "case $1 in --print-boot-path) echo /efi;; esac";
    let text =
        format!("#!/bin/sh\necho \"${{0##*/}} $*\" >> {}\n{boot}\n", host.0.text_path("done"));
    let path = host.0.write("bin/bootctl", &text);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("a file of ours");
    let (is_well, said) = host.run(&["try"]);
    assert!(!is_well && said.contains("/efi/loader/entries: no entry is of the kernel"), "{said}");
    for release in ["6.1.0-9-amd64", "6.1.0-8-amd64"] {
        let text = format!("title Debian\noptions ro\nlinux /{release}/linux\n");
        host.0.write(&format!("root/efi/loader/entries/{release}.conf"), &text);
    }
    host.done();
    assert!(host.run(&["try"]).0);
    assert_eq!(host.done(), "bootctl set-oneshot warrener-try.conf");
    let entry = host.read("root/efi/loader/entries/warrener-try.conf");
    let expected = "title Warrener, to be confirmed\n\
        options ro init=/usr/lib/warren/warren-init panic=30 warren.try\nlinux /6.1.0-9-amd64/linux\n";
    assert!(entry.ends_with(expected), "{entry}");
    assert!(host.run(&["adopt"]).0);
    assert!(host.read("root/efi/loader/entries/warrener.conf").contains("options ro init="));
    assert_eq!(host.done(), "bootctl set-default warrener.conf");
    // What the administrator chose stays; what is ours is taken back.
    let choose = |variable: &str, entry: &str| {
        let text = [0, 7].into_iter().chain(entry.encode_utf16()).chain([0]);
        let bytes: Vec<u8> = text.flat_map(u16::to_le_bytes).collect();
        let directory = host.0.path("root/sys/firmware/efi/efivars");
        std::fs::create_dir_all(&directory).expect("a scratch directory");
        let file = format!("{variable}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f");
        std::fs::write(directory.join(file), bytes).expect("a scratch directory");
    };
    choose("LoaderEntryDefault", "warrener.conf");
    choose("LoaderEntryOneShot", "memtest.conf");
    assert!(host.run(&["status"]).1.contains("entries; boots Warrener by default\n"));
    assert!(host.run(&["release"]).0);
    assert_eq!(host.done(), "bootctl set-default ");
    assert!(!Path::new(&host.0.path("root/efi/loader/entries/warrener.conf")).exists());
}

#[test]
fn without_a_boot_loader_it_says_what_to_do() {
    let host = Host::new("host-none", &[]);
    for action in ["try", "adopt", "release"] {
        let (is_well, said) = host.run(&[action]);
        assert!(!is_well && said.contains("init=/usr/lib/warren/warren-init"), "{said}");
    }
    assert!(host.run(&["status"]).1.contains("neither GRUB"));
}

#[test]
fn a_try_is_confirmed_and_nothing_else_is() {
    let host = Host::new("host-confirm", &[]);
    let (is_well, said) = host.run(&["confirm"]);
    assert!(!is_well && said.contains("not started by `warren host try`"), "{said}");
    host.0.write("root/proc/cmdline", "ro warren.try\n");
    assert!(host.run(&["status"]).1.contains("not confirmed"));
    assert!(host.run(&["confirm"]).0 && host.0.path("root/run/warren/host-confirmed").exists());
    assert!(host.run(&["status"]).1.contains("a try, confirmed"));
}
