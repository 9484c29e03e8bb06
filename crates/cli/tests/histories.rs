//! `warren devices scan` against lvm2 over whatever lvm2 can do to disks, some of them away meanwhile:
//! commands at random, whole or cut short, of which `histories/histories.py` tells what is compared.

use std::path::Path;
use std::process::Command;

/// Histories in each run, and their commands.
const SEEDS: [u32; 2] = [1, 2];
const STEPS: u32 = 30;

/// Why it cannot run here, if so.
fn lacks() -> Option<String> {
    let tools = ["lvm", "losetup", "unshare", "python3", "strace"];
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"];
    let is_there = |tool: &&str| places.iter().any(|place| Path::new(place).join(tool).exists());
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| !is_there(tool)).collect();
    if !missing.is_empty() {
        return Some(format!("{}, not installed", missing.join(", ")));
    }
    let probe = "unshare -m --propagation private true && losetup -f > /dev/null";
    let works = Command::new("sh").args(["-c", probe]).output().is_ok_and(|o| o.status.success());
    (!works).then(|| "a mount namespace and loop devices (root)".to_owned())
}

#[test]
fn any_history_of_lvm2_is_read_as_lvm2_reads_it() {
    if let Some(needs) = lacks() {
        warren_testkit::not_run(&format!("any_history_of_lvm2 needs {needs}"));
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/histories/histories.py");
    for seed in SEEDS {
        let name = format!("warren-histories-{}-{seed}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("the temporary directory takes one more");
        let output = Command::new("unshare")
            .args(["-m", "--propagation", "private", "python3", script])
            .arg(env!("CARGO_BIN_EXE_warren"))
            .arg(&directory)
            .args([seed, STEPS].map(|number| number.to_string()))
            .output()
            .expect("it can be started");
        std::fs::remove_dir_all(&directory).expect("it was made here");
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let last = said.lines().last().unwrap_or_default();
        assert!(last.ends_with(" checks, 0 differences"), "seed {seed}: {said}{errors}");
        assert!(!last.starts_with("0 checks"), "seed {seed}: {said}");
    }
}
