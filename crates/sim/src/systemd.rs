//! A systemd to compare with: the installed one, as process 1 of namespaces of its own over the
//! host's root file system, which it sees read-only.
//!
//! It reads units from one directory, runs one script and is ended with it. Nothing of the host is
//! changed: what it writes to is a tmpfs, its cgroups are below one that is removed afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = "/lib/systemd/systemd";

/// Under this name the script's output lies beside the script.
const OUTPUT: &str = "output";

/// Runs the script and leaves, whatever becomes of it; a script that hangs is cut.
const SERVICE: &str = "[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/sh /run/trial/script
StandardOutput=file:/run/trial/output
StandardError=null
TimeoutStartSec=600
";

/// Runs in the new namespaces, with the directory as its argument.
const BOOT: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/dev /mnt/trial
for d in null zero full random urandom; do : > /mnt/dev/$d; mount --bind /dev/$d /mnt/dev/$d; done
mount --bind "$1" /mnt/trial
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mkdir /run/trial /run/units
mount --move /mnt/trial /run/trial
cp /run/trial/units/* /run/units/
mount -t tmpfs tmpfs /tmp
mount --move /mnt/dev /dev 2>/dev/null || mount --rbind /mnt/dev /dev
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -o remount,bind,ro /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=trial SYSTEMD_UNIT_PATH=/run/units \
    SYSTEMD_LOG_TARGET=null /lib/systemd/systemd --system --unit=trial.service
"#;

/// What the script prints, with these unit files in place. The text says why it cannot be run.
pub fn run(files: &[(String, String)], script: &str) -> Result<String, String> {
    if !Path::new(PROGRAM).exists() {
        return Err(format!("no {PROGRAM} to compare with"));
    }
    let scratch = Scratch::new().map_err(|e| format!("a scratch directory and a cgroup: {e}"))?;
    let written = write_all(&scratch.directory, files, script);
    written.map_err(|e| format!("{}: {e}", scratch.directory.display()))?;
    let boot = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", scratch.group.display());
    let status = Command::new("sh")
        .args(["-c", &boot, "sh", "unshare", "--mount", "--pid", "--ipc", "--uts", "--net"])
        .args(["--cgroup", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BOOT, "sh"])
        .arg(&scratch.directory)
        .stdin(Stdio::null())
        .status();
    let output = fs::read_to_string(scratch.directory.join(OUTPUT));
    match (status, output) {
        (Ok(_), Ok(output)) if !output.is_empty() => Ok(output),
        (status, _) => Err(format!("systemd as process 1 of namespaces of its own: {status:?}")),
    }
}

fn write_all(directory: &Path, files: &[(String, String)], script: &str) -> io::Result<()> {
    let units = directory.join("units");
    fs::create_dir(&units)?;
    for (name, text) in files {
        fs::write(units.join(name), text)?;
    }
    fs::write(units.join("trial.service"), SERVICE)?;
    fs::write(directory.join("script"), script)
}

/// A directory and a cgroup that are gone with this value.
struct Scratch {
    directory: PathBuf,
    group: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Scratch> {
        let name = format!("warren-trial-{}", std::process::id());
        let directory = std::env::temp_dir().join(&name);
        let group = cgroup_mount()?.join(&name);
        fs::create_dir(&group)?;
        let scratch = Scratch { directory, group };
        fs::create_dir(&scratch.directory)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
        let _ = remove_groups(&self.group);
    }
}

/// A cgroup's directory goes when those below it are gone; its files go with it.
fn remove_groups(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

fn cgroup_mount() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let found = lines.find_map(|mut words| {
        let at = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    });
    found.ok_or(io::Error::new(io::ErrorKind::NotFound, "no cgroup2 is mounted"))
}
