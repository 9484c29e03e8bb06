//! The file system tree of a nested manager: the host's directories, bound one by one below a
//! root of its own that lies in memory, with private `/run`, `/proc` and cgroups.
//!
//! New directories in `/` (mount points of units, say) therefore never reach the host. What is
//! below the host's own directories is the host's, unless [`super::ephemeral`] lays memory over it.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use warren_sys::mount::{self, MountFlags, MountOptions, Sharing, own};
use warren_sys::namespace;

use super::ephemeral::Cover;
use crate::args::RunArgs;

/// The new root is built here: the machine gets a `/run` of its own anyway.
const NEW_ROOT: &str = "/run";

/// Where unit files are shown, as long as the host has the directory.
const UNIT_DIRECTORY: &str = "/etc/systemd/system";

/// Where rules are shown. The host may have no directory for them in `/etc`.
pub const RULES_DIRECTORY: &str = "/run/warren/fleet.d";

/// Replaces the root of this mount namespace. Unit files are shown where the system's lie, rules
/// at [`RULES_DIRECTORY`]. Says whether there are cgroups, if there are to be.
pub fn build(args: &RunArgs, cgroups: bool) -> Result<bool> {
    mount::set_propagation_of_all(Sharing::Private)?;
    // Held open: these may lie below what is about to be covered.
    let units = args.units.as_deref().map(open_directory).transpose()?;
    let rules = args.fleet.as_deref().map(open_directory).transpose()?;
    let init = args.init.as_deref();
    let programs = init.and_then(Path::parent).map(open_directory).transpose()?;
    let shown = args.bind.iter().map(|path| Shown::open(path)).collect::<Result<Vec<_>>>()?;
    let covered = init.is_some_and(|path| path.starts_with(NEW_ROOT));
    let data = MountFlags::NOSUID | MountFlags::NODEV;
    mount::mount("root", NEW_ROOT, "tmpfs", MountFlags::empty(), "mode=0755")?;
    let mut cover = args.ephemeral.then(|| Cover::begin(Path::new(NEW_ROOT))).transpose()?;
    show_root_directories(cover.as_mut())?;
    for name in ["run", "proc"] {
        fs::create_dir_all(format!("{NEW_ROOT}/{name}"))?;
    }
    mount::mount("run", &format!("{NEW_ROOT}/run"), "tmpfs", data, "mode=0755")?;
    mount_proc()?;
    let cgroups = cgroups && has_mounted_cgroups();
    show_units(units.as_ref(), cover.as_mut())?;
    if let Some(rules) = &rules {
        let place = format!("{NEW_ROOT}{RULES_DIRECTORY}");
        fs::create_dir_all(&place)?;
        show_directory(rules, &place, cover.as_mut())?;
    }
    if let (true, Some(programs), Some(init)) = (covered, &programs, init) {
        let place = format!("{NEW_ROOT}{}", init.parent().unwrap_or(Path::new("/")).display());
        fs::create_dir_all(&place)?;
        bind(&by_fd(programs), &place)?;
    }
    if let Some(cover) = &cover {
        cover.end()?;
    }
    namespace::pivot_root(Path::new(NEW_ROOT)).context("cannot change the root")?;
    if let Some(cover) = &cover {
        cover.hide(&args.without);
    }
    shown.iter().try_for_each(Shown::show)?;
    Ok(cgroups)
}

/// A file, socket or directory of the host that the machine sees.
struct Shown {
    path: PathBuf,
    is_directory: bool,
    mount: OwnedFd,
}

impl Shown {
    fn open(path: &Path) -> Result<Shown> {
        let open = || -> Result<Shown> {
            anyhow::ensure!(path.is_absolute(), "not an absolute path");
            let path = path.canonicalize()?;
            let place = own::place(&CString::new(path.as_os_str().as_bytes())?)?;
            let mount = own::copy(place.as_fd(), true)?;
            Ok(Shown { is_directory: path.is_dir(), path, mount })
        };
        open().with_context(|| format!("--bind {}", path.display()))
    }

