//! Whole machines on this one: the scripts of `lab/` boot a root file system with any init as process 1 of its own
//! namespaces, and units of ours in it. `LAB` says where they have their data (`/tmp/lab`), `LAB_SCRIPTS` which other
//! directory has the scripts.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use warren_sys::signal::SIGKILL;

use anyhow::{Context, Result, ensure};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process::{is_alive, pidfd_open, pidfd_signal};

use crate::command::root;

/// Root file system of Debian 12.
pub const ROOTFS: &str = "rootfs";

/// Root file system with the newest systemd.
pub const NEWEST: &str = "rootfs-sid";

/// Root file system of a Debian 12 that people log in to.
pub const HOST: &str = "rootfs-host";

/// What is said where no machine can be booted.
pub const NO_LAB: &str =
    "no root file system for machines: `cargo xtask lab setup` makes it, as root";

/// Process 1 of systemd's machines.
pub const SYSTEMD: &str = "/lib/systemd/systemd";

/// Until all processes of a killed machine have ended.
const KILL_TAKES_MAX: Duration = Duration::from_secs(60);

/// A booted machine.
pub struct Machine {
    /// Among those of the lab.
    name: String,
    /// Its process 1, as seen from here.
    pub pid: i32,
}

impl Machine {
    /// Boots a machine of this name, with the init and the units of that directory; returns when it
    /// says that it is ready.
    pub fn boot(name: &str, rootfs: &str, init: &str, units: &Path) -> Result<Machine> {
        let (rootfs, units) = (directory().join(rootfs), units.display().to_string());
        ensure!(rootfs.is_dir(), "no root file system in {}", rootfs.display());
        script("boot.sh", &["-r", &rootfs.display().to_string(), "-u", &units, "-n", name, init])?;
        let pid = directory().join("run").join(name).join("pid");
        let text = fs::read_to_string(&pid).with_context(|| format!("{}", pid.display()))?;
        let pid = text.trim().parse().context("the pid of the machine")?;
        Ok(Machine { name: name.to_owned(), pid })
    }

    /// Powers off, if it is not, and removes what is left of it. One that takes longer than the script waits
    /// is killed: it would be measured with the next.
    pub fn down(self) -> Result<()> {
        let process = pidfd_open(self.pid).ok();
        script("down.sh", &["-n", &self.name])?;
        let Some(process) = process.filter(|process| is_alive(process.as_fd())) else {
            return Ok(());
        };
        println!("  {} is still there and is killed", self.name);
        pidfd_signal(process.as_fd(), SIGKILL)?;
        let epoll = Epoll::new()?;
        epoll.add(&process, 0, Interest::READ)?;
        epoll.wait(&mut Events::with_capacity(1), Some(KILL_TAKES_MAX))?;
        script("down.sh", &["-n", &self.name])
    }
}

/// A command in the namespaces of a process.
pub fn inside(pid: i32, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-m", "-u", "-i", "-n", "-p", "-C", "--"]).args(words);
    command.env("SYSTEMD_PAGER", "").stdin(Stdio::null());
    command
}

/// Where the lab has its data.
pub fn directory() -> PathBuf {
    std::env::var_os("LAB").map_or_else(|| "/tmp/lab".into(), PathBuf::from)
}

/// Whether machines can be booted; who wants one else says [`NO_LAB`].
pub fn is_there() -> bool {
    directory().join(ROOTFS).is_dir()
}

/// Whether there is one with the newest systemd.
pub fn has_newest() -> bool {
    directory().join(NEWEST).is_dir()
}

/// Makes the root file systems, once.
pub fn setup() -> Result<()> {
    let path = scripts().join("setup.sh");
    let status = Command::new(&path).env("LAB", directory()).status();
    let status = status.with_context(|| format!("{}", path.display()))?;
    ensure!(status.success(), "{} failed", path.display());
    Ok(())
}

fn scripts() -> PathBuf {
    std::env::var_os("LAB_SCRIPTS").map_or_else(|| root().join("lab"), PathBuf::from)
}

/// What machines see as `/lab/NAME`; made if it is not there.
pub fn shared(name: &str) -> Result<PathBuf> {
    let directory = directory().join("lab").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    Ok(directory)
}

/// Puts our programs into a directory that machines see; its path inside.
pub fn copy_programs(name: &str, programs: &Path) -> Result<PathBuf> {
    let directory = shared(name)?;
    for program in ["warren-init", "warren-exec", "warrend", "warren-echo"] {
        fs::copy(programs.join(program), directory.join(program)).context(program)?;
    }
    Ok(Path::new("/lab").join(name))
}

fn script(name: &str, args: &[&str]) -> Result<()> {
    let path = scripts().join(name);
    let output = Command::new(&path).args(args).env("LAB", directory()).output();
    let output = output.with_context(|| format!("{}", path.display()))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
