//! Groups that bound processes or memory, beside those that the machine makes.

use std::path::{Path, PathBuf};

use super::Machine;

/// Has children for as long as it may, and tries for ever: a program of python3.
pub const BOMB: &str = "\
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
    except OSError:
        time.sleep(0.001)
";

/// One for a test; removed when it is dropped, if nobody is in it.
pub struct Bound {
    directory: PathBuf,
    limit: &'static str,
}

impl Bound {
    /// For processes and threads; nothing where there can be none.
    pub fn of_processes(test: &str) -> Option<Bound> {
        Bound::new(test, &[("pids", "pids.max"), ("", "pids.max")])
    }

    /// For all processes of a machine: its own group where that counts processes, else one of the old hierarchy, which its
    /// processes are taken into as they are.
    pub fn of_machine(test: &str, m: &Machine) -> Option<Bound> {
        let own = m.cgroup_directory();
        if own.join("pids.max").exists() {
            return Some(Bound { directory: own, limit: "pids.max" });
        }
        let bound = Bound::of_processes(test)?;
        bound.take(m.init_pid);
        m.all_helpers().into_iter().chain(m.manager_pid()).for_each(|pid| bound.take(pid));
        Some(bound)
    }

    /// For memory.
    pub fn of_memory(test: &str) -> Option<Bound> {
        Bound::new(test, &[("memory", "memory.limit_in_bytes"), ("", "memory.max")])
    }

    /// Below the first of these hierarchies that has such a limit.
    fn new(test: &str, hierarchies: &[(&str, &'static str)]) -> Option<Bound> {
        let name = format!("warren-{test}-{}", std::process::id());
        hierarchies.iter().find_map(|&(hierarchy, limit)| {
            let directory = Path::new("/sys/fs/cgroup").join(hierarchy).join(&name);
            std::fs::create_dir(&directory).ok()?;
            let bound = Bound { directory, limit };
            bound.directory.join(limit).exists().then_some(bound)
        })
    }

    /// What the number of a process is written to that it takes in.
    pub fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Bytes that it has now, if it bounds memory.
    pub fn bytes(&self) -> u64 {
        let old = self.limit.ends_with("_in_bytes");
        self.count(if old { "memory.usage_in_bytes" } else { "memory.current" })
    }

    /// Takes a process in; what it begets is in it too.
    pub fn take(&self, pid: i32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    /// A number, or `max`.
    pub fn limit(&self, value: &str) {
        let value = if self.limit.ends_with("_in_bytes") && value == "max" { "-1" } else { value };
        self.write(self.limit, value);
    }

    /// A number that the kernel counts.
    pub fn count(&self, file: &str) -> u64 {
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        text.trim().parse().expect("a number")
    }

    fn write(&self, file: &str, value: &str) {
        std::fs::write(self.directory.join(file), value).expect("the kernel takes it");
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.directory);
    }
}
