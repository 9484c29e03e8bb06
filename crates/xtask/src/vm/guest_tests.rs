//! `cargo xtask vm tests`: tests of this checkout in a machine of their own, on Debian's kernel (6.1 in Debian 12) and
//! with all controllers of control groups, which the machine at hand may not have.
//!
//! The machine sees all files of this one by virtiofs, read-only, below an overlay in memory: whatever tests do ends with
//! it. It is slow (QEMU without hardware help), so tests that bound a time may fail there that hold elsewhere: look
//! at what they say.
//! `--hostile` runs what strangers and full tables do to us, so that it is known on a kernel that cannot refuse
//! descriptors (before 6.16). Needs root and Debian's qemu-system-x86, qemu-system-common (virtiofsd), linux-image-cloud-amd64,
//! busybox-static and cpio; without them it says what is missing and ends with an error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{self, root};
use crate::test_programs::{self, TestProgram};
use crate::vm::{self, Boot, copy_modules};

/// How long the machine may run when nothing is said, seconds.
pub const SECONDS: u32 = 1800;

/// The same for all of [`HOSTILE`].
pub const HOSTILE_SECONDS: u32 = 3600;

/// What users without privileges, hostile services and full tables do to us.
pub const HOSTILE: [&str; 17] = [
    "warren-manager/stranger",
    "warren-manager/offered",
    "warren-manager/full_tables",
    "warren-manager/full_pairs",
    "warren-manager/shortage",
    "warren-manager/removals",
    "warren-manager/ends",
    "warren-manager/connections",
    "warren-manager/bad_input",
    "warren-log-daemon/hostile",
    "warren-log-daemon/stranger",
    "warren-log-daemon/offered",
    "warren-bus/strangers",
    "warren-bus/over_bus",
    "warren-bus/protocol",
    "warren-init/init",
    "warren-sys/lib",
];

/// Tests with more files than the machine opens or writes in the time of a test. They run when they are named.
const TOO_SLOW: [&str; 2] = [
    "ten_thousand_drop_ins_and_a_million_dependencies_are_bounded",
    "any_number_of_sockets_is_opened_beside_the_loop",
];

const MODULES: [&str; 7] = ["virtio_pci", "virtiofs", "overlay", "fuse", "loop", "ext4", "dummy"];

const COMMANDS: [&str; 10] =
    ["sh", "ln", "mount", "modprobe", "mkdir", "switch_root", "echo", "cat", "sleep", "poweroff"];

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
ln -s /proc/self/fd /new/dev/fd
ln -s fd/0 /new/dev/stdin; ln -s fd/1 /new/dev/stdout; ln -s fd/2 /new/dev/stderr
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t securityfs securityfs /new/sys/kernel/security
cat /tests.sh > /new/run/tests.sh
exec switch_root /new /bin/sh /run/tests.sh
";

/// A program of tests, and the tests of it to run; all if there are none.
struct Program {
    of: TestProgram,
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
    let machine =
        Boot { seconds_max: seconds, kernel: &kernel.image, archive: &archive, console: &console };
    boot(machine, &directory)?;
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
    let with_examples = ["--package", "warren-manager", "--package", "warren-init", "--examples"];
    command::cargo(&[&["build", "--locked"], &with_examples[..]].concat())?;
    let mut all = Vec::new();
    for ((package, name), only) in asked {
        let kind = match name {
            "" => vec![],
            "lib" => vec!["--lib"],
            name => vec!["--test", name],
        };
        let found = test_programs::build(&[&["-p", package], &kind[..]].concat())?;
        let before = all.len();
        all.extend(found.into_iter().map(|of| Program { of, only: only.clone() }));
        ensure!(all.len() > before, "{package} has no tests {name:?}");
    }
    Ok(all)
}

