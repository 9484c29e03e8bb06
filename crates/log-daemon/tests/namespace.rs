//! Daemons of two namespaces below one root, and the reader that tells them apart.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};

#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;
use warren_testkit::Scratch;

/// A root that goes away in the end, with the daemons in it.
struct Lab {
    root: Scratch,
    daemons: Vec<Child>,
}

impl Lab {
    fn new(name: &str) -> Lab {
        let root = Scratch::new(&format!("space-{name}"));
        std::fs::create_dir_all(root.join("etc/warren")).expect("a directory");
        Lab { root, daemons: Vec::new() }
    }

    /// Starts the daemon of a namespace and comes back when it is ready.
    fn start(&mut self, namespace: Option<&str>) {
        let notify = self.root.join("notify");
        let _ = std::fs::remove_file(&notify);
        let listener = UnixDatagram::bind(&notify).expect("a socket");
        let child = Command::new(env!("CARGO_BIN_EXE_warren-journald"))
            .args(["--set", "ReadKMsg=no", "--set", "ForwardToWall=no", "--root"])
            .arg(&self.root)
            .args(namespace)
            .env("NOTIFY_SOCKET", &notify)
            .spawn();
        self.daemons.push(child.expect("the daemon starts"));
        let mut said = [0; 64];
        loop {
            let count = listener.recv(&mut said).expect("it says something");
            if said[..count].starts_with(b"READY=1") {
                return;
            }
        }
    }

    fn send(&self, sockets: &str, text: &str) {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.connect(self.root.join(sockets).join("socket")).expect("the daemon listens");
        socket.send(format!("MESSAGE={text}\n").as_bytes()).expect("sent");
    }

    /// What the reader shows, in one line.
    fn show(&self, options: &[&str]) -> String {
        let mut command = Command::new(journalctl());
        command.arg("--root").arg(&self.root).args(["-q", "-o", "cat"]).args(options);
        // Not what the daemons say themselves.
        command.arg("_TRANSPORT=journal");
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().replace('\n', " ")
    }

    /// There are files of a log in that directory.
    fn has(&self, path: &str) -> bool {
        let files = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|path| path.extension().is_some_and(|e| e == "log"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn a_namespace_has_a_store_sockets_and_settings_of_its_own() {
    let mut lab = Lab::new("own");
    std::fs::create_dir_all(lab.root.join("var/log/warren")).expect("a directory");
    let settings = "[Journal]\nMaxLevelStore=warning\n";
    std::fs::write(lab.root.join("etc/warren/journald@b.conf"), settings).expect("a file");
    [None, Some("a"), Some("b")].into_iter().for_each(|namespace| lab.start(namespace));
    // Each is in before the next one is sent: who shows asks for it.
    lab.send("run/systemd/journal", "default");
    assert_eq!(lab.show(&[]), "default");
    lab.send("run/systemd/journal.a", "of-a");
    assert_eq!(lab.show(&["--namespace=a"]), "of-a");
    lab.send("run/systemd/journal.b", "info-of-b");
    lab.send("run/systemd/journal.b", "bad\nPRIORITY=3");
    assert_eq!(lab.show(&["--namespace=b"]), "bad", "what its own settings leave");
    assert_eq!(lab.show(&["--namespace=+a"]), "default of-a");
    assert_eq!(lab.show(&["--namespace=*"]), "default of-a bad");
    assert_eq!(lab.show(&["--namespace="]), "default");
    assert_eq!(lab.show(&["--namespace=none"]), "");
    assert_eq!(lab.show(&["--namespace=*", "-F", "_NAMESPACE"]), "a b");
    assert!(lab.has("var/log/warren.a") && !lab.has("run/log/warren/journal.a"), "on the disk");
    assert!(lab.has("run/log/warren/journal"), "nobody has said that /var is there");
    lab.show(&["--namespace=a", "--rotate"]);
    lab.send("run/systemd/journal.a", "more");
    assert_eq!(lab.show(&["--namespace=a"]), "of-a more");
}

#[test]
fn a_namespace_without_a_name_is_refused() {
    for bad in ["", ".x", "a/b", "a b", &"x".repeat(65)] {
        let status = Command::new(env!("CARGO_BIN_EXE_warren-journald")).arg(bad).status();
        assert_eq!(status.expect("it runs").code(), Some(2), "{bad}");
    }
}
