//! Places in another process's mounts.
//!
//! Whoever lives there may have put links on the way, and may exchange what is on it while it is walked. So a path is
//! walked part by part, from the process's root, and never leaves that.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, mkdirat, mknodat, openat, readlinkat};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Links on one way, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Parts of one way, those of links included.
const PARTS_MAX: usize = 4096;

/// What is made at a place where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// Nothing: a place that is missing is an error.
    Nothing,
    /// A directory, and those above it.
    Directory,
    /// An empty file, and the directories above it.
    File,
}

/// Opens what is at `path` below `root`, as a place. Links in the middle of it are followed within `root` if they are
/// root's; other links, and one at the end, are not.
///
/// # Errors
/// `ELOOP` at a link that is not followed, `ENOENT` if there is nothing and nothing is to be made.
pub fn place_below(root: BorrowedFd<'_>, path: &str, make: Make) -> Result<OwnedFd> {
    let wrong = |errno| Error::at("walk", path, errno);
    let (mut parts, mut taken, mut links) = (parts_of(path), 0, 0);
    let mut way = vec![root.try_clone_to_owned().map_err(|_| wrong(libc::EMFILE))?];
    while let Some(part) = parts.pop_front() {
        taken += 1;
        if taken > PARTS_MAX {
            return Err(wrong(libc::ENAMETOOLONG));
        }
        if part == ".." {
            // Above the root there is nothing but the root.
            way.truncate((way.len() - 1).max(1));
            continue;
        }
        let here = way.last().ok_or(wrong(libc::ENOENT))?.as_fd();
        let made = if parts.is_empty() { make } else { above(make) };
        let found = open_part(here, &part, made).call_on("open", path)?;
        let stat = fstat(&found).call_on("stat", path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            way.push(found);
            continue;
        }
        links += 1;
        if parts.is_empty() || stat.st_uid != 0 || links > LINKS_MAX {
            return Err(wrong(libc::ELOOP));
        }
        let to = readlinkat(&found, c"", Vec::new()).call_on("readlink", path)?;
        let to = to.into_string().map_err(|_| wrong(libc::EINVAL))?;
        if to.starts_with('/') {
            way.truncate(1);
        }
        let rest = std::mem::take(&mut parts);
        parts = parts_of(&to);
        parts.extend(rest);
    }
    way.pop().ok_or(wrong(libc::ENOENT))
}

fn parts_of(path: &str) -> VecDeque<String> {
    let is_step = |part: &&str| !part.is_empty() && *part != ".";
    path.split('/').filter(is_step).map(str::to_owned).collect()
}

/// What is made above what is made.
fn above(make: Make) -> Make {
    match make {
        Make::Nothing => Make::Nothing,
        Make::Directory | Make::File => Make::Directory,
    }
}

fn open_part(here: BorrowedFd<'_>, part: &str, make: Make) -> rustix::io::Result<OwnedFd> {
    const FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let open = || openat(here, part, FLAGS, Mode::empty());
    match open() {
        Err(Errno::NOENT) if make != Make::Nothing => {}
        other => return other,
    }
    let made = match make {
        Make::File => mknodat(here, part, FileType::RegularFile, Mode::from_raw_mode(0o644), 0),
        Make::Directory | Make::Nothing => mkdirat(here, part, Mode::from_raw_mode(0o755)),
    };
    match made {
        // Somebody was faster.
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::descriptor_path;
    use crate::mount::places::open_place;
    use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
    use warren_testkit::Scratch;

    #[test]
    fn a_way_stays_below_its_root_and_takes_no_link_of_others() {
        let s = Scratch::new("inside");
        let root = s.0.canonicalize().expect("there");
        std::fs::create_dir_all(root.join("a/b")).expect("ours");
        std::fs::write(root.join("a/f"), "").expect("ours");
        symlink("/a", root.join("abs")).expect("ours");
        symlink("../../../a", root.join("a/up")).expect("ours");
        symlink("loop", root.join("loop")).expect("ours");
        symlink("a", root.join("theirs")).expect("ours");
        let is_root = std::fs::metadata(&root).expect("there").uid() == 0;
        if is_root {
            lchown(root.join("theirs"), Some(1), None).expect("root");
        }
        let base = open_place(root.to_str().expect("UTF-8")).expect("there");
        let check = |path: &str, make: Make, expected: std::result::Result<&str, i32>| {
            let found = place_below(base.as_fd(), path, make).map_err(|e| e.errno);
            let found = found.map(|fd| {
                let to = std::fs::read_link(descriptor_path(fd.as_fd())).expect("open");
                to.strip_prefix(&root).expect("below").to_str().expect("UTF-8").to_owned()
            });
            assert_eq!(found, expected.map(str::to_owned), "{path}");
        };
        check("/a/b", Make::Nothing, Ok("a/b"));
        check("/../../a/b/", Make::Nothing, Ok("a/b"));
        check("/", Make::Nothing, Ok(""));
        check("/a/f/x", Make::Directory, Err(libc::ENOTDIR));
        check("/abs", Make::Nothing, Err(libc::ELOOP));
        check("/theirs/b", Make::Nothing, Err(libc::ELOOP));
        check("/loop/b", Make::Nothing, Err(libc::ELOOP));
        check("/a/none", Make::Nothing, Err(libc::ENOENT));
        check("/a/new/dir", Make::Directory, Ok("a/new/dir"));
        check("/a/new/other/file", Make::File, Ok("a/new/other/file"));
        assert!(root.join("a/new/other/file").is_file());
        if is_root {
            check("/abs/b", Make::Nothing, Ok("a/b"));
            check("/a/up/b", Make::Nothing, Ok("a/b"));
            check("/abs/made", Make::Directory, Ok("a/made"));
        }
    }
}
