//! Ground for file systems of a test's own: a shell in a mount namespace that ends with it, so that
//! nothing is left over, whatever becomes of the test.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::daemon_lab::Lab;

/// The shell, which works in the directory of a lab.
pub struct Ground {
    shell: Child,
    answers: Lines<BufReader<ChildStdout>>,
    root: PathBuf,
}

impl Ground {
    /// `None` where a namespace cannot be had.
    pub fn make(lab: &Lab) -> Option<Ground> {
        let mut shell = Command::new("unshare")
            .args(["-m", "--propagation", "private", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let answers = BufReader::new(shell.stdout.take()?).lines();
        Some(Ground { shell, answers, root: lab.root.to_path_buf() })
    }

    /// Whether a script ends well.
    pub fn run(&mut self, script: &str) -> bool {
        let root = self.root.display();
        let stdin = self.shell.stdin.as_mut().expect("piped");
        let line = format!("( cd {root} && {script} ) </dev/null >/dev/null 2>&1; echo $?\n");
        if stdin.write_all(line.as_bytes()).is_err() {
            return false;
        }
        matches!(self.answers.next(), Some(Ok(status)) if status == "0")
    }

    /// A program that sees what is mounted there.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-m", "-t", &self.shell.id().to_string(), program]);
        command
    }

    /// Starts a daemon whose store is `store/log`, and comes back when it is ready.
    pub fn start(&self, lab: &mut Lab, options: &[&str]) {
        let mut command = self.inside(env!("CARGO_BIN_EXE_warren-journald"));
        command.arg("--directory").arg(lab.path("store/log"));
        command.arg("--socket-directory").arg(lab.path("run")).args(options);
        let listener = lab.spawn_command(command);
        listener.recv(&mut [0; 64]).expect("it says that it is ready");
    }

    /// What is mounted there, as seen from outside of the namespace.
    pub fn seen(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        let inside = path.strip_prefix("/").expect("absolute");
        Path::new("/proc").join(self.shell.id().to_string()).join("root").join(inside)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
