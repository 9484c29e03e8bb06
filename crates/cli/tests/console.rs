//! `warren top` on a terminal, and what commands say there while they wait: with the real manager, and with one that
//! says nothing.
//!
//! The test holds the other end of the terminal and reads the screen as a terminal does. It asks for the manager's
//! programs beside the command (`cargo build --workspace`); where they are missing, it says NOT RUN and why.

mod real;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use real::lacks;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use warren_sys::signal::{SIGINT, SIGKILL, SIGTERM, SIGWINCH};
use warren_testkit::{Scratch, wait_for_or, wait_until};

/// A terminal, what runs on it, and what it shows.
struct Console {
    child: Child,
    /// None once the terminal is gone.
    master: Option<File>,
    /// The program's end, to look at its modes.
    slave: Option<OwnedFd>,
    before: Termios,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Nobody reads what is written.
    is_slow: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Console {
    fn start(
        arguments: &[&str],
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Console {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
        let name =
            ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("a path");
        let open = || File::options().read(true).write(true).open(&name).expect("it can be opened");
        let slave = OwnedFd::from(open());
        set_size(&slave, (columns, rows));
        let before = tcgetattr(&slave).expect("modes");
        // The terminal is to be the controlling one, so that it hangs up as one does.
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_warren")]).args(arguments);
        command.env("LANG", "C.UTF-8").env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        command.stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().expect("setsid(1) runs it");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (is_slow, is_over) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let of_thread = (File::from(master.try_clone().expect("a descriptor")), screen.clone());
        let flags = (is_slow.clone(), is_over.clone());
        let reader =
            std::thread::spawn(move || read(of_thread.0, &of_thread.1, &flags.0, &flags.1));
        let (master, slave) = (Some(File::from(master)), Some(slave));
        Console { child, master, slave, before, screen, is_slow, is_over, reader: Some(reader) }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn text(&self) -> String {
        self.screen.lock().expect("no thread panicked").screen().contents()
    }

    fn press(&self, keys: &str) {
        let mut master = self.master.as_ref().expect("it is there");
        master.write_all(keys.as_bytes()).expect("it is typed");
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let look = || self.text().contains(text).then_some(());
        wait_for_or(&format!("{text:?} on the screen"), look, || self.text());
    }

    fn resize(&self, size: (u16, u16)) {
        let (columns, rows) = size;
        let mut screen = self.screen.lock().expect("no thread panicked");
        screen.screen_mut().set_size(rows, columns);
        drop(screen);
        set_size(self.slave.as_ref().expect("it is there"), size);
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("the end of the console", || {
            ended = self.child.try_wait().expect("it can be waited for");
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// Ends with success, and the terminal is as it was before.
    #[track_caller]
    fn leaves_the_terminal_as_it_was(&mut self) {
        let status = self.ends();
        assert_eq!(status.code(), Some(0), "{}", self.text());
        let now = tcgetattr(self.slave.as_ref().expect("it is there")).expect("modes");
        let modes = |of: &Termios| (of.local_modes, of.input_modes, of.output_modes);
        assert_eq!(modes(&now), modes(&self.before));
        assert!(now.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON));
        if self.is_slow.load(Ordering::Relaxed) {
            return;
        }
        let look = || {
            let screen = self.screen.lock().expect("no thread panicked");
            (!screen.screen().alternate_screen() && !screen.screen().hide_cursor()).then_some(())
        };
        wait_for_or("the first screen, with a cursor", look, || self.text());
    }

    /// The other end goes, as when a connection breaks.
    fn hang_up(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it ends");
        }
        (self.master, self.slave) = (None, None);
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = warren_sys::process::kill(self.pid(), SIGKILL);
        let _ = self.child.wait();
        self.hang_up();
    }
}

fn set_size(terminal: impl AsFd, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("it takes a size");
}

fn read(
    mut master: File,
    screen: &Mutex<vt100::Parser>,
    is_slow: &AtomicBool,
    is_over: &AtomicBool,
) {
    let moment = Duration::from_millis(10);
    let mut bytes = [0; 4096];
    while !is_over.load(Ordering::Relaxed) {
        if is_slow.load(Ordering::Relaxed) {
            std::thread::park_timeout(moment);
            continue;
        }
        if warren_sys::fdpass::wait_readable(master.as_fd(), moment).unwrap_or(false) {
            let Ok(count) = master.read(&mut bytes) else { return };
            screen.lock().expect("no thread panicked").process(&bytes[..count]);
        }
    }
}

/// A manager that answers nothing, but for the first question of a console: whoever asks again waits.
fn silent_manager(scratch: &Scratch) -> PathBuf {
    let socket = scratch.0.join("control");
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).expect("the socket can be made");
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            if silent.is_empty() {
                let mut request = [0; 4096];
                let _ = (&stream).read(&mut request);
                let _ = (&stream).write_all(b"{\"parameters\":{\"jobs\":0}}\0");
            }
            silent.push(stream);
        }
    });
    socket
}

