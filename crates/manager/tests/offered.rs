//! File descriptors that others send hold nobody up, whatever their files do: those of a server that does not answer
//! cannot even be closed.

mod lab;

use lab::Machine;

const SERVER: &str = "[Service]\nType=notify\nExecStart=@P files:/run/files";

/// `server.service`, which is told to stop for a while, and `plain.service`, which is started meanwhile.
fn machine(name: &str) -> Option<Machine> {
    if !std::path::Path::new("/dev/fuse").exists() {
        lab::not_run(name, "/dev/fuse");
        return None;
    }
    let plain = "[Service]\nType=notify\nExecStart=@P ready stay";
    let m = Machine::start(name, &[("server.service", SERVER), ("plain.service", plain)])?;
    m.run(&["mkfifo", "/run/gate"]).expect("mkfifo(1)");
    m.expect_job("start", "server.service", "done");
    Some(m)
}

/// Lets whoever waits at the fifo go on.
fn open_gate(m: &Machine) {
    m.run(&["sh", "-c", "echo > /run/gate"]).expect("somebody reads it");
}

fn server(m: &Machine) -> String {
    m.main_pid("server.service").expect("it runs").to_string()
}

#[test]
fn a_stranger_cannot_stop_the_manager_with_a_file_that_cannot_be_closed() {
    let Some(m) = machine("offered-stranger") else { return };
    let player = lab::player();
    let argv =
        ["env", "NOTIFY_SOCKET=/run/systemd/notify", &player, "offer:/run/files/file:/run/gate"];
    let mut stranger = m.spawn(&argv);
    open_gate(&m);
    let server = server(&m);
    m.stop_server(&server);
    open_gate(&m);
    m.expect_job("restart", "plain.service", "done");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    m.run(&["kill", "-CONT", &server]).expect("it is there");
    assert!(stranger.wait().expect("our child").success());
}
