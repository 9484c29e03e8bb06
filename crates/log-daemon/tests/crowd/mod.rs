//! Eight senders at once, over all sockets, until the daemon is gone; and what must be there then.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::io::{Read, Result, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use warren_log_store::Entry;

pub const SENDERS: usize = 8;

/// Longest text beyond its number, bytes.
const FILLER_BYTES_MAX: u32 = 300;

/// Numbers that are spread, and the same in every run.
pub struct Spread(u64);

impl Spread {
    pub fn new(seed: u64) -> Spread {
        Spread(seed | 1)
    }

    /// Below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What the senders did in the life of one daemon.
pub struct Crowd {
    sockets: PathBuf,
    round: usize,
    /// How many messages each has sent.
    sent: [AtomicU32; SENDERS],
    /// How many of them a daemon has answered for.
    sure: [AtomicU32; SENDERS],
    /// Nothing more is sure: the machine is about to end.
    is_over: AtomicBool,
}

impl Crowd {
    pub fn new(sockets: PathBuf, round: usize) -> Crowd {
        let none = || std::array::from_fn(|_| AtomicU32::new(0));
        Crowd { sockets, round, sent: none(), sure: none(), is_over: AtomicBool::new(false) }
    }

    /// Messages of all.
    pub fn sent(&self) -> u64 {
        self.sent.iter().map(|count| u64::from(count.load(Ordering::SeqCst))).sum()
    }

    /// Messages that must be there.
    pub fn sure(&self) -> u64 {
        self.sure.iter().map(|count| u64::from(count.load(Ordering::SeqCst))).sum()
    }

    /// What is answered from now on does not count: an fdatasync(2) that is under way while ext4 is
    /// shut down may succeed and be wrong (10 of 150 times with Linux 6.18 and a program that does
    /// nothing else).
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Sends as one of them until nobody takes it.
    pub fn send(&self, sender: usize) {
        // That nobody listens any more is how it ends.
        let _ = match sender % 3 {
            0 => self.send_native(sender),
            1 => self.send_syslog(sender),
            _ => self.send_lines(sender),
        };
    }

    fn each(&self, sender: usize, mut send: impl FnMut(&str) -> Result<()>) -> Result<()> {
        for number in 0.. {
            send(&text(self.round, sender, number))?;
            self.sent[sender].store(number + 1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn send_native(&self, sender: usize) -> Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(self.sockets.join("socket"))?;
        self.each(sender, |text| {
            socket.send(format!("MESSAGE={text}\nPRIORITY=6\n").as_bytes()).map(drop)
        })
    }

    fn send_syslog(&self, sender: usize) -> Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(self.sockets.join("dev-log"))?;
        self.each(sender, |text| socket.send(format!("<30>crowd: {text}").as_bytes()).map(drop))
    }

    fn send_lines(&self, sender: usize) -> Result<()> {
        let mut stream = UnixStream::connect(self.sockets.join("stdout"))?;
        stream.write_all(b"crowd\n\n6\n0\n0\n0\n0\n")?;
        self.each(sender, |text| stream.write_all(format!("{text}\n").as_bytes()))
    }

    /// Asks again and again, until nobody answers, for what was sent to be put down: `Write` or
    /// `Synchronize`.
    pub fn ask(&self, method: &str) {
        self.ask_and(method, drop);
    }

    /// The same, and tells after each answer how many messages of each are sure by it.
    pub fn ask_and(&self, method: &str, mut tell: impl FnMut([u32; SENDERS])) {
        while self.ask_once(method, &mut tell).is_ok_and(|is_done| is_done) {}
    }

    pub fn ask_once(&self, method: &str, tell: &mut impl FnMut([u32; SENDERS])) -> Result<bool> {
        let seen = self.sent.each_ref().map(|count| count.load(Ordering::SeqCst));
        let mut stream = UnixStream::connect(self.sockets.join("io.warrener.journal"))?;
        write!(stream, "{{\"method\":\"io.warrener.Journal.{method}\",\"parameters\":{{}}}}\0")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let is_done = answer == "{\"parameters\":{}}\0";
        if is_done && !self.is_over.load(Ordering::SeqCst) {
            self.sure.iter().zip(seen).for_each(|(sure, seen)| sure.store(seen, Ordering::SeqCst));
            tell(seen);
        }
        Ok(is_done)
    }

    /// Compares what is there with what was sent: all that is sure, nothing twice, nothing that was
    /// not sent. `gaps`: what is not sure may be missing in between, too.
    #[track_caller]
    pub fn check(&self, found: &Numbers, gaps: bool) {
        let sure = self.sure.each_ref().map(|count| count.load(Ordering::SeqCst));
        self.check_for(found, sure, gaps);
    }

    /// The same when so much of each was sure.
    #[track_caller]
    pub fn check_for(&self, found: &Numbers, sure: [u32; SENDERS], gaps: bool) {
        for (sender, sure) in sure.into_iter().enumerate() {
            let who = format!("round {}, sender {sender}", self.round);
            let numbers = found.get(&(self.round, sender)).map_or(&[][..], Vec::as_slice);
            let sent = self.sent[sender].load(Ordering::SeqCst);
            let turn = numbers.windows(2).find(|pair| pair[0] >= pair[1]);
            assert_eq!(turn, None, "{who}: in order, none twice");
            // One may have arrived that its sender has not counted yet.
            assert!(numbers.last().is_none_or(|last| *last <= sent), "{who}: {sent} sent");
            let whole = numbers.iter().zip(0..).take_while(|(found, number)| **found == *number);
            let whole = whole.count();
            let said = format!("{who}: {whole} in a row of {}, {sure} are sure", numbers.len());
            assert!(whole >= sure as usize, "{said}");
            assert!(gaps || whole == numbers.len(), "{said}");
        }
    }
}

/// The numbers of messages of each round and sender, in the order of the log.
pub type Numbers = BTreeMap<(usize, usize), Vec<u32>>;

/// Sorts what a log has. A text that is not as it was sent is a failure.
#[track_caller]
pub fn numbers(entries: impl Iterator<Item = Entry>) -> Numbers {
    let mut found = Numbers::new();
    let mut last = 0;
    for entry in entries {
        assert!(entry.seqnum > last, "{} after {last}", entry.seqnum);
        last = entry.seqnum;
        let message = String::from_utf8_lossy(entry.get("MESSAGE").unwrap_or_default());
        let Some(rest) = message.strip_prefix("crowd ") else { continue };
        let mut words = rest.split(' ').map(|word| word.parse::<u32>());
        let mut next = || words.next().and_then(std::result::Result::ok).expect("a whole text");
        let (round, sender, number) = (next() as usize, next() as usize, next());
        assert_eq!(message, text(round, sender, number), "it is as it was sent");
        found.entry((round, sender)).or_default().push(number);
    }
    found
}

fn text(round: usize, sender: usize, number: u32) -> String {
    let filler = (number.wrapping_mul(7919) % FILLER_BYTES_MAX) as usize;
    // Blanks at the end of a line are not kept.
    format!("crowd {round} {sender} {number} {}.", "x".repeat(filler))
}

/// A setting of the run from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// All entries of a store.
pub fn read(store: &Path) -> impl Iterator<Item = Entry> + use<> {
    use warren_log_store::files::Disk;
    use warren_log_store::query::{Direction, Journal, Query};
    let journal = Journal::open(std::sync::Arc::new(Disk::new(store))).expect("readable");
    let query = Query::default();
    let entries = journal.entries(&query, Direction::Forward, None);
    entries.map(|entry| entry.expect("no read fails")).collect::<Vec<_>>().into_iter()
}
