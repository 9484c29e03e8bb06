//! `cargo xtask vm tests`: tests of this checkout in a machine of their own, on Debian's kernel (6.1 in Debian 12) and
//! with all controllers of control groups, which the machine at hand may not have.
//!
//! The machine sees all files of this one by virtiofs, read-only, below an overlay in memory: whatever tests do ends with
//! it. It is slow (QEMU without hardware help), so tests that bound a time may fail there that hold elsewhere: look
//! at what they say. Needs root and Debian's qemu-system-x86, qemu-system-common (virtiofsd), linux-image-cloud-amd64,
//! busybox-static and cpio; without them it says what is missing and ends with an error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::{self, root};
use crate::vm::{self, copy_modules};

/// How long the machine may run when nothing is said, seconds.
pub const SECONDS: u32 = 1800;

const MODULES: [&str; 7] = ["virtio_pci", "virtiofs", "overlay", "fuse", "loop", "ext4", "dummy"];

const COMMANDS: [&str; 9] =
    ["sh", "mount", "modprobe", "mkdir", "switch_root", "echo", "cat", "sleep", "poweroff"];

const VIRTIOFSD: &str = "/usr/lib/qemu/virtiofsd";

/// Memory of the machine, MiB, and how much of that its changed files may take.
const MEMORY_MIB: u32 = 4096;
const FILES_MIB: u32 = 2048;

/// Before the tests: our files, with room for what is changed.
const INIT: &str = "\
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
modprobe -a MODULES
mount -t virtiofs -o ro host /host
mount -t tmpfs -o size=FILESm top /top; mkdir /top/upper /top/work
mount -t overlay -o lowerdir=/host,upperdir=/top/upper,workdir=/top/work over /new
for at in proc sys dev; do mount --move /$at /new/$at; done
for at in run tmp dev/shm; do mkdir -p /new/$at; mount -t tmpfs tmpfs /new/$at; done
mkdir -p /new/dev/pts; mount -t devpts devpts /new/dev/pts
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t securityfs securityfs /new/sys/kernel/security
cat /tests.sh > /new/run/tests.sh
exec switch_root /new /bin/sh /run/tests.sh
";

/// A program of tests.
struct Program {
    package: String,
    /// `lib`, or a file of `tests/`.
    name: String,
    /// Where its package is: tests run there.
    directory: PathBuf,
    path: PathBuf,
    /// Tests to run; all if there are none.
    only: Vec<String>,
}

/// Builds these tests, runs them in the machine, and fails as they do.
pub fn run(what: &[&str], seconds: u32) -> Result<()> {
    ensure!(!what.is_empty(), "which tests? PACKAGE, PACKAGE/TEST or PACKAGE/TEST/NAME");
    ensure!(Path::new(VIRTIOFSD).exists(), "no {VIRTIOFSD}: apt-get install qemu-system-common");
    let kernel = vm::kernel()?;
    let programs = programs(what)?;
    let directory = root().join("target/vm-tests");
    let _ = fs::remove_dir_all(&directory);
    let tree = directory.join("tree");
    for below in ["dev", "proc", "sys", "run", "host", "top", "new"] {
        fs::create_dir_all(tree.join(below))?;
    }
    vm::add_busybox(&tree, &COMMANDS)?;
    let init = INIT.replace("MODULES", &MODULES.join(" ")).replace("FILES", &FILES_MIB.to_string());
    fs::write(tree.join("init"), init)?;
    vm::quietly(Command::new("chmod").arg("755").arg(tree.join("init")))?;
    fs::write(tree.join("tests.sh"), script(&programs))?;
    copy_modules(&kernel, &tree, &MODULES)?;
    let archive = vm::pack(&directory, &tree)?;
    let console = directory.join("console.log");
    boot(&kernel.image, &archive, &directory, &console, seconds)?;
    let said = String::from_utf8_lossy(&fs::read(&console)?).replace('\r', "");
    judge(&programs, &said).with_context(|| format!("see {}", console.display()))
}

/// The programs of tests that were asked for, built.
fn programs(what: &[&str]) -> Result<Vec<Program>> {
    let mut asked: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for word in what {
        let mut parts = word.splitn(3, '/');
        let package = parts.next().unwrap_or_default();
        let only = asked.entry((package, parts.next().unwrap_or_default())).or_default();
        only.extend(parts.next().map(str::to_owned));
    }
    // Tests of whole programs find them in the target directory, and have cargo build them, which the machine does not.
    command::cargo(&["build", "--locked", "--workspace", "--bins"])?;
    command::cargo(&["build", "--locked", "--package", "warren-manager", "--examples"])?;
    let mut all = Vec::new();
    for ((package, name), only) in asked {
        let kind = match name {
            "" => vec![],
            "lib" => vec!["--lib"],
            name => vec!["--test", name],
        };
        let words = ["test", "--locked", "--no-run", "--message-format=json", "-p", package];
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let text = command::output(&cargo, &[&words, &kind[..]].concat())?;
        let found = text.lines().filter_map(|line| program(line, package, &only));
        let before = all.len();
        all.extend(found);
        ensure!(all.len() > before, "{package} has no tests {name:?}");
    }
    Ok(all)
}

/// The program that a message of cargo's tells of, if it is one of tests of the package.
fn program(line: &str, package: &str, only: &[String]) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "lib" => "lib",
        _ => target["name"].as_str()?,
    };
    is_test.then_some(())?;
    Some(Program {
        package: package.to_owned(),
        name: name.to_owned(),
        directory: manifest.parent()?.to_owned(),
        path: message["executable"].as_str()?.into(),
        only: only.to_vec(),
    })
}

