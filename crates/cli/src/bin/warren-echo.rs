//! warren-echo: the service of the tour and of the benchmarks. Small and static, so that what is
//! measured is the manager.
//!
//! `warren-echo NAME` answers every connection to the sockets it was passed (sd_listen_fds(3))
//! with `ok NAME` and closes it; without sockets it waits to be ended.
//! `warren-echo --stat PATH` looks at a path and prints how many microseconds that took.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::fdpass;

/// The first passed socket: sd_listen_fds(3).
const FIRST_FD: i32 = 3;

/// Sockets that are served.
const SOCKETS_MAX: i32 = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--stat", path] => stat(path),
        [name] => serve(name),
        _ => Err("usage: warren-echo NAME | --stat PATH".into()),
    };
    if let Err(error) = done {
        eprintln!("warren-echo: {error}");
        std::process::exit(1);
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn stat(path: &str) -> Done {
    let began = std::time::Instant::now();
    let entries = std::fs::read_dir(path)?.count();
    let us = began.elapsed().as_micros();
    println!("{us} {entries}");
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
