//! What stands in for a log daemon that does not come: what services wrote into their streams, and write from then
//! on, goes to the files of their units, so that nobody waits for room in a stream that nobody reads.
//!
//! A thread does it, which is started with the first stream. What is in a stream is written before it is taken out of
//! it: a manager that is killed in between has the next one write it once more, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::fdpass::{self, Credentials};

use crate::peer::unit_log_file::{self, log_file};

/// Most streams that are copied at a time, since each is an open file of the manager; others wait.
const STREAMS_MAX: usize = 8 << 10;

/// Bytes that are copied of one stream before it is another one's turn.
const PIECE_BYTES: usize = 64 << 10;

/// Streams of which it is heard at once.
const READY_MAX: usize = 64;

/// The thread's own token; keys of streams count up from a time.
const WAKE: u64 = u64::MAX;

/// A stream that is copied.
pub(crate) struct Copied {
    pub key: u64,
    pub unit: String,
    pub reader: OwnedFd,
}

enum SpillCommand {
    Copy(Copied),
    LetGo,
}

/// What the thread tells.
pub(crate) enum SpillNews {
    /// The stream has ended, and all of it is in the file.
    Ended(u64),
    /// These are not copied any more.
    LetGo(Vec<u64>),
    /// Output of this unit is lost, and why.
    Lost(String, String),
}

/// The loop's side.
pub(crate) struct Spill {
    orders: Sender<SpillCommand>,
    told: Receiver<SpillNews>,
    wake: Arc<EventFd>,
    held: BTreeSet<u64>,
}

impl Spill {
    /// Starts the thread. Files are made in `directory`; the loop is woken through `loop_wake`.
    pub fn start(directory: PathBuf, loop_wake: Arc<EventFd>) -> Result<Spill, String> {
        let wake = Arc::new(EventFd::new().map_err(|e| e.to_string())?);
        let epoll = Epoll::new().map_err(|e| e.to_string())?;
        epoll.add(&*wake, WAKE, Interest::READ).map_err(|e| e.to_string())?;
        let (orders, from_loop) = channel();
        let (to_loop, told) = channel();
        let mut copier = Copier {
            epoll,
            wake: wake.clone(),
            orders: from_loop,
            told: to_loop,
            loop_wake,
            directory,
            streams: BTreeMap::new(),
            lost: BTreeSet::new(),
            buffer: vec![0; PIECE_BYTES],
        };
        std::thread::Builder::new()
            .name("spill".into())
            .spawn(move || copier.serve())
            .map_err(|e| e.to_string())?;
        Ok(Spill { orders, told, wake, held: BTreeSet::new() })
    }

    /// Whether one more stream can be taken.
    pub fn has_room(&self) -> bool {
        self.held.len() < STREAMS_MAX
    }

    /// Whether this stream is copied.
    pub fn has(&self, key: u64) -> bool {
        self.held.contains(&key)
    }

    /// Has a stream copied until it ends.
    pub fn copy(&mut self, stream: Copied) {
        self.held.insert(stream.key);
        self.order(SpillCommand::Copy(stream));
    }

    /// Has all streams let go, as somebody else is to read them; [`SpillNews::LetGo`] is the answer.
    pub fn let_go(&self) {
        self.order(SpillCommand::LetGo);
    }

    fn order(&self, order: SpillCommand) {
        // The thread ends with this end of the channel only.
        let _ = self.orders.send(order);
        self.wake.notify();
    }

    /// What the thread told since.
    pub fn hear(&mut self) -> Vec<SpillNews> {
        let told: Vec<SpillNews> = self.told.try_iter().collect();
        for one in &told {
            match one {
                SpillNews::Ended(key) => _ = self.held.remove(key),
                SpillNews::LetGo(keys) => keys.iter().for_each(|key| _ = self.held.remove(key)),
                SpillNews::Lost(..) => {}
            }
        }
        told
    }
}

/// The thread's side.
struct Copier {
    epoll: Epoll,
    wake: Arc<EventFd>,
    orders: Receiver<SpillCommand>,
    told: Sender<SpillNews>,
    loop_wake: Arc<EventFd>,
    directory: PathBuf,
    streams: BTreeMap<u64, Copied>,
    /// Units of which it was said that their output is lost.
    lost: BTreeSet<String>,
    buffer: Vec<u8>,
}

impl Copier {
    fn serve(&mut self) {
        let mut ready = Events::with_capacity(READY_MAX);
        while self.epoll.wait(&mut ready, None).is_ok() {
            for source in ready.iter() {
                match source.token {
                    WAKE => self.take_orders(),
                    key => self.copy_piece(key),
                }
            }
        }
    }

    fn take_orders(&mut self) {
        self.wake.clear();
        while let Ok(order) = self.orders.try_recv() {
            match order {
                SpillCommand::Copy(stream) => self.begin(stream),
                SpillCommand::LetGo => {
                    let keys: Vec<u64> = self.streams.keys().copied().collect();
                    keys.iter().for_each(|&key| drop(self.remove(key)));
                    self.tell(SpillNews::LetGo(keys));
                }
            }
        }
    }

