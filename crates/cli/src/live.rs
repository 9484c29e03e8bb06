//! Keys and signals that end what is shown on a terminal, which is left as it was.

use std::io::{BufRead, Stdin};
use std::time::Duration;
use warren_sys::signal::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use anyhow::Result;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::signal::{SignalFd, SignalSet};
use warren_sys::terminal::KeyByKey;

/// Listens to keys and signals while it lives.
pub struct Watch {
    _keys: KeyByKey<Stdin>,
    signals: SignalFd,
    epoll: Epoll,
    ready: Events,
}

impl Watch {
    /// Takes the keys of standard input, which must be a terminal, and the signals that end a
    /// program.
    pub fn new() -> Result<Watch> {
        let stdin = std::io::stdin();
        let ending = SignalSet::EMPTY.with(SIGHUP).with(SIGINT).with(SIGTERM);
        let signals = SignalFd::new(ending.with(SIGWINCH))?;
        let epoll = Epoll::new()?;
        epoll.add(&stdin, 0, Interest::READ)?;
        epoll.add(&signals, 1, Interest::READ)?;
        let keys = KeyByKey::new(stdin)?;
        Ok(Watch { _keys: keys, signals, epoll, ready: Events::with_capacity(2) })
    }

    /// Waits for the time of the next picture, which is also when the terminal has another size; false
    /// when there is to be none.
    pub fn wait(&mut self, period: Duration) -> Result<bool> {
        self.epoll.wait(&mut self.ready, Some(period))?;
        if self.ready.is_empty() {
            return Ok(true);
        }
        if self.ready.iter().any(|ready| ready.token == 1) {
            let signal = self.signals.read()?;
            return Ok(signal.is_none_or(|signal| signal.signal == SIGWINCH));
        }
        // All that were typed: what stayed in the buffer would make nothing ready.
        let mut stdin = std::io::stdin().lock();
        let keys = stdin.fill_buf()?;
        let count = keys.len();
        let goes_on = count > 0 && !keys.iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4));
        stdin.consume(count);
        Ok(goes_on)
    }
}
