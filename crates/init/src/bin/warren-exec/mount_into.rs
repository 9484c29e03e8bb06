//! Mounts something for a process that runs: `systemctl bind`, `systemctl mount-image`.
//!
//! This process is for one mount alone, and ends with warrend. What is mounted is made ready with the host's paths and
//! is nowhere then; its place is looked for in the mounts of the other process, from that one's root; at last one
//! system call puts it there. So whoever is killed on the way leaves nothing behind.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::parent_id;

use warren_init::protocol::exec::SpawnError;
use warren_init::protocol::mount_into::{MountInto, NotMounted};
use warren_sandbox::images::{Image, Place, Role, Splits};
use warren_sandbox::mounts::arrange::attribute;
use warren_sys::Error;
use warren_sys::errno::{EINVAL, ESRCH};
use warren_sys::mount::inside::{Make, place_below};
use warren_sys::mount::{own, places};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::signal::SIGKILL;
use warren_sys::{file, process};

use crate::images;

/// Is the process for one mount; returns its exit status. `parent` is the pid of warrend.
pub fn run(parent: &str, words: &[String]) -> i32 {
    let is_bound = process::set_parent_death_signal(SIGKILL).is_ok();
    if !is_bound || parent.parse() != Ok(parent_id()) {
        return 1;
    }
    let stdin = std::io::stdin();
    let done = match MountInto::from_words(words) {
        Some(asked) => mount(&asked, stdin.as_fd()),
        None => Err(NotMounted::Failed { errno: EINVAL, detail: String::new() }),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            print!("{}", why.to_text());
            1
        }
    }
}

fn mount(asked: &MountInto, process: BorrowedFd<'_>) -> Result<(), NotMounted> {
    let pid = process::pidfd_pid(process).map_err(failed)?;
    if namespace_of(&pid.to_string())? == namespace_of("self")? {
        return Err(NotMounted::NotPrivate);
    }
    let root = places::open_place(&format!("/proc/{pid}/root")).map_err(failed)?;
    // Until here the number was this process's.
    if !process::is_alive(process) {
        return Err(NotMounted::Failed { errno: ESRCH, detail: String::new() });
    }
    let tree = match &asked.image {
        Some(options) => images::mount_alone(&image(asked, options)?).map_err(of_image)?,
        None => bound(&asked.source)?,
    };
    let make = match (asked.makes, is_directory(tree.as_fd())?) {
        (false, _) => Make::Nothing,
        (true, true) => Make::Directory,
        (true, false) => Make::File,
    };
    if asked.read_only {
        own::set_attributes(tree.as_fd(), attribute::READ_ONLY, true).map_err(failed)?;
    }
    namespace::enter(process, Namespaces::MOUNT).map_err(failed)?;
    let place = place_below(root.as_fd(), &asked.destination, make).map_err(failed)?;
    own::attach(tree.as_fd(), place.as_fd()).map_err(failed)
}

/// What names the mount namespace of a process.
fn namespace_of(pid: &str) -> Result<(u64, u64), NotMounted> {
    let found = fs::metadata(format!("/proc/{pid}/ns/mnt")).map_err(of_file)?;
    Ok((found.dev(), found.ino()))
}

/// What is at a path of the host, without what is mounted below it. What is mounted there later is seen, and nothing
/// that the process mounts on it is seen by the host.
fn bound(source: &str) -> Result<OwnedFd, NotMounted> {
    let place = places::open_place(source).map_err(failed)?;
    let tree = own::copy(place.as_fd(), false).map_err(failed)?;
    own::follow(tree.as_fd()).map_err(failed)?;
    Ok(tree)
}

fn is_directory(tree: BorrowedFd<'_>) -> Result<bool, NotMounted> {
    let found = fs::metadata(file::descriptor_path(tree)).map_err(of_file)?;
    Ok(found.is_dir())
}

fn image(asked: &MountInto, options: &[(String, String)]) -> Result<Image, NotMounted> {
    let unknown = |part: &str| NotMounted::Failed {
        errno: EINVAL,
        detail: format!("the image has no partition '{part}'"),
    };
    let split = |(part, options): &(String, String)| {
        Role::from_name(part).map(|role| (role, options.clone())).ok_or_else(|| unknown(part))
    };
    let mut splits = options.iter().map(split).collect::<Result<Splits, _>>()?;
    if asked.read_only {
        splits.extend(Role::all().map(|role| (role, "ro".to_owned())));
    }
    Ok(Image {
        path: asked.source.clone(),
        optional: false,
        place: Place::Path(asked.destination.clone()),
        options: splits,
    })
}

fn failed(error: Error) -> NotMounted {
    NotMounted::Failed { errno: error.errno, detail: String::new() }
}

fn of_file(error: std::io::Error) -> NotMounted {
    NotMounted::Failed { errno: error.raw_os_error().unwrap_or(0), detail: String::new() }
}

fn of_image(error: SpawnError) -> NotMounted {
    NotMounted::Failed { errno: error.errno, detail: error.message }
}
