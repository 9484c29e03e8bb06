//! How far long work is: one line on a terminal, on stderr, that is written anew now and then and is gone
//! when there is something else to be read.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::terminal;

/// What is done before needs no progress.
const QUIET: Duration = Duration::from_secs(1);

/// Between two lines.
const BETWEEN: Duration = Duration::from_millis(100);

/// Columns of a terminal that does not say how many it has.
const COLUMNS_DEFAULT: usize = 80;

/// The line.
pub struct Progress {
    /// `None` where nobody sees it.
    out: Option<Box<dyn Write + Send>>,
    columns: usize,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Begins now; nothing is shown where stderr is no terminal, or with `quiet`.
    pub fn begin(quiet: bool) -> Progress {
        let stderr = std::io::stderr();
        let columns = terminal::size(&stderr).map(|(columns, _)| usize::from(columns));
        let is_seen = stderr.is_terminal() && !quiet;
        Progress {
            out: is_seen.then(|| Box::new(stderr) as Box<dyn Write + Send>),
            columns: columns.unwrap_or(COLUMNS_DEFAULT),
            begun: Instant::now(),
            drawn: None,
        }
    }

    /// Says how far it is, if it is time to.
    pub fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.out.is_some() {
            self.tell_at(Instant::now(), text);
        }
    }

    fn is_time(&self, now: Instant) -> bool {
        match self.drawn {
            Some(drawn) => now.duration_since(drawn) >= BETWEEN,
            None => now.duration_since(self.begun) >= QUIET,
        }
    }

    fn tell_at(&mut self, now: Instant, text: impl FnOnce() -> String) {
        let is_time = self.is_time(now);
        let Some(out) = self.out.as_mut().filter(|_| is_time) else { return };
        let line: String = text().chars().take(self.columns.saturating_sub(1)).collect();
        // What a terminal does not take is no failure of the work.
        let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
        self.drawn = Some(now);
    }

    /// Makes room for other lines.
    pub fn clear(&mut self) {
        if let (Some(out), Some(_)) = (self.out.as_mut(), self.drawn) {
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
            // It comes again as soon as there is more to say.
            (self.drawn, self.begun) = (None, self.begun.checked_sub(QUIET).unwrap_or(self.begun));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Does something that takes its time. Meanwhile a thread says on a terminal what it is, and for how long it has been at
/// work.
pub fn during<T>(what: &str, quiet: bool, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let text = || format!("{what}: {} s", begun.elapsed().as_secs());
    beside(&Shared::begin(quiet), text, work)
}

/// Does something that takes its time. Meanwhile a thread says on a terminal what there is to say, each time anew. Work
/// that prints lines makes room for them with [`Shared::clear`].
pub fn beside<T>(
    progress: &Shared,
    mut text: impl FnMut() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    if !progress.is_seen() {
        return work();
    }
    std::thread::scope(|scope| {
        // Dropped at the end of the work, whose other end then sees that.
        let (at_work, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            while is_over.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
                // What is to be said may take a while to find out: no lock is held meanwhile.
                if progress.is_time() {
                    let text = text();
                    progress.tell(|| text);
                }
            }
        });
        let done = work();
        drop(at_work);
        done
    })
}

/// One that is told of from where entries are read.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Progress>>);

impl Shared {
    /// See [`Progress::begin`].
    pub fn begin(quiet: bool) -> Shared {
        Shared(Arc::new(Mutex::new(Progress::begin(quiet))))
    }

    fn is_seen(&self) -> bool {
        self.held().out.is_some()
    }

    fn is_time(&self) -> bool {
        self.held().is_time(Instant::now())
    }

    fn held(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Progress::tell`].
    pub fn tell(&self, text: impl FnOnce() -> String) {
        self.held().tell(text);
    }

    /// See [`Progress::clear`].
    pub fn clear(&self) {
        self.held().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("one thread").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn it_comes_after_a_second_now_and_then_and_goes() {
        let screen = Screen::default();
        let shown = || {
            let bytes = std::mem::take(&mut *screen.0.lock().expect("one thread"));
            String::from_utf8(bytes).expect("UTF-8").replace("\r\x1b[K", "<")
        };
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let out = Some(Box::new(screen.clone()) as Box<dyn Write + Send>);
        let mut progress = Progress { out, columns: 6, begun, drawn: None };
        let mut tell = |ms, text: &str, want: &str| {
            progress.tell_at(at(ms), || text.to_owned());
            assert_eq!(shown(), want, "after {ms} ms");
        };
        tell(999, "early", "");
        tell(1000, "1 of 2", "<1 of ");
        tell(1099, "too soon", "");
        tell(1100, "half", "<half");
        progress.clear();
        progress.clear();
        assert_eq!(shown(), "<", "once");
        progress.tell_at(at(1101), || "äöü".to_owned());
        assert_eq!(shown(), "<äöü", "again at once");
        drop(progress);
        assert_eq!(shown(), "<");
    }

    #[test]
    fn nobody_is_shown_what_nobody_sees() {
        let mut progress = Progress::begin(true);
        progress.tell(|| panic!("nobody asks"));
    }

    #[test]
    fn what_goes_on_for_long_is_told_of_until_it_is_over() {
        let screen = Screen::default();
        let out = Some(Box::new(screen.clone()) as Box<dyn Write + Send>);
        let begun = Instant::now().checked_sub(Duration::from_secs(75)).expect("it is that late");
        let progress = Progress { out, columns: 80, begun, drawn: None };
        let progress = Shared(Arc::new(Mutex::new(progress)));
        let told = || String::from_utf8(screen.0.lock().expect("a moment").clone()).expect("UTF-8");
        let mut looks = 0;
        let text = || {
            looks += 1;
            format!("Looking, {looks}")
        };
        let result = beside(&progress, text, || {
            warren_testkit::wait_until("it is told of twice", || told().contains("2"));
            progress.clear();
            assert!(told().ends_with("\r\x1b[K"), "no room: {:?}", told());
            7
        });
        let told = told();
        assert!(told.starts_with("\r\x1b[KLooking, 1\r\x1b[KLooking, 2"), "{told:?}");
        drop(progress);
        assert_eq!(result, 7);
    }
}