/// What the machine runs.
fn script(programs: &[Program]) -> String {
    let mut out = "export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root\n\
                   export RUST_BACKTRACE=1 WARREN_NOT_RUN=/run/not-run WARREN_OWN_KERNEL=1 CARGO=/bin/true\n\
                   exec >/dev/console 2>&1 </dev/null\n\
                   echo 1 >/proc/sys/kernel/printk; ip link set lo up\n\
                   for c in cpu cpuset io memory pids; do echo +$c >/sys/fs/cgroup/cgroup.subtree_control; done\n\
                   echo VM kernel $(uname -r), controllers $(cat /sys/fs/cgroup/cgroup.controllers)\n"
        .to_owned();
    for program in programs {
        let only: String = program.only.iter().map(|name| format!(" '{name}'")).collect();
        let (package, name) = (&program.package, &program.name);
        let (directory, path) = (program.directory.display(), program.path.display());
        writeln!(
            out,
            "cd {directory}; echo VM begin {package}/{name}\n\
             CARGO_PKG_NAME={package} CARGO_MANIFEST_DIR={directory} {path} --test-threads=2{only}\n\
             echo VM end {package}/{name} $?"
        )
        .expect("a string grows");
    }
    out.push_str("[ -e /run/not-run ] && sed 's/^/VM not run /' /run/not-run\necho VM done\n");
    out.push_str("echo o >/proc/sysrq-trigger; sleep 1000\n");
    out
}

/// Who serves our files; ends with the machine, and when this is dropped.
struct Served(Child);

impl Served {
    fn begin(socket: &Path, log: &Path) -> Result<Served> {
        let log = fs::File::create(log)?;
        let child = Command::new(VIRTIOFSD)
            .arg(format!("--socket-path={}", socket.display()))
            .args(["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context(VIRTIOFSD)?;
        let mut served = Served(child);
        warren_testkit::wait_until("virtiofsd listens", || {
            socket.exists() || served.0.try_wait().is_ok_and(|ended| ended.is_some())
        });
        ensure!(socket.exists(), "{VIRTIOFSD} did not start; it needs root");
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn boot(
    kernel: &Path,
    archive: &Path,
    directory: &Path,
    console: &Path,
    seconds: u32,
) -> Result<()> {
    let socket = directory.join("files.sock");
    let _served = Served::begin(&socket, &directory.join("virtiofsd.log"))?;
    let status = Command::new("timeout")
        .arg(seconds.to_string())
        .args(["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2"])
        .args(["-M", "q35", "-cpu", "max", "-m", &MEMORY_MIB.to_string()])
        .arg("-object")
        .arg(format!("memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"))
        .args(["-numa", "node,memdev=memory"])
        .args(["-nographic", "-no-reboot", "-nodefaults", "-monitor", "none"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(archive)
        .arg("-chardev")
        .arg(format!("socket,id=files,path={}", socket.display()))
        .args(["-device", "vhost-user-fs-pci,chardev=files,tag=host"])
        .args(["-append", "console=ttyS0 panic=-1 rdinit=/init"])
        .stdin(Stdio::null())
        .status()
        .context("apt-get install qemu-system-x86")?;
    ensure!(status.success(), "the machine did not power off within {seconds} s; see {console:?}");
    Ok(())
}

/// Shows what the tests said, and fails if one failed or did not come to its end.
fn judge(programs: &[Program], said: &str) -> Result<()> {
    let begin = said.find("VM kernel").context("the machine did not come as far as the tests")?;
    println!("{}", &said[begin..]);
    let mut failed = Vec::new();
    for Program { package, name, .. } in programs {
        if !said.lines().any(|line| line == format!("VM end {package}/{name} 0")) {
            failed.push(format!("{package}/{name}"));
        }
    }
    match said.lines().any(|line| line == "VM done") {
        false => bail!("the machine ended before the tests did"),
        true => ensure!(failed.is_empty(), "failed: {}", failed.join(", ")),
    }
    Ok(())
}

#[cfg(test)]
mod checks {
    use super::*;

    fn known(name: &str) -> Program {
        let directory = PathBuf::from("/src/a");
        let path = PathBuf::from("/out/x");
        Program { package: "a".to_owned(), name: name.to_owned(), directory, path, only: vec![] }
    }

    #[test]
    fn what_did_not_come_to_its_end_has_failed() {
        let programs = [known("lib"), known("x")];
        let check = |said: &str| judge(&programs, said).map_err(|error| error.to_string());
        let whole = "VM kernel 6.1\nVM end a/lib 0\nVM end a/x 0\nVM done\n";
        assert_eq!(check(whole), Ok(()));
        assert_eq!(check(&whole.replace("x 0", "x 101")), Err("failed: a/x".to_owned()));
        assert!(check(&whole.replace("VM end a/lib 0\n", "")).is_err());
        assert!(
            check(&whole.replace("VM done", "")).is_err_and(|why| why.contains("ended before"))
        );
        assert!(check("Kernel panic").is_err());
    }

    #[test]
    fn cargo_tells_which_programs_have_tests() {
        let line = |kind: &str, is_test: bool| {
            format!(
                r#"{{"profile":{{"test":{is_test}}},"manifest_path":"/src/a/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"x"}},"executable":"/out/x"}}"#
            )
            .replace('\n', "")
        };
        let name = |line: &str| program(line, "a", &[]).map(|found| found.name);
        assert_eq!(name(&line("test", true)), Some("x".to_owned()));
        assert_eq!(name(&line("lib", true)), Some("lib".to_owned()));
        assert_eq!(name(&line("bin", false)), None);
        assert_eq!(name("{\"reason\":\"build-finished\"}"), None);
    }
}
