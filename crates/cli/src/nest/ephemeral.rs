//! `warren run --ephemeral`: memory over the host's directories, so that what a machine writes goes with it.
//!
//! Each directory of `/` is the lower layer of an overlay, and so is each file system that is mounted below, since an
//! overlay shows none of these. What cannot be a layer is shown read-only. Nothing of it is decided here but where
//! things lie: [`super::ground`] says when.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use warren_sys::mount::{self, Mount, MountFlags, MountOptions, Unmount};

/// The kernel's own file systems stay the host's, and `/run` and `/proc` are the machine's anyway.
const NOT_COVERED: [&str; 4] = ["dev", "proc", "run", "sys"];

/// Where the layers are made; gone when the machine starts.
const LAYERS: &str = ".layers";

/// Shared memory of programs (shm_overview(7)).
const SHARED_MEMORY: &str = "dev/shm";

/// Bits of a mode (inode(7)).
const WRITE_BITS: u32 = 0o222;

/// What is kept of how the host has mounted something.
const KEPT_FLAGS: MountFlags =
    MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC).union(MountFlags::RDONLY);

/// What shows a machine the host's directories, none of which it can write to.
pub struct Cover {
    /// The new root.
    root: PathBuf,
    /// The host's mounts, in the order of their paths.
    mounts: Vec<(Mount, MountFlags)>,
    /// Overlays that were made.
    layers: usize,
    /// Places inside, and whether what is written there stays in memory; what is in a later one is not in an earlier.
    places: Vec<(PathBuf, bool)>,
}

impl Cover {
    /// To be made before anything is mounted below `root`, which is in memory.
    pub fn begin(root: &Path) -> Result<Cover> {
        let mounts = ordered(mount::table_with_options()?);
        let layers = root.join(LAYERS);
        fs::create_dir(&layers)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount::mount("layers", &text(&layers)?, "tmpfs", flags, "mode=0700")?;
        Ok(Cover { root: root.to_path_buf(), mounts, layers: 0, places: Vec::new() })
    }

    /// Whether a directory of `/` is to be covered.
    pub fn covers(name: &str) -> bool {
        !NOT_COVERED.contains(&name)
    }

    /// Shows a directory of `/`, which the new root has, with all that is mounted there.
    pub fn directory(&mut self, name: &str) -> Result<()> {
        let host = Path::new("/").join(name);
        let flags = flags_at(&self.mounts, &host);
        self.layer(&host, flags)
            .with_context(|| format!("--ephemeral: cannot lay memory over {}", host.display()))?;
        for (mount, flags) in below(&self.mounts, &host) {
            let place = self.inside(Path::new(&mount.mount_point));
            // Hidden by a later mount, or an automount point that has not been triggered.
            if mount.fstype == "autofs" || fs::symlink_metadata(&place).is_err() {
                continue;
            }
            let host = Path::new(&mount.mount_point);
            if !host.is_dir() || self.layer(host, flags).is_err() {
                self.read_only(host)?;
            }
        }
        Ok(())
    }

    fn inside(&self, host: &Path) -> PathBuf {
        self.root.join(host.strip_prefix("/").unwrap_or(host))
    }

    fn layer(&mut self, host: &Path, flags: MountFlags) -> Result<()> {
        let lower = fs::File::open(host)?;
        let place = self.inside(host);
        self.layer_over(&lower, &place, flags)?;
        self.places.push((host.to_path_buf(), true));
        Ok(())
    }

    /// Shows a directory of the host at another place below the new root.
    pub fn show_at(&mut self, directory: &fs::File, place: &str) -> Result<()> {
        self.layer_over(directory, Path::new(place), MountFlags::NOSUID | MountFlags::NODEV)
            .with_context(|| format!("--ephemeral: cannot lay memory over what {place} shows"))
    }

