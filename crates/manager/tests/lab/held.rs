//! Processes that the kernel holds: they have asked a file system whose server does not answer.

use std::process::{Child, Command, Stdio};

use super::{Machine, player, until};

/// One that is none of the machine's, so that nothing of it ends it. Its mount is given up with it, which lets go
/// who waits for it.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Machine {
    /// Mounts the files of the player's `files` at `/run/files`.
    #[track_caller]
    pub fn serve_files(&self) -> Server {
        std::fs::create_dir(self.inside("/run/files")).expect("a directory can be made");
        let target = format!("--target={}", self.init_pid);
        let mut command = Command::new("nsenter");
        command.args([&target, "--mount", &player(), "files:/run/files"]);
        let server = Server(command.stdout(Stdio::null()).spawn().expect("nsenter(1)"));
        until("it is mounted", || self.run(&["mountpoint", "-q", "/run/files"]).ok());
        server
    }

    /// Waits until the only process of this name waits for its server.
    #[track_caller]
    pub fn wait_until_held(&self, name: &str) {
        let look = format!("cat /proc/$(pidof {name})/wchan");
        let waits_at = || self.run(&["sh", "-c", &look]).unwrap_or_default();
        until("it waits for the server", || waits_at().contains("request_wait").then_some(()));
    }
}
