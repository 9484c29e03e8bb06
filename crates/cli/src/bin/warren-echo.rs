//! warren-echo: the service of the tour and of the benchmarks. Small and static, so that what is
//! measured is the manager.
//!
//! `warren-echo NAME` answers every connection to the sockets it was passed (sd_listen_fds(3))
//! with `ok NAME` and closes it; without sockets it waits to be ended.
//! `warren-echo --stat PATH` looks at a path and prints how many microseconds that took.
//! `warren-echo --alone NAME` prints how many microseconds a first connection takes where nobody but
//! the kernel stands between it and the service: fork, exec, accept.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::{fdpass, usage};

/// Text of `--help`.
const HELP: &str = "\
Usage: warren-echo NAME | --stat PATH | --alone NAME

  NAME          answer each connection to the sockets that were passed with 'ok NAME'
  --stat PATH   print how many microseconds it takes to look at a path
  --alone NAME  print how many microseconds a first connection takes without a manager
  --version     print the version
  --help        this text
";

/// What it does other than to serve.
const MODES: [&str; 2] = ["--stat", "--alone"];

/// The first passed socket: sd_listen_fds(3).
const FIRST_FD: i32 = 3;

/// Sockets that are served.
const SOCKETS_MAX: i32 = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--stat", path] => stat(path),
        ["--alone", name] => alone(name),
        ["--help" | "-h"] => print(HELP),
        ["--version" | "-V"] => print(&usage::version("warren-echo")),
        [name] if !name.starts_with('-') => serve(name),
        ref words => refuse(words),
    };
    if let Err(error) = done {
        eprintln!("warren-echo: {error}");
        std::process::exit(1);
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn print(text: &str) -> Done {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn refuse(words: &[&str]) -> ! {
    let unknown = words.iter().find(|word| word.starts_with('-') && !MODES.contains(word));
    let fault = unknown.map_or("nothing to do: see --help".into(), |w| usage::unexpected(w));
    eprint!("{}", usage::refusal(&fault, HELP));
    std::process::exit(usage::EXIT_USAGE.into());
}

fn stat(path: &str) -> Done {
    let began = std::time::Instant::now();
    let entries = std::fs::read_dir(path)?.count();
    let us = began.elapsed().as_micros();
    println!("{us} {entries}");
    Ok(())
}

fn alone(name: &str) -> Done {
    let path = std::env::temp_dir().join(format!("warren-echo-{}", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    if listener.as_raw_fd() != FIRST_FD {
        return Err("it was started with more than its standard descriptors".into());
    }
    warren_sys::fdpass::set_inheritable(listener.as_fd())?;
    let mut service = std::process::Command::new(std::env::current_exe()?);
    let began = std::time::Instant::now();
    let mut connection = UnixStream::connect(&path)?;
    let mut service = service.arg(name).env("LISTEN_FDS", "1").spawn()?;
    let mut answer = String::new();
    let read = connection.read_to_string(&mut answer);
    let us = began.elapsed().as_micros();
    service.kill()?;
    service.wait()?;
    std::fs::remove_file(&path)?;
    read?;
    print!("{us} {answer}");
    Ok(())
}

fn serve(name: &str) -> Done {
    let count: i32 = std::env::var("LISTEN_FDS").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let numbers = FIRST_FD..FIRST_FD + count.clamp(0, SOCKETS_MAX);
    let sockets: Vec<OwnedFd> =
        numbers.map(|n| fdpass::take_inherited(n, FIRST_FD)).collect::<Result<_, _>>()?;
    let epoll = Epoll::new()?;
    for (token, socket) in sockets.iter().enumerate() {
        epoll.add(socket, token as u64, Interest::READ)?;
    }
    let answer = format!("ok {name}\n");
    let mut ready = Events::with_capacity(SOCKETS_MAX as usize);
    loop {
        epoll.wait(&mut ready, None)?;
        for socket in ready.iter().filter_map(|source| sockets.get(source.token as usize)) {
            if let Some(connection) = warren_sys::socket::accept(socket.as_fd())? {
                // A client that went away does not concern the next one.
                let _ = std::fs::File::from(connection).write_all(answer.as_bytes());
            }
        }
    }
}
