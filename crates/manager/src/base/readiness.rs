//! Notifies the program that started this manager (sd_notify(3)).

use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use warren_sys::process;

use crate::base::say::say;

/// Once there was no room, a thread sends the rest in order: it waits for whoever reads.
static LATE: Mutex<Option<Sender<String>>> = Mutex::new(None);

/// Sends `text` to `$NOTIFY_SOCKET`, later if there is no room now. Where there is none, nobody wants to know.
pub fn tell(text: &str) {
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else { return };
    if let Err(e) = tell_at(&path, text) {
        say!("cannot notify {path}: {e}");
    }
}

fn tell_at(path: &str, text: &str) -> std::io::Result<()> {
    let mut late = LATE.lock().expect("nothing under it panics");
    if late.as_ref().is_some_and(|late| late.send(text.to_owned()).is_ok()) {
        return Ok(());
    }
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match socket.send_to_addr(text.as_bytes(), &address) {
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
            let (sender, texts) = channel();
            sender.send(text.to_owned()).expect("the other end is here");
            let send = move || send_late(socket, &address, texts);
            std::thread::Builder::new().name("notify".into()).spawn(send)?;
            *late = Some(sender);
            Ok(())
        }
        sent => sent.map(drop),
    }
}

/// Sends each as soon as there is room. The thread holds open what it sends with, and nothing else.
fn send_late(
    socket: UnixDatagram,
    address: &SocketAddr,
    texts: impl IntoIterator<Item = String>,
) -> std::io::Result<()> {
    let socket = UnixDatagram::from(OwnedFd::from(socket));
    let _ = process::keep_only_descriptors(&[socket.as_fd()]);
    socket.set_nonblocking(false)?;
    for text in texts {
        socket.send_to_addr(text.as_bytes(), address)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_told_later_and_in_order() {
        let name = format!("warren-ready-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let reader = UnixDatagram::bind_addr(&address).expect("nobody has it");
        let filler = UnixDatagram::unbound().expect("a socket");
        filler.set_nonblocking(true).expect("it can be set");
        let mut count = 0;
        while filler.send_to_addr(b"", &address).is_ok() {
            count += 1;
        }
        for text in ["READY=1", "STOPPING=1"] {
            tell_at(&format!("@{name}"), text).expect("it is told later");
        }
        let mut room = [0; 64];
        let mut next = || {
            let bytes = reader.recv(&mut room).expect("there is more");
            String::from_utf8_lossy(&room[..bytes]).into_owned()
        };
        (0..count).for_each(|_| assert_eq!(next(), ""));
        assert_eq!([next(), next()], ["READY=1", "STOPPING=1"]);
    }
}