    fn begin(&mut self, stream: Copied) {
        // Descriptors that somebody sends are seen by this, and not taken.
        let watched = fdpass::pass_credentials_alone(stream.reader.as_fd())
            .and_then(|()| self.epoll.add(&stream.reader, stream.key, Interest::READ));
        let (key, unit) = (stream.key, stream.unit.clone());
        self.streams.insert(key, stream);
        if let Err(e) = watched {
            self.lose(unit, e.to_string());
            self.end(key);
        }
    }

    /// Copies what is there, up to the size of a piece.
    fn copy_piece(&mut self, key: u64) {
        let Some(stream) = self.streams.get(&key) else { return };
        let unit = stream.unit.clone();
        let peeked = fdpass::peek_plain(stream.reader.as_fd(), &mut self.buffer);
        match peeked {
            Ok(peeked) if peeked.bytes > 0 => {
                let bytes = peeked.bytes.min(self.buffer.len());
                if let Err(e) = self.append(&unit, bytes) {
                    self.lose(unit, e.to_string());
                }
                match peeked.lost_fds {
                    true => self.refuse(key, peeked.credentials),
                    false => self.take(key, bytes),
                }
            }
            Err(e) if e.is_would_block() => {}
            _ => self.end(key),
        }
    }

    fn append(&self, unit: &str, bytes: usize) -> std::io::Result<()> {
        let path = log_file(&self.directory, unit);
        let mut file = unit_log_file::open(&path)?;
        file.write_all(&self.buffer[..bytes])
    }

    fn take(&mut self, key: u64, bytes: usize) {
        if let Some(stream) = self.streams.get(&key) {
            // It was there to be looked at.
            let _ = fdpass::recv_plain(stream.reader.as_fd(), &mut self.buffer[..bytes]);
        }
    }

    /// Descriptors came along, which no stream may have: closing them may take as long as their sender likes.
    fn refuse(&mut self, key: u64, sender: Option<Credentials>) {
        if let Some(stream) = self.remove(key) {
            warren_sys::endings::end(stream.reader, sender.map_or(u32::MAX, |sender| sender.uid));
            self.tell(SpillNews::Ended(key));
        }
    }

    fn end(&mut self, key: u64) {
        drop(self.remove(key));
        self.tell(SpillNews::Ended(key));
    }

    /// Process 1 has the file too: closing it here does not end the watching.
    fn remove(&mut self, key: u64) -> Option<Copied> {
        let stream = self.streams.remove(&key)?;
        let _ = self.epoll.remove(&stream.reader);
        Some(stream)
    }

    /// Once for each unit.
    fn lose(&mut self, unit: String, why: String) {
        if self.lost.insert(unit.clone()) {
            self.tell(SpillNews::Lost(unit, why));
        }
    }

    fn tell(&self, told: SpillNews) {
        // Without the loop there is nobody to tell.
        let _ = self.told.send(told);
        self.loop_wake.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What the thread tells next.
    fn told(spill: &mut Spill, loop_wake: &EventFd) -> SpillNews {
        loop {
            let minute = std::time::Duration::from_secs(60);
            assert!(
                fdpass::wait_readable(loop_wake.as_fd(), minute).expect("it can be waited for")
            );
            loop_wake.clear();
            if let Some(told) = spill.hear().pop() {
                return told;
            }
        }
    }

    #[test]
    fn what_is_written_goes_to_the_file_until_the_stream_is_let_go() {
        let directory = std::env::temp_dir().join(format!("warren-spill-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let loop_wake = Arc::new(EventFd::new().expect("an eventfd"));
        let mut spill = Spill::start(directory.clone(), loop_wake.clone()).expect("a thread");
        let stream = |key, unit: &str| {
            let (writer, reader) = UnixStream::pair().expect("sockets");
            let kept = reader.try_clone().expect("another descriptor");
            let unit = unit.to_owned();
            (writer, kept, Copied { key, unit, reader: reader.into() })
        };
        let file = |unit: &str| std::fs::read_to_string(directory.join(unit)).unwrap_or_default();

        let (mut writer, _kept, copied) = stream(1, "a.service");
        writer.write_all(b"before\n").expect("there is room");
        spill.copy(copied);
        assert!(spill.has(1));
        // More than any socket takes.
        writer.write_all(&[b'x'; 1 << 20]).expect("it is read");
        drop(writer);
        assert!(matches!(told(&mut spill, &loop_wake), SpillNews::Ended(1)));
        let text = file("a.service.log");
        assert!(text.starts_with("before\nxxx") && text.len() == 7 + (1 << 20), "{}", text.len());

        let (mut writer, kept, copied) = stream(2, "b.service");
        spill.copy(copied);
        spill.let_go();
        assert!(matches!(told(&mut spill, &loop_wake), SpillNews::LetGo(keys) if keys == [2]));
        assert!(!spill.has(2));
        writer.write_all(b"after\n").expect("there is room");
        let mut room = [0; 16];
        let left = fdpass::recv_plain(kept.as_fd(), &mut room).expect("it is still there");
        assert_eq!((&room[..left.bytes], &*file("b.service.log")), (&b"after\n"[..], ""));

        let (mut writer, _kept, copied) = stream(3, "c/none.service");
        writer.write_all(b"lost\n").expect("there is room");
        spill.copy(copied);
        assert!(
            matches!(told(&mut spill, &loop_wake), SpillNews::Lost(unit, _) if unit.starts_with("c"))
        );
        drop(writer);
        assert!(matches!(told(&mut spill, &loop_wake), SpillNews::Ended(3)));
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
