//! Commands on the pages of the book, run: each block of a page that says `sh run` behind its fence is run line by line in
//! a nested machine, and each command ends as the page says.
//!
//! Behind `run` may stand `exits=0,3,on`: the exit statuses of the commands in their order, 0 for the rest, and `on` for
//! one that goes on until the page is over. A block `text file=PATH` is written to that file. A block `text of-last` is what the last command prints, whatever the numbers
//! are; `...` in it stands for lines that are left out. `<!-- run: COMMAND -->` is run too and not shown: what a page tells
//! people to do by hand. The machine has the units of `pages/units`, and those of `pages/NAME` for the page of that name;
//! commands begin in a directory with the same files, and `pages/NAME/setup.sh` is run there first; `$EXAMPLES` are the
//! examples of this repository. Nothing of what they write is kept.

mod real;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use warren_cli::nest::started::{Nested, Start};
use warren_testkit::{Scratch, WAIT_MAX};

/// Pages with blocks for a shell that are not run, and why not.
const NOT_RUN: [(&str, &str); 12] = [
    ("chart", "a boot before this one is compared, and recordings that are kept"),
    ("hosts", "it takes a store and several hosts: crates/agent/tests does that"),
    (
        "in-place",
        "it changes what the host boots: scripts/try-host.sh does that in a virtual machine",
    ),
    (
        "logs",
        "what seals, serves and sends the log are other programs: crates/log-net/tests has them",
    ),
    ("metrics", "an installed exporter is asked: crates/exporter/tests has it"),
    ("nested", "without root a manager of systemd gives it cgroups"),
    ("packages", "packages are built and installed: scripts/try-packages.sh does that"),
    (
        "shutdown",
        "the machine shuts down: crates/manager/tests/shutdown.rs has that; and a service says that it is clean",
    ),
    ("tutorial", "`make run` builds all programs: crates/cli/tests/nested.rs runs the tour"),
    ("unit-files", "commands run for minutes: crates/cli/tests/new.rs has shorter ones"),
    ("upgrade", "`make install` changes the host"),
    ("web", "the page is another program: crates/web/tests has it"),
];

/// How long what goes on may take until others can talk to it.
const UP_MAX: Duration = Duration::from_secs(20);

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

/// Units and files for the pages.
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages")
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Exits(i32),
    GoesOn,
}

/// What is done with a page, in its order.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A command is run; the line that it begins on, from 1.
    Run(usize, String, End),
    /// The last command printed lines like these.
    Printed(usize, Vec<String>),
    /// A file has this text.
    Write(String, String),
}

/// What there is to do, and how many blocks for a shell there is nothing to do with.
fn steps(page: &str) -> (Vec<Step>, usize) {
    let (mut steps, mut left_out) = (Vec::new(), 0);
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(hidden) = line.strip_prefix("<!-- run: ") {
            let command = hidden.trim_end().trim_end_matches("-->").trim().to_owned();
            steps.push(Step::Run(number, command, End::Exits(0)));
        }
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<(&str, usize)> =
            lines.by_ref().take_while(|(line, _)| !line.starts_with("```")).collect();
        let mut words = info.split(' ');
        let whole = || block.iter().map(|(line, _)| format!("{line}\n")).collect();
        match (words.next(), words.next()) {
            (Some("text"), Some(word)) if word.starts_with("file=") => {
                steps.push(Step::Write(word.trim_start_matches("file=").to_owned(), whole()));
            }
            (Some("sh"), Some("run")) => steps.extend(commands(&block, words.next())),
            (Some("sh"), _) => left_out += 1,
            (Some("text"), Some("of-last")) => {
                let lines = block.iter().map(|(line, _)| (*line).to_owned()).collect();
                steps.push(Step::Printed(number, lines));
            }
            _ => {}
        }
    }
    (steps, left_out)
}

/// The commands of a block: one goes on behind a backslash, and to the end of what it reads.
fn commands(block: &[(&str, usize)], exits: Option<&str>) -> Vec<Step> {
    let mut ends =
        exits.and_then(|exits| exits.strip_prefix("exits=")).unwrap_or_default().split(',');
    let mut out = Vec::new();
    let mut lines = block.iter();
    while let Some((line, number)) = lines.next() {
        let mut command = (*line).to_owned();
        while command.ends_with('\\')
            && let Some((more, _)) = lines.next()
        {
            command += &format!("\n{more}");
        }
        if let Some((_, word)) = line.split_once("<<") {
            for (text, _) in lines.by_ref() {
                command += &format!("\n{text}");
                if text == &word {
                    break;
                }
            }
        }
        let end = match ends.next() {
            Some("on") => End::GoesOn,
            Some(status) if !status.is_empty() => End::Exits(status.parse().expect("a status")),
            _ => End::Exits(0),
        };
        out.push(Step::Run(*number, command, end));
    }
    out
}