#[test]
fn keys_go_on_working_though_the_manager_does_not_answer_and_every_end_restores_the_terminal() {
    let scratch = Scratch::new("console");
    let start = || {
        let socket = silent_manager(&scratch);
        Console::start(&["--socket", socket.to_str().expect("text"), "top"], (80, 24), &[])
    };

    let mut console = start();
    console.shows("the manager does not respond");
    console.press("?");
    console.shows("any key closes this");
    console.press("x3/wéb");
    console.shows("/wéb_");
    // Both at once, as they may come over a slow connection.
    console.press("\x1bq");
    console.leaves_the_terminal_as_it_was();

    let mut console = start();
    console.shows("[3 Units]");
    console.press("\x03");
    console.leaves_the_terminal_as_it_was();

    for signal in [SIGTERM, SIGINT] {
        let mut console = start();
        console.shows("[3 Units]");
        warren_sys::process::kill(console.pid(), signal).expect("it is there");
        console.leaves_the_terminal_as_it_was();
    }

    let mut console = start();
    console.shows("[3 Units]");
    console.hang_up();
    console.ends();
}

#[test]
fn a_terminal_may_change_its_size_be_tiny_and_take_nothing() {
    let scratch = Scratch::new("console-size");
    let socket = silent_manager(&scratch);
    let socket = socket.to_str().expect("text");
    let mut console = Console::start(&["--socket", socket, "top"], (80, 24), &[]);
    console.shows("6 Templates");
    console.resize((10, 3));
    wait_until("a tiny screen", || {
        console.text().contains("? keys") && !console.text().contains("Units")
    });
    console.resize((200, 60));
    console.shows("RESTARTS");

    // More than a terminal holds while nobody reads: frames are left out, keys and signals are not.
    console.is_slow.store(true, Ordering::Relaxed);
    for size in (0..60).map(|n| (200 - n, 60)) {
        console.resize(size);
        warren_sys::process::kill(console.pid(), SIGWINCH).expect("it is there");
        console.press("1234?x");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    warren_sys::process::kill(console.pid(), SIGTERM).expect("it is there");
    console.leaves_the_terminal_as_it_was();
}

/// One with the coordinate 0 ended the thread that reads keys: the console took no key any more.
#[test]
fn whatever_a_terminal_sends_keys_go_on() {
    let scratch = Scratch::new("console-rubbish");
    let socket = silent_manager(&scratch);
    let socket = socket.to_str().expect("text");
    let mut console = Console::start(&["--socket", socket, "top"], (80, 24), &[]);
    console.shows("[3 Units]");
    for rubbish in [
        "\x1b[<0;0;0M",
        "\x1b[<0;0;5M\x1b[<64;0;0M",
        "\x1b[M   ",
        "\x1b[0;0R\x1b[0;0;0M",
        "\x1b]0;qqq\x07\x1bPq\x1b\\",
        "\x1b[9999999999999999999999999999999999999999;1~",
    ] {
        console.press(rubbish);
        console.press("2");
        console.shows("[2 Jobs]");
        console.press("3");
        console.shows("[3 Units]");
    }
    console.press("q");
    console.leaves_the_terminal_as_it_was();
}

#[test]
fn a_dumb_terminal_gets_a_list_and_no_colour_means_none() {
    let scratch = Scratch::new("console-dumb");
    let start = |variable| {
        let socket = silent_manager(&scratch);
        Console::start(&["--socket", socket.to_str().expect("text"), "top"], (80, 24), &[variable])
    };
    let mut console = start(("TERM", "dumb"));
    console.shows("warren top  idle");
    console.leaves_the_terminal_as_it_was();
    let mut console = start(("NO_COLOR", "1"));
    console.shows("[3 Units]");
    let screen = console.screen.lock().expect("no thread panicked");
    let colours = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
    let is_plain = |(row, column)| {
        screen.screen().cell(row, column).is_none_or(|cell| cell.fgcolor() == vt100::Color::Default)
    };
    assert!(colours.into_iter().all(is_plain));
    drop(screen);
    console.press("q");
    console.leaves_the_terminal_as_it_was();
}

#[test]
fn the_mouse_is_asked_for_and_given_back() {
    let scratch = Scratch::new("console-mouse");
    let start = |more: &[&str]| {
        let socket = silent_manager(&scratch);
        let words = [&["--socket", socket.to_str().expect("text"), "top"], more].concat();
        Console::start(&words, (80, 24), &[])
    };
    let mode = |console: &Console| {
        console.screen.lock().expect("no thread panicked").screen().mouse_protocol_mode()
    };
    let mut console = start(&[]);
    console.shows("[3 Units]");
    assert_eq!(mode(&console), vt100::MouseProtocolMode::PressRelease);
    // As xterm tells of a press and a release on the fourth table, then of the wheel and of what is none of ours.
    console.press("\x1b[<0;38;3M\x1b[<0;38;3m");
    console.shows("[4 Containers]");
    console.press("\x1b[<64;1;1M\x1b[<65;1;1M\x1b[<2;3;3M\x1b[<0;9999;9999M");
    console.press("3");
    console.shows("[3 Units]");
    console.press("q");
    console.leaves_the_terminal_as_it_was();
    assert_eq!(mode(&console), vt100::MouseProtocolMode::None);

    let mut console = start(&["--no-mouse"]);
    console.shows("[3 Units]");
    assert_eq!(mode(&console), vt100::MouseProtocolMode::None);
    console.press("q");
    console.leaves_the_terminal_as_it_was();
}

const UNITS: [(&str, &str); 6] = [
    ("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo no disk left; exit 3'\n"),
    (
        "needs.service",
        "[Unit]\nRequires=bad.service\nAfter=bad.service\n[Service]\nExecStart=/bin/sleep 1000\n",
    ),
    ("web@.service", "[Service]\nExecStart=/bin/sleep 1000\n"),
    (
        "slow.service",
        "[Service]\nType=notify\nExecStart=/bin/sleep 1000\nTimeoutStartSec=infinity\n",
    ),
    (
        "waits.service",
        "[Unit]\nRequires=slow.service\nAfter=slow.service\n[Service]\nExecStart=/bin/true\n",
    ),
    ("default.target", "[Unit]\nWants=needs.service web@1.service web@2.service waits.service\n"),
];

/// Ends its machine when a test fails, too.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = warren_sys::process::kill(self.0.id() as i32, SIGTERM);
        let _ = self.0.wait();
    }
}

