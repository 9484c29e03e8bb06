//! Sends messages to a log daemon as fast as it takes them:
//! `flood MODE MESSAGES CLIENTS SOCKETS [SYNC_DIRECTORY]`.
//!
//! MODE is `native`, `syslog` or `stdout`. Every 1,000 messages in all, the file system of
//! SYNC_DIRECTORY is synced, which is what a slow disk sees in time; one of the clients waits for it,
//! so how long that takes is a part of how long all takes. Without it nothing is synced. One message in fifty has the
//! identifier `rare-N`, N below 1,000, ten in a row; the others that of their client.

#[path = "../../log-store/examples/common/texts.rs"]
mod texts;

use std::error::Error;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

const SYNC_EVERY: usize = 1_000;
const RARE: usize = 1_000;

enum Socket {
    Native(UnixDatagram),
    Syslog(UnixDatagram),
    Stdout(UnixStream),
}

impl Socket {
    fn connect(mode: &str, sockets: &Path, client: usize) -> std::io::Result<Socket> {
        let datagrams = |name: &str| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(sockets.join(name))?;
            Ok(socket)
        };
        match mode {
            "native" => datagrams("socket").map(Socket::Native),
            "syslog" => datagrams("dev-log").map(Socket::Syslog),
            _ => {
                let mut stream = UnixStream::connect(sockets.join("stdout"))?;
                stream.write_all(format!("client-{client}\n\n6\n0\n0\n0\n0\n").as_bytes())?;
                Ok(Socket::Stdout(stream))
            }
        }
    }

    fn send(&mut self, who: &str, text: &str) -> std::io::Result<()> {
        match self {
            Socket::Native(socket) => {
                let fields = format!(
                    "PRIORITY=6\nSYSLOG_IDENTIFIER={who}\nSYSLOG_FACILITY=3\nMESSAGE={text}\n"
                );
                socket.send(fields.as_bytes()).map(drop)
            }
            Socket::Syslog(socket) => {
                let line = format!("<30>Jan  5 09:30:00 {who}[7]: {text}");
                socket.send(line.as_bytes()).map(drop)
            }
            Socket::Stdout(stream) => stream.write_all(format!("{text}\n").as_bytes()),
        }
    }
}

struct Flood {
    mode: String,
    messages: usize,
    clients: usize,
    sockets: PathBuf,
    synced: Option<PathBuf>,
    texts: Vec<String>,
}

impl Flood {
    fn client(&self, client: usize) -> std::io::Result<()> {
        let mut socket = Socket::connect(&self.mode, &self.sockets, client)?;
        let directory = self.synced.as_ref().filter(|_| client == 0);
        let directory = directory.map(std::fs::File::open).transpose()?;
        let own = format!("client-{client}");
        for at in 0..self.messages / self.clients {
            let text = &self.texts[(at * self.clients + client) % self.texts.len()];
            let burst = at / 500 * self.clients + client;
            match at % 500 < 10 {
                true => socket.send(&format!("rare-{}", burst % RARE), text)?,
                false => socket.send(&own, text)?,
            }
            if let Some(directory) = &directory
                && (at + 1) % (SYNC_EVERY / self.clients) == 0
            {
                rustix::fs::syncfs(directory)?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, messages, clients, sockets, synced @ ..] = &args[..] else {
        return Err("MODE MESSAGES CLIENTS SOCKETS [SYNC_DIRECTORY]".into());
    };
    let flood = Flood {
        mode: mode.clone(),
        messages: messages.parse()?,
        clients: clients.parse()?,
        sockets: sockets.into(),
        synced: synced.first().map(PathBuf::from),
        texts: texts::texts()?,
    };
    std::thread::scope(|scope| {
        let flood = &flood;
        let clients: Vec<_> =
            (0..flood.clients).map(|client| scope.spawn(move || flood.client(client))).collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })
}