    fn layer_over(&mut self, lower: &fs::File, place: &Path, flags: MountFlags) -> Result<()> {
        let own = self.root.join(LAYERS).join(self.layers.to_string());
        self.layers += 1;
        let (upper, work) = (own.join("upper"), own.join("work"));
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&work)?;
        // The directory itself looks as the host's. Where its owner has no number in this user namespace, it is this user's.
        let metadata = lower.metadata()?;
        let is_given = chown(&upper, Some(metadata.uid()), Some(metadata.gid())).is_ok();
        let mode = if is_given { metadata.mode() } else { metadata.mode() & !WRITE_BITS };
        fs::set_permissions(&upper, fs::Permissions::from_mode(mode))?;
        // A directory of the host can be moved in the layer; only root can have that written down.
        let kind = if is_in_user_namespace() { "userxattr" } else { "redirect_dir=on" };
        // By descriptor: a path may have characters that separate options.
        let lower = format!("/proc/self/fd/{}", lower.as_raw_fd());
        let options =
            format!("lowerdir={lower},upperdir={},workdir={},{kind}", text(&upper)?, text(&work)?);
        Ok(mount::mount("ephemeral", &text(place)?, "overlay", flags, &options)?)
    }

    fn read_only(&mut self, host: &Path) -> Result<()> {
        let options = MountOptions::parse("bind,ro");
        mount::mount_fs(&text(host)?, &text(&self.inside(host))?, "none", &options)?;
        self.places.push((host.to_path_buf(), false));
        Ok(())
    }

    /// Call it when the last directory is shown. The overlays keep their layers, which no path reaches any more.
    pub fn end(&self) -> Result<()> {
        let shared = self.root.join(SHARED_MEMORY);
        if shared.is_dir() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            mount::mount("shm", &text(&shared)?, "tmpfs", flags, "mode=1777")?;
        }
        let layers = self.root.join(LAYERS);
        mount::unmount(&text(&layers)?, Unmount::Lazy)?;
        Ok(fs::remove_dir(&layers)?)
    }

    /// Removes what is at these paths, for the machine alone. To be called when the new root is the root.
    pub fn hide(&self, paths: &[PathBuf]) {
        for path in paths {
            // It may be gone, which is what is wanted.
            let Some(path) = real(path).filter(|path| self.is_in_memory(path)) else { continue };
            let is_directory = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            let removed =
                if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            if let Err(error) = removed {
                complain!("warren: {}: {error}", path.display());
            }
        }
    }

    /// Whether a path without links lies where what is written stays in memory.
    fn is_in_memory(&self, path: &Path) -> bool {
        let holds = |(place, _): &&(PathBuf, bool)| path.starts_with(place) && path != place;
        self.places.iter().rev().find(holds).is_some_and(|(_, in_memory)| *in_memory)
    }
}

/// A path of which the directory has no links; what is there may be one.
fn real(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{}: not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

/// The kernel maps the ids of the first user namespace to themselves, all of them (user_namespaces(7)).
fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// The mounts in the order of their paths: of several at a path the last, which covers the others.
fn ordered(table: Vec<(Mount, String)>) -> Vec<(Mount, MountFlags)> {
    let mut out: Vec<(Mount, MountFlags)> = Vec::new();
    for (mount, options) in table {
        out.retain(|(other, _)| other.mount_point != mount.mount_point);
        out.push((mount, MountOptions::parse(&options).flags & KEPT_FLAGS));
    }
    out.sort_by(|(a, _), (b, _)| Path::new(&a.mount_point).cmp(Path::new(&b.mount_point)));
    out
}

/// What is mounted below a directory.
fn below(mounts: &[(Mount, MountFlags)], directory: &Path) -> Vec<(Mount, MountFlags)> {
    let is_below = |mount: &Mount| {
        let path = Path::new(&mount.mount_point);
        path.starts_with(directory) && path != directory
    };
    mounts.iter().filter(|(mount, _)| is_below(mount)).cloned().collect()
}

/// How the file system is mounted that a path is on.
fn flags_at(mounts: &[(Mount, MountFlags)], path: &Path) -> MountFlags {
    let holds = |(mount, _): &&(Mount, MountFlags)| path.starts_with(&mount.mount_point);
    mounts.iter().rev().find(holds).map_or(MountFlags::empty(), |(_, flags)| *flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(table: &[(&str, &str)]) -> Vec<(Mount, MountFlags)> {
        let mount = |(number, (path, options)): (usize, &(&str, &str))| {
            let mount = Mount {
                id: number as u64,
                parent: 0,
                mount_point: (*path).to_owned(),
                source: "none".to_owned(),
                fstype: "ext4".to_owned(),
            };
            (mount, (*options).to_owned())
        };
        ordered(table.iter().enumerate().map(mount).collect())
    }

    #[test]
    fn mounts_come_by_path_and_the_last_at_a_path_counts() {
        let all = mounts(&[
            ("/var/lib", "rw"),
            ("/", "rw,relatime"),
            ("/var", "ro,nosuid"),
            ("/variable", "rw"),
            ("/var", "rw,nodev"),
        ]);
        let paths = |mounts: &[(Mount, MountFlags)]| {
            mounts.iter().map(|(mount, _)| mount.mount_point.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(paths(&all), "/ /var /var/lib /variable");
        assert_eq!(paths(&below(&all, Path::new("/var"))), "/var/lib");
        assert_eq!(flags_at(&all, Path::new("/var")), MountFlags::NODEV);
        assert_eq!(flags_at(&all, Path::new("/var/x/y")), MountFlags::NODEV);
        assert_eq!(flags_at(&all, Path::new("/various")), MountFlags::empty());
    }

    #[test]
    fn only_what_stays_in_memory_is_removed() {
        let cover = Cover {
            root: PathBuf::from("/run"),
            mounts: Vec::new(),
            layers: 0,
            places: vec![
                (PathBuf::from("/var"), true),
                (PathBuf::from("/var/disk"), false),
                (PathBuf::from("/var/disk/inner"), true),
            ],
        };
        let check = |path: &str, expected| {
            assert_eq!(cover.is_in_memory(Path::new(path)), expected, "{path}");
        };
        check("/var/x", true);
        check("/var", false);
        check("/var/disk/x", false);
        check("/var/disk/inner/x", true);
        check("/dev/shm/x", false);
        check("/various", false);
    }
}