impl Machine {
    /// One with [`UNITS`].
    fn start(scratch: &Scratch, name: &str) -> Machine {
        for (name, text) in UNITS {
            scratch.write(name, text);
        }
        let directory = scratch.0.to_str().expect("text");
        let machine = Command::new(env!("CARGO_BIN_EXE_warren"))
            .args(["run", "--quiet", "--with-parent", "--units", directory, "--name", name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Machine(machine.expect("the machine can be started"))
    }
}

/// What a command prints that asks a machine.
fn ask(machine: &str, arguments: &[&str]) -> String {
    let asked =
        Command::new(env!("CARGO_BIN_EXE_warren")).args(["-M", machine]).args(arguments).output();
    String::from_utf8_lossy(&asked.expect("it can be run").stdout).into_owned()
}

#[test]
fn a_command_that_waits_says_for_what_on_a_terminal_and_nothing_in_a_pipe() {
    let test = "a_command_that_waits_says_for_what_on_a_terminal_and_nothing_in_a_pipe";
    if let Some(why) = lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    let scratch = Scratch::new("console-waiting");
    let name = format!("waiting-{}", std::process::id());
    let _machine = Machine::start(&scratch, &name);
    wait_until("a job that waits", || ask(&name, &["list", "waits.service"]).contains("waits"));
    let words = ["-M", &name, "start", "waits.service", "web@3.service"];
    let mut console = Console::start(&words, (160, 24), &[]);
    let in_pipe = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    console.shows(": 1 of 2, start of waits.service, which waits for slow.service.");
    console.shows("slow.service: Starting for ");
    ask(&name, &["stop", "slow.service"]);
    let status = console.ends();
    let told = "Job for waits.service was cancelled.";
    console.shows(told);
    assert_eq!(status.code(), Some(1), "{}", console.text());
    let text = console.text();
    assert!(!text.contains("1 of 2"), "it is gone when there is something to read: {text}");
    let piped = in_pipe.and_then(Child::wait_with_output).expect("it can be run");
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(piped.stdout.is_empty() && said.starts_with(told), "{said}");
    assert!(!said.contains("1 of 2") && !said.contains('\x1b'), "{said}");
}

#[test]
fn an_operator_finds_out_why_and_restarts_what_is_marked() {
    let test = "an_operator_finds_out_why_and_restarts_what_is_marked";
    if let Some(why) = lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    let scratch = Scratch::new("console-machine");
    let name = format!("console-{}", std::process::id());
    let _machine = Machine::start(&scratch, &name);
    let ask = |arguments: &[&str]| ask(&name, arguments);
    wait_until("a unit that has failed", || ask(&["is-failed", "bad.service"]) == "failed\n");
    wait_until("a job that waits", || ask(&["list", "waits.service"]).contains("waits.service"));
    let mut console = Console::start(&["-M", &name, "top"], (80, 24), &[]);
    // What is failing, and why.
    console.shows("[1 Trouble 1]");
    console.shows("> + bad.service");
    console.press("\x1b[C");
    console.shows("needs.service");
    console.press("\r");
    console.shows("exited with code 3");
    console.press("2");
    console.shows("no disk left");
    console.press("5");
    console.shows("ExecStart=/bin/sh -c 'echo no disk left; exit 3'");
    // What waits for what.
    console.press("\x1b");
    console.shows("ROOT CAUSE");
    console.press("2G");
    console.shows("waits.service waits to start for slow.service");
    // Questions: two keys each, about what is under the cursor, and the command that answers them as well.
    console.press("ac");
    console.shows("warren why waits.service");
    console.shows("slow.service is activating");
    console.press("al");
    console.shows("warren security");
    console.shows("ask for no protection");
    console.press("ab");
    console.shows("No unit was restarted by Restart=");
    console.press("aj1\r");
    console.shows("warren status 1");
    console.press("ai-5min\r");
    console.shows("warren logs waits.service --since -5min");
    console.press("\x1b");
    console.shows("[2 Jobs");
    // These are restarted, after a question.
    let pids = || ["web@1.service", "web@2.service"].map(|unit| ask(&["status", unit]));
    let pid_of = |text: &str| {
        text.lines().find(|line| line.contains("Main PID:")).map(str::to_owned).unwrap_or_default()
    };
    let before = pids().map(|text| pid_of(&text));
    console.press("3/web@");
    console.shows("2 rows");
    console.press("\r*R");
    console.shows("Restart 2 units (web@1.service, web@2.service)? y/n");
    console.press("y");
    console.shows("Restart: queued for 2 of 2");
    wait_until("other processes", || {
        let after = pids().map(|text| pid_of(&text));
        after.iter().zip(&before).all(|(after, before)| after != before && !after.is_empty())
    });
    // The failed state is cleared.
    console.press("\x1b\x1b1C");
    console.shows("Clear the failed state of bad.service? y/n");
    console.press("y");
    console.shows("No unit has failed, and no service is started again and again.");
    console.press("q");
    console.leaves_the_terminal_as_it_was();

    // A change a line, and nothing that moves a cursor.
    let mut lines = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(["-M", &name, "top", "--lines"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let out = std::io::BufReader::new(lines.stdout.take().expect("it is piped"));
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = said.clone();
    let reader = std::thread::spawn(move || {
        let lines = std::io::BufRead::lines(out).map_while(Result::ok);
        lines.for_each(|line| heard.lock().expect("no thread panicked").push(line));
    });
    let says = |what: &str, is_it: &dyn Fn(&str) -> bool| {
        let look = || {
            said.lock().expect("no thread panicked").iter().any(|line| is_it(line)).then_some(())
        };
        wait_for_or(what, look, || said.lock().expect("no thread panicked").join("\n"));
    };
    says("how many have failed", &|line| line.contains(" 0 failed; "));
    ask(&["stop", "web@1.service"]);
    // It may be forgotten before it is told to be down.
    let is_down = |line: &str| {
        line.starts_with("web@1.service inactive, dead") || line == "web@1.service gone"
    };
    says("a unit that is down", &is_down);
    warren_sys::process::kill(lines.id() as i32, SIGTERM).expect("it is there");
    lines.wait().expect("it ends");
    reader.join().expect("it ends");
    assert!(!said.lock().expect("no thread panicked").concat().contains(char::is_control));
}