    /// Shows it at its path, which the machine need not have. To be called when the new root is the root.
    fn show(&self) -> Result<()> {
        let show = || -> Result<()> {
            if fs::symlink_metadata(&self.path).is_err() {
                let parent = self.path.parent().unwrap_or(Path::new("/"));
                fs::create_dir_all(if self.is_directory { &self.path } else { parent })?;
                if !self.is_directory {
                    fs::File::create_new(&self.path)?;
                }
            }
            let place = own::place(&CString::new(self.path.as_os_str().as_bytes())?)?;
            Ok(own::attach(self.mount.as_fd(), place.as_fd())?)
        };
        show().with_context(|| format!("--bind {}", self.path.display()))
    }
}

fn open_directory(path: &Path) -> Result<fs::File> {
    let file = fs::File::open(path).with_context(|| format!("{}", path.display()))?;
    anyhow::ensure!(file.metadata()?.is_dir(), "{}: not a directory", path.display());
    Ok(file)
}

fn by_fd(file: &fs::File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Binds with everything mounted below: in a user namespace the kernel allows nothing less.
fn bind(source: &str, target: &str) -> Result<()> {
    let mut options = MountOptions::parse("");
    options.flags = MountFlags::BIND | MountFlags::REC;
    mount::mount_fs(source, target, "none", &options).map_err(Into::into)
}

fn show_root_directories(mut cover: Option<&mut Cover>) -> Result<()> {
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let (host, own) = (format!("/{name}"), format!("{NEW_ROOT}/{name}"));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&host)?, &own)?;
        } else if kind.is_dir() && !["run", "proc"].contains(&name) {
            fs::create_dir(&own)?;
            match cover.as_deref_mut().filter(|_| Cover::covers(name)) {
                Some(cover) => cover.directory(name)?,
                None => bind(&host, &own)?,
            }
        }
    }
    Ok(())
}

fn mount_proc() -> Result<()> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount::mount("proc", &format!("{NEW_ROOT}/proc"), "proc", strict, "").context(
        "mounting a new /proc is not allowed here (is the host's /proc partly covered, as in a container?)",
    )
}

/// Without, the manager goes on without any: what can be seen there is the host's tree.
fn has_mounted_cgroups() -> bool {
    let mounted = mount_cgroups(&format!("{NEW_ROOT}/sys/fs/cgroup"));
    mounted.inspect_err(|error| complain!("warren: {error}")).is_ok()
}

/// The kernel refuses to mount it over the host's, which may be there, but not over a file system between.
fn mount_cgroups(target: &str) -> Result<()> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount::mount("cgroups", target, "tmpfs", strict, "mode=0755")?;
    mount::mount("cgroup2", target, "cgroup2", strict, "").map_err(Into::into)
}

/// Shows a directory as it is, or with memory over it.
fn show_directory(directory: &fs::File, place: &str, cover: Option<&mut Cover>) -> Result<()> {
    match cover {
        Some(cover) => cover.show_at(directory, place),
        None => bind(&by_fd(directory), place),
    }
}

/// With a directory of unit files, that one; without, an empty one, so that nothing of the
/// host's starts. On a host without systemd's directories `/etc` becomes read-only instead, so
/// that `enable` cannot change it.
fn show_units(units: Option<&fs::File>, cover: Option<&mut Cover>) -> Result<()> {
    let etc = format!("{NEW_ROOT}{UNIT_DIRECTORY}");
    let run = format!("{NEW_ROOT}/run/systemd/system");
    fs::create_dir_all(&run)?;
    let has_etc = Path::new(&etc).is_dir();
    match units {
        Some(units) => show_directory(units, if has_etc { &etc } else { &run }, cover)?,
        None if has_etc => mount::mount("units", &etc, "tmpfs", MountFlags::NODEV, "mode=0755")?,
        None => {}
    }
    if !has_etc && Path::new(&format!("{NEW_ROOT}/etc")).is_dir() {
        let options = MountOptions::parse("remount,bind,ro");
        // In a user namespace the host's own permissions already forbid it.
        let _ = mount::mount_fs("none", &format!("{NEW_ROOT}/etc"), "none", &options);
    }
    Ok(())
}
