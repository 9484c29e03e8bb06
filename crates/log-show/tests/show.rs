//! The reading command by hand: cursors, follow, verify, vacuum.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod common;
use common::Lab;

/// The command over a store.
trait Shown {
    fn command(&self, options: &[&str]) -> Command;
    fn run(&self, options: &[&str]) -> Output;
    fn show(&self, options: &[&str]) -> String;
    fn segment(&self) -> PathBuf;
}

impl Shown for Lab {
    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journalctl"));
        command.arg("-D").arg(&self.directory).args(options);
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.command(options).output().expect("it runs")
    }

    /// The texts that are shown.
    fn show(&self, options: &[&str]) -> String {
        let output = self.run(&[options, &["-o", "cat"]].concat());
        String::from_utf8(output.stdout).expect("ASCII").trim_end().replace('\n', " ")
    }

    fn segment(&self) -> PathBuf {
        let names = std::fs::read_dir(&self.directory).expect("listed");
        let mut paths = names.map(|entry| entry.expect("listed").path());
        paths.find(|path| path.extension().is_some_and(|e| e == "seg")).expect("a segment")
    }
}

#[test]
fn a_cursor_stays_valid_when_its_log_is_sealed() {
    let mut lab = Lab::new("cursor");
    lab.append("a b c d");
    let shown = lab.run(&["-n", "1", "-o", "cat", "--show-cursor"]);
    let shown = String::from_utf8(shown.stdout).expect("ASCII");
    let cursor = shown.trim_end().rsplit("-- cursor: ").next().expect("one").to_owned();
    lab.seal();
    lab.append("e f");
    assert_eq!(lab.show(&["--after-cursor", &cursor]), "e f");
    assert_eq!(lab.show(&["--cursor", &cursor]), "d e f");
    assert_eq!(lab.show(&["--cursor", &cursor, "-r"]), "d c b a");
    assert_eq!(lab.show(&["--after-cursor", &cursor, "-r", "-n", "2"]), "c b");
    assert_eq!(lab.run(&["--after-cursor", "rubbish"]).status.code(), Some(1));
}

/// `warren-journalctl | head`: nothing is said of it.
#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let mut lab = Lab::new("enough");
    lab.append("a b c");
    for options in [&["-o", "cat"][..], &["-o", "json"], &["-F", "MESSAGE"], &["--header"]] {
        let (read, write) = std::io::pipe().expect("a pipe");
        drop(read);
        let child = lab.command(options).stdout(write).stderr(Stdio::piped()).spawn();
        let output = child.expect("it runs").wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{options:?}");
    }
}

/// Of no lines too the cursor says where to go on: behind the last one that fits.
#[test]
fn the_cursor_of_no_lines_is_the_last_one_s() {
    let mut lab = Lab::new("cursor-of-none");
    lab.append("a b c");
    let file = lab.directory.join("cursor");
    let keep = format!("--cursor-file={}", file.display());
    assert_eq!(lab.show(&["-n", "0", "-q", &keep]), "");
    lab.append("d e");
    assert_eq!(lab.show(&["-q", &keep]), "d e");
    let shown = lab.show(&["-n", "0", "-q", "--show-cursor", "MESSAGE=b"]);
    let cursor = shown.strip_prefix("-- cursor: ").expect("one");
    assert_eq!(lab.show(&["--after-cursor", cursor]), "c d e");
    assert_eq!(lab.show(&["-n", "0", "-q", "--show-cursor", "MESSAGE=nosuch"]), "");
}

#[test]
fn a_cursor_of_another_store_is_a_time() {
    let mut lab = Lab::new("foreign");
    lab.append("a b c d");
    let cursor = format!("s={};i=77;t={:x}", "f".repeat(32), 1_700_000_000_000_003u64);
    assert_eq!(lab.show(&["--cursor", &cursor]), "c d");
}

#[test]
fn a_cursor_file_goes_on_where_it_was() {
    let mut lab = Lab::new("file");
    let file = lab.directory.join("cursor");
    let options = ["--cursor-file", file.to_str().expect("UTF-8")];
    lab.append("a b");
    assert_eq!(lab.show(&options), "a b");
    lab.append("c");
    lab.seal();
    assert_eq!(lab.show(&options), "c");
    assert_eq!(lab.show(&options), "");
    std::fs::write(&file, "").expect("a file");
    assert_eq!(lab.show(&options), "a b c", "journalctl takes an empty one for none, too");
    assert_eq!(lab.show(&options), "");
}

/// What has no end is not read to its end.
#[test]
fn a_cursor_file_without_an_end_is_refused() {
    let mut lab = Lab::new("endless-cursor");
    lab.append("a");
    for path in ["/dev/zero", "/dev/full", "/dev/urandom"] {
        let output = lab.command(&["--cursor-file", path]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("Failed to read cursor file"), "{said}");
    }
}

