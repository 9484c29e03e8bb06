//! Who uses a mount: by the directories, files and mappings of every process, which tell of what mount they
//! are; and by what lies on it.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use warren_sys::{mount, process};

use crate::last_steps::left_over::unit_of_process;
use crate::last_steps::look;
use crate::last_steps::own::{REMOVED, is_own};
use crate::last_steps::stack::Stack;

/// memfd_create(2)
const MEMORY: &str = "/memfd:";

/// Holders that are named.
const NAMED_MAX: usize = 5;

/// Where something is looked for.
#[derive(Clone)]
enum Place {
    /// In this mount: another namespace may have others at the same path.
    Mount(u64),
    /// Below this path, where the kernel does not tell mounts apart, or none is there.
    Path(PathBuf),
}

impl Place {
    fn of(mount_point: &str) -> Place {
        match mount::mount_of(Path::new(mount_point)) {
            Some((id, true)) => Place::Mount(id),
            _ => Place::Path(mount_point.into()),
        }
    }

    /// Whether a link of `/proc` leads there.
    fn has(&self, link: &Path) -> bool {
        match self {
            Place::Mount(id) => mount::mount_of(link).is_some_and(|(found, _)| found == *id),
            Place::Path(path) => fs::read_link(link).is_ok_and(|target| target.starts_with(path)),
        }
    }
}

/// Who uses what is mounted at `mount_point`: processes, each with its unit and how, as
/// `bash (pid 12, a.service, cwd)`, and what lies on it. A process that does not let itself be looked at may be
/// one of them, and is named too.
pub fn holders(mount_point: &str) -> Vec<String> {
    let place = Place::of(mount_point);
    let mut all = named({
        let path = PathBuf::from(mount_point);
        move |process| use_of(process, &place, &path)
    });
    all.extend(on_it(mount_point).into_iter().take(NAMED_MAX));
    all
}

/// What lies on a mount: loop devices, swap files, other mounts.
fn on_it(mount_point: &str) -> Vec<String> {
    let is_there = |path: &str| Path::new(path).starts_with(mount_point);
    let table = mount::table().unwrap_or_default();
    let stack = Stack::find(table.clone());
    let loops = stack.devices.values().filter_map(|device| {
        let file = device.file.as_deref().filter(|file| is_there(file))?;
        Some(format!("{} (file {file})", device.name))
    });
    let swaps = stack.swaps.iter().filter(|(area, _)| is_there(area));
    let swaps = swaps.map(|(area, _)| format!("swap area {area}"));
    let top = table.iter().rfind(|mount| mount.mount_point == mount_point).map(|mount| mount.id);
    let mounts = table.iter().filter(|mount| Some(mount.parent) == top && Some(mount.id) != top);
    let mounts = mounts.map(|mount| format!("mount {}", mount.mount_point));
    loops.chain(swaps).chain(mounts).collect()
}

/// Processes that keep the file system on `mount_point` from being made read-only, likewise: by files that
/// they have open for writing, or that were removed and go only with them, as a program that was replaced
/// (systemd-halt.service(8)). Which file is of which file system follows from all `mount_points`.
pub fn writers(mount_point: &str, mount_points: Vec<String>) -> Vec<String> {
    named(writing(vec![mount_point.to_owned()], mount_points))
}

