//! A Debian host under QEMU, with the services that people log in by, that boots any init from one disk.
//!
//! The disk is the root file system of `LOGINS=1 cargo xtask lab setup` with our programs, Debian's kernel and what
//! `logins/prepare.sh` adds. Boots change nothing of it: what they write is thrown away. The machine has three serial
//! ports: its console, one for its report, and a terminal at which [`Host::boot`] has somebody type. Needs root, a
//! release build (`make build`), and Debian's qemu-system-x86, linux-image-cloud-amd64, busybox-static, cpio,
//! e2fsprogs, openssh-client and kmod.
//! Must not: know what the machine is booted for.
//! Runs on the main thread of xtask; the one who types has a thread.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::root;
use crate::vm::{self, Boot, Kernel};
use crate::{bench, lab};

/// The packages of ours that it has.
const PACKAGES: [&str; 2] = ["warrener", "warrener-journal"];

/// What a machine reported, in the directory of its side.
pub(crate) const REPORT: &str = "report.txt";

const MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "ext4"];

const COMMANDS: [&str; 6] = ["sh", "cat", "mount", "modprobe", "switch_root", "echo"];

/// Room on the disk, most of which is never written.
const DISK: &str = "4G";

/// From the initial RAM file system to the init that the kernel's command line names.
const INIT: &str = "\
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
modprobe -a MODULES
mount -t ext4 /dev/vda /new
for word in $(cat /proc/cmdline); do
    case $word in init=*) init=${word#init=} ;; esac
done
for at in proc sys dev; do mount --move /$at /new/$at; done
exec switch_root /new $init
";

/// What it boots with: the name of what it leaves, and the init.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    /// A directory of this name has its console, report and terminal.
    pub name: &'static str,
    /// The program that becomes process 1.
    pub init: &'static str,
}

/// Both, systemd first.
pub(crate) const SIDES: [Side; 2] = [
    Side { name: "systemd", init: lab::SYSTEMD },
    Side { name: "warrener", init: "/usr/lib/warren/warren-init" },
];

/// A text at which somebody who sits at the terminal types, and what.
pub(crate) type Typing = (&'static str, &'static str);

/// What a boot is given.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// It is ended after so long, s.
    pub seconds_max: u32,
    /// Memory of the machine, MiB.
    pub memory_mib: u32,
}

/// A disk and what boots it.
pub(crate) struct Host {
    directory: PathBuf,
    kernel: Kernel,
    archive: PathBuf,
    disk: PathBuf,
}

impl Host {
    /// Makes the disk below `target/NAME`, prepared with these arguments of `logins/prepare.sh`.
    pub(crate) fn make(name: &str, prepare: &[&str]) -> Result<Host> {
        let rootfs = lab::directory().join(lab::HOST);
        ensure!(
            rootfs.is_dir(),
            "no {}: LOGINS=1 cargo xtask lab setup makes it, as root",
            rootfs.display()
        );
        let kernel = vm::kernel()?;
        let directory = root().join("target").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
        let tree = directory.join("root");
        vm::quietly(Command::new("cp").arg("-a").arg(&rootfs).arg(&tree))?;
        let mut stage = Command::new("sh");
        stage.arg(root().join("scripts/stage.sh")).arg(&tree).arg("/usr").arg(bench::programs()?);
        vm::quietly(stage.args(PACKAGES).env("SYMBOLS", "no"))?;
        let modules = tree.join("usr/lib/modules");
        fs::create_dir_all(&modules)?;
        vm::quietly(Command::new("cp").arg("-a").arg(&kernel.modules).arg(&modules))?;
        let script = root().join("crates/xtask/logins/prepare.sh");
        vm::quietly(Command::new("sh").arg(script).arg(&tree).args(prepare))?;
        let disk = directory.join("disk.img");
        vm::quietly(Command::new("truncate").args(["-s", DISK]).arg(&disk))?;
        vm::quietly(Command::new("mke2fs").args(["-q", "-t", "ext4", "-d"]).arg(&tree).arg(&disk))?;
        fs::remove_dir_all(&tree)?;
        let archive = make_archive(&directory, &kernel)?;
        Ok(Host { directory, kernel, archive, disk })
    }