/// A line whatever its numbers, times and columns are.
fn shape(line: &str) -> String {
    const TIMES: [&str; 3] = ["us", "ms", "s"];
    let mut out = String::new();
    for word in line.split_whitespace() {
        let mut word: String =
            word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        while word.contains("00") || word.contains("0.0") {
            word = word.replace("00", "0").replace("0.0", "0");
        }
        let bare = word.trim_end_matches([',', '.', ';', ')']);
        if TIMES.contains(&bare) && out.ends_with('0') {
            word = word.replacen(bare, "TIME", 1);
        }
        out += &format!(" {word}");
    }
    out
}

/// The first line of a page that is not among those that were printed, in this order.
fn missing<'l>(shown: &'l [String], printed: &str) -> Option<&'l str> {
    let mut printed = printed.lines().map(shape);
    let is_there = |line: &String| line == "..." || printed.any(|other| other == shape(line));
    let mut is_there = is_there;
    shown.iter().find(|line| !is_there(line)).map(String::as_str)
}

/// A machine for a page; it ends with the test.
struct Machine {
    nested: Option<Nested>,
    name: String,
    directory: Scratch,
    /// Commands that go on.
    running: Vec<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.nested.take().into_iter().for_each(Nested::kill);
        for child in &mut self.running {
            let _ = child.wait();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&to).expect("a directory");
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).expect("it can be copied");
        }
    }
}

impl Machine {
    fn start(page: &str) -> Machine {
        let name = format!("page-{page}-{}", std::process::id());
        let (directory, log) = (Scratch::new(&name), Scratch::new(&format!("{name}-log")));
        for files in [files().join("units"), files().join(page)] {
            copy(&files, &directory.0);
        }
        let words: [&OsStr; 4] =
            ["--quiet".as_ref(), "--ephemeral".as_ref(), "--units".as_ref(), directory.0.as_ref()];
        let nested = Nested::start(&Start {
            program: Path::new(env!("CARGO_BIN_EXE_warren")),
            name: &name,
            arguments: words.map(Into::into).to_vec(),
            scratch: &log.0,
            ready_within: WAIT_MAX,
        });
        let nested = Some(nested.expect("the machine comes up"));
        Machine { nested, name, directory, running: Vec::new() }
    }

    fn command(&self, command: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_warren")).parent().expect("a directory");
        let script = format!(
            "export PATH={}:$PATH EXAMPLES={}; cd {}\n{command}",
            programs.display(),
            book().join("../../examples").display(),
            self.directory.display()
        );
        let mut out = Command::new(env!("CARGO_BIN_EXE_warren"));
        out.args(["-M", &self.name, "enter", "timeout", "60", "sh", "-c", &script]);
        out.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        out
    }

    fn run(&self, command: &str) -> Output {
        self.command(command).output().expect("it can be run")
    }

    /// Again until it exits so, for some time at most.
    fn run_until(&self, command: &str, status: i32, patience: Duration) -> Output {
        let begun = Instant::now();
        loop {
            let output = self.run(command);
            if output.status.code() == Some(status) || begun.elapsed() >= patience {
                return output;
            }
        }
    }

    fn start_command(&mut self, command: &str) {
        let mut command = self.command(command);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.running.push(child.expect("it can be started"));
    }
}