/// `warren-journalctl -f | grep -m1 ready`: nothing more comes, and nobody waits for it.
#[test]
fn who_follows_leaves_when_nobody_reads_any_more() {
    let mut lab = Lab::new("left");
    lab.append("a b");
    let mut child = lab
        .command(&["-f", "-n", "1", "-o", "cat"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("it follows").expect("a line"), "b");
    drop(lines);
    assert!(child.wait().expect("our child").success());
}

#[test]
fn follow_goes_on_when_the_log_is_sealed() {
    let mut lab = Lab::new("follow");
    lab.append("a b");
    let mut child = lab
        .command(&["-f", "-n", "1", "-o", "cat"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("it follows").expect("a line");
    assert_eq!(next(), "b");
    lab.append("c");
    assert_eq!(next(), "c");
    lab.seal();
    lab.append("d e");
    assert_eq!([next(), next()], ["d", "e"]);
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn verify_says_what_is_damaged() {
    let mut lab = Lab::new("verify");
    lab.append("a b");
    lab.seal();
    lab.append("c");
    assert_eq!(lab.run(&["--verify"]).status.code(), Some(0));
    flip(&lab.segment(), 300);
    let output = lab.run(&["--verify"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("ASCII");
    assert!(said.contains("damaged at byte 128") && said.contains("PASS") && said.contains("FAIL"));
    assert_eq!(lab.show(&[]), "c", "the rest is shown");
}

/// The end of a log that was cut is as a crash leaves it: no damage, and it is said.
#[test]
fn verify_says_where_a_log_was_torn() {
    let mut lab = Lab::new("torn");
    lab.append("a");
    let said = |lab: &Lab| String::from_utf8(lab.run(&["--verify"]).stderr).expect("ASCII");
    assert!(!said(&lab).contains("ends at byte"));
    lab.append("b");
    let names = std::fs::read_dir(&lab.directory).expect("listed");
    let mut paths = names.map(|entry| entry.expect("listed").path());
    let log = paths.find(|path| path.extension().is_some_and(|e| e == "log")).expect("a log");
    let file = std::fs::OpenOptions::new().write(true).open(&log).expect("ours");
    file.set_len(file.metadata().expect("there").len() - 1).expect("ours");
    let said = said(&lab);
    assert!(said.contains("ends at byte") && said.contains("PASS"), "{said}");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("readable");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn vacuum_removes_segments_and_no_log() {
    let mut lab = Lab::new("vacuum");
    lab.append("a b");
    lab.seal();
    lab.append("c");
    assert_eq!(lab.run(&["--vacuum-size", "1G", "--vacuum-time", "100y"]).status.code(), Some(0));
    assert_eq!(lab.show(&[]), "a b c");
    let output = lab.run(&["--vacuum-size", "1K"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Vacuuming done, freed"));
    assert_eq!(lab.show(&[]), "c");
    assert_eq!(lab.run(&["--vacuum-size", "x"]).status.code(), Some(1));
}

#[test]
fn files_of_ours_are_read_by_name() {
    let mut lab = Lab::new("named");
    lab.append("a b");
    lab.seal();
    lab.append("c d");
    let segment = lab.segment();
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journalctl"));
        command.args(options).output().expect("it runs")
    };
    let show = |file: &str| {
        let shown = run(&["-o", "cat", "--file", file]);
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8(shown.stdout).expect("ASCII").trim_end().replace('\n', " ")
    };
    let directory = lab.directory.display();
    assert_eq!(show(&segment.display().to_string()), "a b");
    assert_eq!(show(&format!("{directory}/*.log")), "c d");
    assert_eq!(show(&format!("{directory}/*")), "a b c d");
    let header = run(&["--header", "--file", &segment.display().to_string()]);
    assert_eq!(String::from_utf8_lossy(&header.stdout).matches("File path:").count(), 1);
    flip(&segment, 300);
    assert!(run(&["--verify", "--file", &format!("{directory}/*.log")]).status.success());
    assert!(!run(&["--verify", "--file", &segment.display().to_string()]).status.success());
    assert!(!run(&["--vacuum-files=1", "--file", &format!("{directory}/*")]).status.success());
}

/// Open files of a process that are in a directory, those that were removed among them.
fn open_files(pid: u32, directory: &Path) -> usize {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let paths = links.flatten().filter_map(|link| std::fs::read_link(link.path()).ok());
    paths.filter(|path| path.starts_with(directory)).count()
}

#[test]
fn a_reader_that_pauses_keeps_nothing_back_when_it_goes_on() {
    let mut lab = Lab::new("pause");
    lab.append("a b");
    let mut child = lab
        .command(&["-f", "-n", "1", "-o", "cat"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("it follows").expect("a line");
    assert_eq!(next(), "b");
    let stop = |signal| {
        warren_sys::process::kill(child.id() as i32, signal).expect("our child");
    };
    use warren_sys::signal::{SIGCONT, SIGSTOP};
    stop(SIGSTOP);
    // What it has not seen is sealed, and sealed again, and what it had open is removed.
    for round in 0..40 {
        lab.append(&format!("lost{round}"));
        lab.seal();
    }
    let before = open_files(child.id(), &lab.directory);
    assert_eq!(lab.run(&["--vacuum-files", "1"]).status.code(), Some(0));
    assert_eq!(open_files(child.id(), &lab.directory), before, "it was stopped");
    lab.append("new");
    stop(SIGCONT);
    // The newest segment was left; nothing after it is missed.
    assert_eq!([next(), next()], ["lost39", "new"]);
    lab.append("newer");
    assert_eq!(next(), "newer");
    let after = open_files(child.id(), &lab.directory);
    assert!(after <= 4, "{after} files for a log and a segment");
    child.kill().expect("our child");
    child.wait().expect("our child");
}

/// Files that make no room while a reader has them open are those that it saw when it began.
#[test]
fn a_reader_whose_output_is_not_read_has_what_there_was_when_it_began() {
    let mut lab = Lab::new("unread");
    // More than a pipe takes.
    let word = |number: usize| format!("{number}{}", "x".repeat(1000));
    let old: Vec<String> = (0..400).map(word).collect();
    for part in old.chunks(100) {
        lab.append(&part.join(" "));
        lab.seal();
    }
    let mut child =
        lab.command(&["-q", "-o", "cat"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut shown = vec![lines.next().expect("it reads").expect("a line")];
    // It waits: the pipe is full.
    warren_testkit::wait_until("the reader waits for its pipe", || state(child.id()) == 'S');
    let before = open_files(child.id(), &lab.directory);
    assert!((1..=5).contains(&before), "{before} files for four segments");
    let memory = resident_pages(child.id());
    for round in 0..200 {
        lab.append(&word(1000 + round));
        lab.seal();
        if round % 10 == 9 {
            assert_eq!(lab.run(&["--vacuum-files", "1"]).status.code(), Some(0));
        }
    }
    assert_eq!(open_files(child.id(), &lab.directory), before);
    assert_eq!(resident_pages(child.id()), memory, "nothing comes to one who waits");
    shown.extend(lines.map(|line| line.expect("a line")));
    assert_eq!(shown, old);
    assert!(child.wait().expect("our child").success());
}

/// `S`: a process sleeps; proc(5).
fn state(pid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after_name = text.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    after_name.expect("proc(5)")
}

/// Pages of a process that are in memory, of its own.
fn resident_pages(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    let mut numbers = text.split(' ').filter_map(|number| number.parse::<u64>().ok());
    let (_size, resident, shared) = (numbers.next(), numbers.next(), numbers.next());
    resident.zip(shared).map(|(all, shared)| all - shared).expect("proc(5)")
}

#[test]
fn what_is_not_there_is_refused() {
    let lab = Lab::new("refused");
    let bad = [&["--force"][..], &["--verify-key=x"], &["--file", "x"], &["-u", "[ab]"]];
    for options in bad.into_iter().chain([&["--machine=x"][..], &["--verify", "--verify-key=x"]]) {
        assert!(!lab.run(options).status.success(), "{options:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journalctl"));
    let verified = command.args(["--verify", "--file", "/etc/passwd"]).output().expect("it runs");
    assert!(!verified.status.success(), "it is not ours to verify");
}

#[test]
fn what_is_exported_is_imported_as_it_was() {
    let mut lab = Lab::new("import");
    lab.append("one two three");
    lab.seal();
    lab.append("four");
    let exported = lab.run(&["-o", "export"]).stdout;
    let exported = String::from_utf8(exported).expect("ASCII");
    let (file, target) = (lab.directory.join("exported"), lab.directory.join("imported"));
    std::fs::write(&file, &exported).expect("a file");
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journalctl"));
        command.arg("-D").arg(&target).args(options);
        command.output().expect("it runs")
    };
    let import = run(&["--import", &file.display().to_string()]);
    assert_eq!(String::from_utf8_lossy(&import.stderr), "4 entries imported.\n");
    let without_cursors = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("__CURSOR="));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let again = String::from_utf8_lossy(&run(&["-o", "export"]).stdout).into_owned();
    assert_eq!(without_cursors(&again), without_cursors(&exported));
    assert!(run(&["--verify"]).status.success());
    let refused = run(&["-Mx"]);
    assert!(!refused.status.success());
    let said = "--machine: a nested machine's log is shown by `warren -M NAME logs`\n";
    assert_eq!(String::from_utf8_lossy(&refused.stderr), said);
    // Half of a file gives what is whole in it.
    std::fs::write(&file, &exported[..exported.len() / 2]).expect("a file");
    let half = run(&["--import", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&half.stderr).into_owned();
    assert!(!half.status.success(), "{said}");
    assert!(said.contains("the stream ends within a field"), "{said}");
    let more = String::from_utf8_lossy(&run(&["-o", "cat"]).stdout).lines().count();
    assert!((5..8).contains(&more), "{more} entries");
}