    /// Boots with this init and waits until it powers off; its report.
    pub(crate) fn boot(&self, side: Side, limits: Limits, typing: &[Typing]) -> Result<String> {
        let directory = self.directory.join(side.name);
        fs::create_dir_all(&directory)?;
        let (console, report) = (directory.join("console.log"), directory.join(REPORT));
        let socket = directory.join("terminal.sock");
        let boot = Boot {
            seconds_max: limits.seconds_max,
            kernel: &self.kernel.image,
            archive: &self.archive,
            console: &console,
        };
        let memory = limits.memory_mib.to_string();
        let drive = format!("file={},format=raw,if=virtio,snapshot=on", self.disk.display());
        let to_report = format!("file:{}", report.display());
        let terminal = format!("socket,id=terminal,path={},server=on,wait=off", socket.display());
        let machine = [
            ["-accel", "tcg,thread=multi"],
            ["-smp", "2"],
            ["-m", &memory],
            ["-drive", &drive],
            ["-serial", &to_report],
            ["-chardev", &terminal],
            ["-serial", "chardev:terminal"],
        ];
        // A machine that gets no processor for a moment would find that its timer does not work.
        let option = format!("no_timer_check rdinit=/init init={}", side.init);
        std::thread::scope(|scope| {
            let typist = scope.spawn(|| sit_at(&socket, typing, &directory.join("terminal.log")));
            let ended = boot.until_off(machine.as_flattened(), &option);
            match typist.join() {
                Ok(Ok(())) => {}
                Ok(Err(why)) => println!("  {}: {why:#}", side.name),
                Err(_) => bail!("who types panicked"),
            }
            ended
        })?;
        let said = fs::read(&report).with_context(|| format!("{}", report.display()))?;
        Ok(text(&said))
    }
}

/// A report as text.
pub(crate) fn text(report: &[u8]) -> String {
    String::from_utf8_lossy(report).replace('\r', "")
}

fn make_archive(directory: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let tree = directory.join("tree");
    for below in ["dev", "proc", "sys", "new"] {
        fs::create_dir_all(tree.join(below))?;
    }
    vm::add_busybox(&tree, &COMMANDS)?;
    fs::write(tree.join("init"), INIT.replace("MODULES", &MODULES.join(" ")))?;
    vm::quietly(Command::new("chmod").arg("755").arg(tree.join("init")))?;
    vm::copy_modules(kernel, &tree, &MODULES)?;
    vm::pack(directory, &tree)
}

/// Sits at the terminal until the machine ends: types what is to be typed, and writes down what is shown.
fn sit_at(socket: &Path, typing: &[Typing], log: &Path) -> Result<()> {
    let mut terminal =
        warren_testkit::wait_for("QEMU listens", || UnixStream::connect(socket).ok());
    let mut log = fs::File::create(log)?;
    let (mut shown, mut seen) = (Vec::new(), 0);
    let mut left = typing.iter();
    let mut next = left.next();
    let mut buffer = [0; 4096];
    loop {
        let count = terminal.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        log.write_all(&buffer[..count])?;
        shown.extend_from_slice(&buffer[..count]);
        while let Some((text, answer)) = next
            && let Some(end) = end_of(&shown, seen, text)
        {
            seen = end;
            terminal.write_all(answer.as_bytes())?;
            next = left.next();
        }
    }
    match next {
        None => Ok(()),
        Some((text, _)) => bail!("the terminal never showed {text:?}"),
    }
}

/// Where the text ends that was shown after the first `seen` bytes.
fn end_of(shown: &[u8], seen: usize, text: &str) -> Option<usize> {
    let rest = shown.get(seen..)?;
    let at = rest.windows(text.len()).position(|bytes| bytes == text.as_bytes())?;
    Some(seen + at + text.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_was_shown_before_is_no_prompt() {
        let shown = b"login: a\nlogin: ";
        assert_eq!(end_of(shown, 0, "login: "), Some(7));
        assert_eq!(end_of(shown, 7, "login: "), Some(16));
        assert_eq!(end_of(shown, 16, "login: "), None);
        assert_eq!(end_of(shown, 99, "login: "), None);
    }

    #[test]
    fn each_prompt_is_answered_once_and_in_its_order() {
        let scratch = warren_testkit::Scratch::new("xtask-terminal");
        let (socket, log) = (scratch.path("t"), scratch.path("log"));
        let listener = UnixListener::bind(&socket).expect("bound");
        let typing = [("login: ", "a\r"), ("word: ", "b\r"), ("$ ", "exit\r")];
        let said = std::thread::scope(|scope| {
            let typist = scope.spawn(|| sit_at(&socket, &typing, &log));
            let (mut machine, _) = listener.accept().expect("it sits down");
            let mut heard = String::new();
            machine.write_all(b"login: ").expect("shown");
            let mut answer = [0; 2];
            machine.read_exact(&mut answer).expect("typed");
            heard.push_str(&String::from_utf8_lossy(&answer));
            machine.write_all(b"login: word: ").expect("shown");
            machine.read_exact(&mut answer).expect("typed");
            heard.push_str(&String::from_utf8_lossy(&answer));
            drop(machine);
            (heard, typist.join().expect("no panic").map_err(|why| why.to_string()))
        });
        let never = "the terminal never showed \"$ \"".to_owned();
        assert_eq!(said, ("a\rb\r".to_owned(), Err(never)));
        assert_eq!(fs::read(&log).expect("written"), b"login: login: word: ");
    }
}
