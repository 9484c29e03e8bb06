//! Who uses a mount: by the directories, files and mappings of every process.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::look;

/// Holders that are named.
const NAMED_MAX: usize = 5;

/// Processes that use something below `mount_point`, each with how: `bash (pid 12, cwd)`. One that
/// does not let itself be looked at may be one of them, and is named too.
pub fn holders(mount_point: &str) -> Vec<String> {
    let mut out = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: Vec<i32> =
        processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect();
    let place = mount_point.to_owned();
    let look = move |pid: i32| use_of(&Path::new("/proc").join(pid.to_string()), &place);
    look::each(&pids, look, |pid, how| {
        if let Some(how) = how.unwrap_or_else(|| Some("cannot be looked at".to_owned())) {
            let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            out.push(format!("{} (pid {pid}, {how})", command.trim()));
        }
        match out.len() < NAMED_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    out
}

fn use_of(process: &Path, mount_point: &str) -> Option<String> {
    let below =
        |link: &Path| fs::read_link(link).ok().filter(|target| target.starts_with(mount_point));
    for how in ["cwd", "root", "exe"] {
        if below(&process.join(how)).is_some() {
            return Some(how.to_owned());
        }
    }
    let fds = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    for fd in fds {
        if let Some(file) = below(&fd.path()) {
            return Some(format!("file {}", file.display()));
        }
    }
    let maps = warren_sys::text::read(process.join("maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mapped = mapped.map(Path::new).find(|path| path.starts_with(mount_point));
    mapped.map(|path| format!("mapped {}", path.display()))
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
            found.retain(|line| !line.ends_with("cannot be looked at)"));
            found
        };
        assert_eq!(found(), [format!("cat (pid {}, cwd)", child.id())]);
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        assert_eq!(found(), [""; 0]);
        fs::remove_dir(&dir).expect("empty");
    }
}