/// What the machine runs.
fn script(programs: &[Program]) -> String {
    let mut out = "export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root\n\
                   export RUST_BACKTRACE=1 WARREN_NOT_RUN=/run/not-run WARREN_OWN_KERNEL=1 CARGO=/bin/true\n\
                   exec >/dev/console 2>&1 </dev/null\n\
                   uptime_s() { cut -d. -f1 /proc/uptime; }\n\
                   echo 1 >/proc/sys/kernel/printk; ip link set lo up\n\
                   for c in cpu cpuset io memory pids; do echo +$c >/sys/fs/cgroup/cgroup.subtree_control; done\n\
                   echo VM kernel $(uname -r), controllers $(cat /sys/fs/cgroup/cgroup.controllers)\n"
        .to_owned();
    for program in programs {
        let mut only: String = program.only.iter().map(|name| format!(" '{name}'")).collect();
        if program.only.is_empty() {
            only.extend(TOO_SLOW.map(|name| format!(" --skip {name}")));
        }
        let TestProgram { package, name, directory, path } = &program.of;
        let (directory, path) = (directory.display(), path.display());
        writeln!(
            out,
            "cd {directory}; echo VM begin {package}/{name}; began=$(uptime_s)\n\
             export CARGO_PKG_NAME={package} CARGO_MANIFEST_DIR={directory}\n\
             setsid --wait {path} --test-threads=2{only}\n\
             echo VM end {package}/{name} $? after $(($(uptime_s) - began)) s"
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

fn boot(boot: Boot<'_>, directory: &Path) -> Result<()> {
    let socket = directory.join("files.sock");
    let _served = Served::begin(&socket, &directory.join("virtiofsd.log"))?;
    let megabytes = MEMORY_MIB.to_string();
    let memory = format!("memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on");
    let files = format!("socket,id=files,path={}", socket.display());
    let machine = [
        ["-accel", "tcg,thread=multi"],
        ["-smp", "2"],
        ["-m", &megabytes],
        ["-object", &memory],
        ["-numa", "node,memdev=memory"],
        ["-chardev", &files],
        ["-device", "vhost-user-fs-pci,chardev=files,tag=host"],
    ];
    boot.until_off(machine.as_flattened(), "rdinit=/init")
}

/// Shows what the tests said, and fails if one failed or did not come to its end.
fn judge(programs: &[Program], said: &str) -> Result<()> {
    let begin = said.find("VM kernel").context("the machine did not come as far as the tests")?;
    println!("{}", &said[begin..]);
    let mut failed = Vec::new();
    for Program { of: TestProgram { package, name, .. }, .. } in programs {
        let well = format!("VM end {package}/{name} 0 ");
        if !said.lines().any(|line| line.starts_with(&well)) {
            failed.push(format!("{package}/{name}"));
        }
    }
    said.lines().filter(|line| line.starts_with("VM end ")).for_each(|line| println!("{line}"));
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
        let (package, name) = ("a".to_owned(), name.to_owned());
        let of = TestProgram { package, name, directory: "/src/a".into(), path: "/out/x".into() };
        Program { of, only: vec![] }
    }

    #[test]
    fn what_did_not_come_to_its_end_has_failed() {
        let programs = [known("lib"), known("x")];
        let check = |said: &str| judge(&programs, said).map_err(|error| error.to_string());
        let whole = "VM kernel 6.1\nVM end a/lib 0 after 1 s\nVM end a/x 0 after 2 s\nVM done\n";
        assert_eq!(check(whole), Ok(()));
        assert_eq!(check(&whole.replace("x 0", "x 101")), Err("failed: a/x".to_owned()));
        assert!(check(&whole.replace("VM end a/lib 0", "")).is_err());
        assert!(
            check(&whole.replace("VM done", "")).is_err_and(|why| why.contains("ended before"))
        );
        assert!(check("Kernel panic").is_err());
    }

    #[test]
    fn hostile_suites_are_there() {
        for suite in HOSTILE {
            let (package, name) = suite.split_once('/').expect("a package and a name");
            let crate_directory = root().join("crates").join(package.trim_start_matches("warren-"));
            let file = match name {
                "lib" => crate_directory.join("src/lib.rs"),
                name => crate_directory.join(format!("tests/{name}.rs")),
            };
            assert!(file.exists(), "{suite}: {}", file.display());
        }
    }
}