/// Whether it is Warrener alone that keeps these from it, by programs of its own that were replaced.
pub fn are_kept_by_us(places: Vec<String>, mount_points: Vec<String>) -> bool {
    let mut count = 0;
    let mut are_ours = true;
    look_at_all(writing(places, mount_points), |pid, _| {
        count += 1;
        are_ours =
            is_of_warrener(pid) && process::program(pid).is_ok_and(|path| path.ends_with(REMOVED));
        if are_ours { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    count > 0 && are_ours
}

/// How a process keeps one of these file systems writable.
fn writing(
    places: Vec<String>,
    mount_points: Vec<String>,
) -> impl Fn(&Path) -> Option<String> + Clone + Send + 'static {
    move |process| {
        let is_there = |path: &Path| {
            let above = mount_points.iter().filter(|point| path.starts_with(point));
            above.max_by_key(|point| point.len()).is_some_and(|point| places.contains(point))
        };
        keeps_writable(process, is_there)
    }
}

/// Whether it ends with the machine's own end at the latest.
fn is_of_warrener(pid: i32) -> bool {
    pid == 1 || pid as u32 == std::process::id() || is_own(pid)
}

/// Every process that there is.
pub(super) fn all_pids() -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

/// Those of whose directory in `/proc` something can be said, for people.
fn named(say: impl Fn(&Path) -> Option<String> + Clone + Send + 'static) -> Vec<String> {
    let mut out = Vec::new();
    look_at_all(say, |pid, how| {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let unit = unit_of_process(pid).map_or(String::new(), |unit| format!("{unit}, "));
        out.push(format!("{} (pid {pid}, {unit}{how})", command.trim()));
        if out.len() < NAMED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    out
}

/// Hands to `take` the processes of whose directory in `/proc` something can be said.
fn look_at_all(
    say: impl Fn(&Path) -> Option<String> + Clone + Send + 'static,
    mut take: impl FnMut(i32, String) -> ControlFlow<()>,
) {
    let look = move |pid: i32| say(&Path::new("/proc").join(pid.to_string()));
    look::each(&all_pids(), look, |pid, how| {
        match how.unwrap_or_else(|| Some("cannot be read".to_owned())) {
            Some(how) => take(pid, how),
            None => ControlFlow::Continue(()),
        }
    });
}

/// How a process uses it. What it has mapped of one mount only who has CAP_SYS_ADMIN may know
/// (proc_pid_map_files(5)): for others the path tells.
fn use_of(process: &Path, place: &Place, mount_point: &Path) -> Option<String> {
    let how = ["cwd", "root", "exe"].into_iter().find(|how| place.has(&process.join(how)));
    if let Some(how) = how {
        return Some(how.to_owned());
    }
    let first_in = |directory: &str| {
        let links = fs::read_dir(process.join(directory)).into_iter().flatten().flatten();
        let link = links.map(|entry| entry.path()).find(|link| place.has(link))?;
        Some(fs::read_link(link).unwrap_or_default().display().to_string())
    };
    if let Some(file) = first_in("fd") {
        return Some(format!("file {file}"));
    }
    if matches!(place, Place::Mount(_)) && is_told(&process.join("map_files")) {
        return first_in("map_files").map(|file| format!("mapped {file}"));
    }
    let maps = warren_sys::text::read(process.join("maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mapped = mapped.map(Path::new).find(|path| path.starts_with(mount_point));
    mapped.map(|path| format!("mapped {}", path.display()))
}

/// Whether the links of a directory can be followed.
fn is_told(directory: &Path) -> bool {
    let first = fs::read_dir(directory).ok().and_then(|mut links| links.next());
    first.is_some_and(|link| link.is_ok_and(|link| link.path().metadata().is_ok()))
}

/// How a process keeps a file system writable.
fn keeps_writable(process: &Path, is_there: impl Fn(&Path) -> bool) -> Option<String> {
    let removed = |path: &Path| path.to_str()?.strip_suffix(REMOVED).map(PathBuf::from);
    // Memory that has a name of its own is called as if it were at the root.
    let removed =
        |path: &Path| removed(path).filter(|path| !path.starts_with(MEMORY) && is_there(path));
    let program = fs::read_link(process.join("exe")).ok();
    if let Some(program) = program.as_deref().and_then(removed) {
        return Some(format!("program {} was replaced", program.display()));
    }
    let fds = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    for fd in fds {
        let Ok(file) = fs::read_link(fd.path()) else { continue };
        if let Some(file) = removed(&file) {
            return Some(format!("removed file {}", file.display()));
        }
        if is_there(&file) && is_for_writing(&process.join("fdinfo").join(fd.file_name())) {
            return Some(format!("writes {}", file.display()));
        }
    }
    let maps = warren_sys::text::read(process.join("maps")).unwrap_or_default();
    maps.lines().find_map(|line| {
        // Address, permissions, offset, device, inode.
        let at = line.find(" /")? + 1;
        let file = Path::new(line.get(at..)?);
        let shared = line.split_whitespace().nth(1)?.as_bytes();
        let writes = shared.get(1) == Some(&b'w') && shared.get(3) == Some(&b's');
        match removed(file) {
            Some(file) => Some(format!("removed file {}", file.display())),
            None => (writes && is_there(file)).then(|| format!("writes {}", file.display())),
        }
    })
}

/// Whether a descriptor was opened for that (proc_pid_fdinfo(5)).
fn is_for_writing(info: &Path) -> bool {
    /// `O_WRONLY` and `O_RDWR`.
    const WRITES: u32 = 3;
    let info = fs::read_to_string(info).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
    u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & WRITES != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_there_is_named() {
        let dir = std::env::temp_dir().join(format!("warren-holders-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let mut child = std::process::Command::new("cat")
            .current_dir(&dir)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat runs");
        // What the kernel holds elsewhere just then is not ours.
        let found = || {
            let mut found = holders(dir.to_str().expect("a plain path"));
            found.retain(|line| !line.ends_with("cannot be read)"));
            found
        };
        assert_eq!(found(), [format!("cat (pid {}, cwd)", child.id())]);
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        assert_eq!(found(), [""; 0]);
        fs::remove_dir(&dir).expect("empty");
    }

    #[test]
    fn who_writes_or_keeps_a_removed_file_is_named() {
        let dir = std::env::temp_dir().join(format!("warren-writers-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let place = dir.to_str().expect("a plain path").to_owned();
        let found = || {
            let mut found = writers(&place, vec!["/".to_owned(), place.clone()]);
            found.retain(|line| !line.ends_with("cannot be read)"));
            found
        };
        let run = |program: &Path, output: std::process::Stdio| {
            let mut cat = std::process::Command::new(program);
            cat.stdin(std::process::Stdio::piped()).stdout(output).current_dir(&dir);
            cat.spawn().expect("cat runs")
        };
        let file = dir.join("file");
        let written = fs::File::create(&file).expect("a file");
        let own = std::process::id();
        assert!(
            found()[0].ends_with(&format!("(pid {own}, writes {})", file.display())),
            "{:?}",
            found()
        );
        let mut child = run(Path::new("/bin/cat"), written.into());
        let line =
            |how: &str, at: &Path| format!("cat (pid {}, {how} {})", child.id(), at.display());
        let lines = [line("writes", &file), line("removed file", &file)];
        assert_eq!(found(), [lines[0].clone()]);
        fs::remove_file(&file).expect("it is there");
        assert_eq!(found(), [lines[1].clone()]);
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        let program = dir.join("cat");
        // By another process: no child of another test has the file open for writing when it is to run.
        let copied = std::process::Command::new("cp").arg("/bin/cat").arg(&program).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp(1)");
        let mut child = run(&program, std::process::Stdio::null());
        assert_eq!(found(), [""; 0], "to read is no harm");
        fs::remove_file(&program).expect("it is there");
        let name = program.display();
        assert_eq!(found(), [format!("cat (pid {}, program {name} was replaced)", child.id())]);
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        fs::remove_dir(&dir).expect("empty");
    }
}
