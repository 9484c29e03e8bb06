//! Telling whoever started this manager how it is (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `text` to `$NOTIFY_SOCKET`. Where there is none, nobody wants to know.
pub fn tell(text: &str) {
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else { return };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
    if let Err(e) = sent {
        crate::say!("cannot notify {path}: {e}");
    }
}
