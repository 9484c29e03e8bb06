//! The installed systemctl against this bus, in a mount namespace of its own.
mod support;
use support::*;

#[test]
fn explore() {
    let dir = TempDir::new("explore");
    let machine = Machine::new(include_str!("units.txt"));
    machine.serve(&dir.socket());
    machine.start("rich.service");
    for u in
        ["fail.service", "a.service", "s.socket", "mnt.automount", "one.service", "foo-bar.slice"]
    {
        machine.start(u);
    }
    let out = std::process::Command::new("unshare").args(["-m", "sh", "-c", &format!(
      "mount -t tmpfs none /run && mkdir -p /run/systemd/system && ln -s {} /run/systemd/private && {}", dir.socket().display(), std::env::var("CMD").unwrap())]).status();
    println!("{out:?}");
    machine.stop();
}