/// What goes wrong on a page.
fn faults(page: &str, steps: &[Step]) -> Vec<String> {
    let mut machine = Machine::start(page);
    if files().join(page).join("setup.sh").exists() {
        let made = machine.run("sh -e ./setup.sh");
        assert!(made.status.success(), "{page}: setup.sh: {}", text(&made));
    }
    let (mut faults, mut printed, mut is_after_one_that_goes_on) =
        (Vec::new(), String::new(), false);
    for step in steps {
        match step {
            Step::Run(_, command, End::GoesOn) => {
                machine.start_command(command);
                is_after_one_that_goes_on = true;
            }
            Step::Run(line, command, End::Exits(status)) => {
                // What it talks to may take a moment to come up.
                let is_early = std::mem::take(&mut is_after_one_that_goes_on);
                let patience = if is_early { UP_MAX } else { Duration::ZERO };
                let output = machine.run_until(command, *status, patience);
                printed = text(&output);
                if output.status.code() != Some(*status) {
                    let code = output.status.code();
                    faults
                        .push(format!("{page}:{line}: {command}: exits with {code:?}: {printed}"));
                }
            }
            Step::Write(path, text) => {
                let write =
                    format!("mkdir -p $(dirname {path}) && cat > {path} <<'EOF'\n{text}EOF");
                let written = machine.run(&write);
                assert!(written.status.success(), "{page}: {path}: {written:?}");
            }
            Step::Printed(line, shown) => {
                if let Some(missing) = missing(shown, &printed) {
                    faults.push(format!("{page}:{line}: not printed: {missing}\n{printed}"));
                }
            }
        }
    }
    for (number, child) in machine.running.iter_mut().enumerate() {
        if let Ok(Some(status)) = child.try_wait() {
            faults
                .push(format!("{page}: command {number} of those that go on has ended: {status}"));
        }
    }
    faults
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// The pages that people read, by their names.
fn pages() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for directory in [book(), book().join("howto")] {
        for entry in std::fs::read_dir(directory).expect("the book is there").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                out.insert(name, std::fs::read_to_string(path).expect("text"));
            }
        }
    }
    out
}

#[test]
fn a_page_runs_all_of_its_commands_or_says_why_not() {
    let not_run: BTreeMap<&str, &str> = NOT_RUN.into();
    assert_eq!(not_run.len(), NOT_RUN.len(), "each once");
    let mut faults = Vec::new();
    for (page, text) in &pages() {
        let left_out = steps(text).1;
        match (left_out, not_run.get(page.as_str())) {
            (0, Some(_)) => faults.push(format!("{page}: all is run, and the list says why not")),
            (1.., None) => faults.push(format!("{page}: {left_out} blocks are not run")),
            _ => {}
        }
    }
    let known = pages();
    faults.extend(
        NOT_RUN
            .iter()
            .filter(|(page, _)| !known.contains_key(*page))
            .map(|(page, _)| format!("{page}: there is no such page")),
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_of_pages_end_as_the_pages_say() {
    let test = "commands_of_pages_end_as_the_pages_say";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    let only = std::env::var("WARREN_PAGE").ok();
    let (mut all, mut commands) = (Vec::new(), 0);
    for (page, text) in pages() {
        let (steps, _) = steps(&text);
        if steps.is_empty() || only.as_ref().is_some_and(|only| *only != page) {
            continue;
        }
        commands += steps.iter().filter(|step| matches!(step, Step::Run(..))).count();
        all.extend(faults(&page, &steps));
    }
    println!("{commands} commands were run");
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(only.is_some() || commands > 40, "{commands} commands");
}

#[test]
fn pages_are_read() {
    let page = "\
text
```sh run exits=0,3,on
warren a   # what it is
cat > x <<EOF
[Unit]
EOF
warren b \\
    --more
warren c
```
<!-- run: sed -i s/a/b/ x -->
```text of-last
1 of 20  units
```
```text file=a/b
one

two
```
```sh
make x
```
";
    let run = |line, command: &str, end| Step::Run(line, command.to_owned(), end);
    let expected = vec![
        run(3, "warren a   # what it is", End::Exits(0)),
        run(4, "cat > x <<EOF\n[Unit]\nEOF", End::Exits(3)),
        run(7, "warren b \\\n    --more", End::GoesOn),
        run(9, "warren c", End::Exits(0)),
        run(11, "sed -i s/a/b/ x", End::Exits(0)),
        Step::Printed(12, vec!["1 of 20  units".to_owned()]),
        Step::Write("a/b".to_owned(), "one\n\ntwo\n".to_owned()),
    ];
    assert_eq!(steps(page), (expected, 1));
}

#[test]
fn what_is_printed_is_compared_whatever_its_numbers_are() {
    let shown: Vec<String> = ["a 12 b", "...", "  c  3.45 ms, it is"].map(str::to_owned).into();
    assert_eq!(missing(&shown, "x\na   7 b\ny\nc 15 us, it is\n"), None);
    assert_eq!(missing(&shown, "c 1.1 s, it is\na 7 b\n"), Some("  c  3.45 ms, it is"));
    assert_eq!(missing(&shown, ""), Some("a 12 b"));
}
