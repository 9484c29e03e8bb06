//! Threads that wait so that the screen does not: for the manager, for cgroups, for the log, for keys.
//!
//! - Owns: a connection each, and what a person has opened. All tell the runner over one bounded queue.
//! - Must not: hold up the runner: what it asks for is put into a queue, and a newer question takes an older one's place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::signal::{SIGTSTP, SIGWINCH, SignalFd};

use crate::keys::{Input, Reader};
use crate::manager::{Connect, Manager, Trouble};
use crate::model::Usage;
use crate::poller::{PERIOD, Poller, Update};
use crate::questions::{ALL, Subject};
use crate::state::{Event, Verb};
use crate::usage::Sampler;

/// Time between two questions for the page that is open.
const PAGE_PERIOD: Duration = Duration::from_secs(2);

/// Bytes of a line of the log that are read.
const LOG_LINE_BYTES_MAX: u64 = 8192;

/// Lines that are told at once.
const LOG_LINES_MAX: usize = 500;

/// Refusals that are told.
const REFUSALS_MAX: usize = 2;

/// What the runner is told.
#[derive(Debug)]
pub enum News {
    /// Something for the state.
    Event(Event),
    /// Where cgroups lie, as the manager sees them.
    CgroupRoot(String),
    /// The mouse was clicked at this column and row of the screen.
    Click(u16, u16),
    /// A frame was written.
    Written,
    /// The terminal has another size.
    Size,
    /// The user stops the program for a while.
    Suspend,
    /// The manager was going down, and nobody listens any more.
    Over,
    /// It is time to end.
    End,
}

/// Asks for counters and changes until nobody listens.
pub fn poll(connect: &dyn Connect, tell: &SyncSender<News>, hurry: &Receiver<()>) {
    let mut poller = Poller::default();
    let mut news = |update| {
        let news = match update {
            Update::Top(top) => News::Event(Event::Top(top)),
            Update::CgroupRoot(root) => News::CgroupRoot(root),
            Update::Overview(answer, is_all) => News::Event(Event::Overview(answer, is_all)),
        };
        tell.send(news).is_ok()
    };
    let (mut is_silent, mut goes_down) = (false, false);
    loop {
        let news = match poller.ask(connect, &mut news) {
            Ok(is_stopping) => {
                goes_down = is_stopping;
                std::mem::take(&mut is_silent).then_some(News::Event(Event::Silent(None)))
            }
            Err(trouble) if trouble.is_nobody && goes_down => Some(News::Over),
            Err(trouble) => {
                is_silent = true;
                Some(News::Event(Event::Silent(Some(trouble.text))))
            }
        };
        let is_heard = news.is_none_or(|news| tell.send(news).is_ok());
        match hurry.recv_timeout(PERIOD) {
            Err(RecvTimeoutError::Disconnected) => return,
            _ if !is_heard => return,
            _ => {}
        }
    }
}

/// What the sampler is to read.
#[derive(Debug)]
pub enum Sample {
    /// Cgroups lie here.
    Root(PathBuf),
    /// These are on the screen, and all there is to know of all groups is wanted where that is true.
    Units(Vec<Arc<str>>, bool),
}

/// Reads cgroups until nobody listens.
pub fn sample(orders: &Receiver<Sample>, tell: &SyncSender<News>) {
    let (mut sampler, mut units, mut is_whole) = (Sampler::default(), Vec::new(), false);
    let mut read = None::<Instant>;
    loop {
        let rest = read.map_or(Duration::ZERO, |at| PERIOD.saturating_sub(at.elapsed()));
        match orders.recv_timeout(rest) {
            Ok(Sample::Root(root)) => {
                sampler.open(&root);
                continue;
            }
            Ok(Sample::Units(wanted, whole)) => {
                (units, is_whole) = (wanted, whole);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        read = Some(Instant::now());
        let is_due = sampler.is_due(is_whole);
        let swept = if is_due { sampler.sweep(is_whole) } else { BTreeMap::new() };
        let is_heard =
            send_usage(tell, swept, true) && send_usage(tell, sampler.read(&units), false);
        if !is_heard {
            return;
        }
    }
}

fn send_usage(tell: &SyncSender<News>, usage: BTreeMap<Arc<str>, Usage>, is_all: bool) -> bool {
    usage.is_empty() || tell.send(News::Event(Event::Usage(usage, is_all))).is_ok()
}

/// What is asked for a page.
#[derive(Debug)]
pub enum Question {
    /// Its state, again and again.
    Page(Arc<str>),
    /// Its files, once.
    Files(Arc<str>),
    /// The page is closed.
    Close,
}

/// Asks for the page that is open until nobody listens.
pub fn ask_pages(connect: &dyn Connect, questions: &Receiver<Question>, tell: &SyncSender<News>) {
    let mut manager = None;
    let mut open = None::<Arc<str>>;
    loop {
        let question = match (&open, questions.recv_timeout(PAGE_PERIOD)) {
            (_, Ok(question)) => question,
            (Some(unit), Err(RecvTimeoutError::Timeout)) => Question::Page(unit.clone()),
            (None, Err(RecvTimeoutError::Timeout)) => continue,
            (_, Err(RecvTimeoutError::Disconnected)) => return,
        };
        let mut files = None;
        for question in std::iter::once(question).chain(questions.try_iter()) {
            match question {
                Question::Page(unit) => open = Some(unit),
                Question::Files(unit) => files = Some(unit),
                Question::Close => (open, files) = (None, None),
            }
        }
        if let Some(unit) = files {
            let files = with(&mut manager, connect, |manager| manager.files(&unit));
            if tell.send(News::Event(Event::Files(unit, files))).is_err() {
                return;
            }
        }
        if let Some(unit) = &open {
            let told = with(&mut manager, connect, |manager| manager.page(unit));
            if tell.send(News::Event(Event::Page(unit.clone(), told))).is_err() {
                return;
            }
        }
    }
}

/// The newest of those that wait: nobody looks at what was opened before.
fn last<T>(first: T, more: &Receiver<T>) -> T {
    more.try_iter().last().unwrap_or(first)
}

/// Asks over a connection that is kept as long as it is good.
fn with<A>(
    kept: &mut Option<Box<dyn Manager>>,
    connect: &dyn Connect,
    ask: impl FnOnce(&mut dyn Manager) -> Result<A, Trouble>,
) -> Result<A, String> {
    let answer = match kept.take().map_or_else(|| connect.connect(), Ok) {
        Ok(mut manager) => {
            let answer = ask(&mut *manager);
            *kept = Some(manager).filter(|_| answer.as_ref().err().is_none_or(|e| e.is_refusal));
            answer
        }
        Err(trouble) => Err(trouble),
    };
    answer.map_err(|trouble| trouble.text)
}

/// Does what the person has said yes to, one after the other, until nobody listens.
pub fn act(
    connect: &dyn Connect,
    actions: &Receiver<(Verb, Vec<Arc<str>>)>,
    tell: &SyncSender<News>,
) {
    for (verb, units) in actions {
        let done =
            connect.connect().and_then(|mut manager| carry_out(&mut *manager, &verb, &units));
        let text = match done {
            Ok(refusals) => outcome(&verb, units.len(), &refusals),
            Err(trouble) => format!("{}: {}", verb.word(), trouble.text),
        };
        if tell.send(News::Event(Event::Done(text))).is_err() {
            return;
        }
    }
}

fn carry_out(
    manager: &mut dyn Manager,
    verb: &Verb,
    units: &[Arc<str>],
) -> Result<Vec<String>, Trouble> {
    let mut refusals = Vec::new();
    match verb {
        Verb::Job(job) => {
            let units: Vec<String> = units.iter().map(|unit| unit.to_string()).collect();
            refusals = manager.jobs(job.clone(), &units)?;
        }
        Verb::Clear => {
            for unit in units {
                match manager.clear(unit) {
                    Err(trouble) if trouble.is_refusal => refusals.push(trouble.text),
                    other => other?,
                }
            }
        }
    }
    Ok(refusals)
}

fn outcome(verb: &Verb, units: usize, refusals: &[String]) -> String {
    let what = match verb {
        Verb::Job(_) => "queued",
        Verb::Clear => "done",
    };
    let done = units.saturating_sub(refusals.len());
    let shown =
        refusals.iter().take(REFUSALS_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    match refusals.len() {
        0 => format!("{}: {what} for {done} of {units}", verb.word()),
        count => format!("{}: {what} for {done} of {units}, {count} refused: {shown}", verb.word()),
    }
}

/// Reads the past starts of units until nobody listens.
pub fn read_starts(connect: &dyn Connect, units: &Receiver<Arc<str>>, tell: &SyncSender<News>) {
    while let Ok(unit) = units.recv() {
        let unit = last(unit, units);
        let starts = connect.past_starts(&unit);
        if tell.send(News::Event(Event::Starts(unit, starts))).is_err() {
            return;
        }
    }
}

/// Answers questions until nobody listens.
pub fn answer(
    connect: &dyn Connect,
    questions: &Receiver<(usize, Subject)>,
    tell: &SyncSender<News>,
) {
    while let Ok(first) = questions.recv() {
        let (place, subject) = last(first, questions);
        let Some(question) = ALL.get(place) else { continue };
        let told = connect.answer(question.ask, &subject);
        if tell.send(News::Event(Event::Answer(place, subject, told))).is_err() {
            return;
        }
    }
}

/// A log that is followed, until it is dropped.
pub struct Follower(Child);

impl Follower {
    /// Follows the log of a unit by a command; why not is told as a line.
    pub fn start(
        connect: &dyn Connect,
        unit: &Arc<str>,
        tell: &SyncSender<News>,
    ) -> Option<Follower> {
        let mut command = connect.follow_log(unit);
        // What goes wrong is read with the lines.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>),
            child.stderr.take().map(|out| Box::new(out) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let (tell, unit) = (tell.clone(), unit.clone());
            let follow = move || follow(output, &unit, &tell);
            std::thread::Builder::new().name("log".into()).spawn(follow).ok()?;
        }
        Some(Follower(child))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(output: impl Read, unit: &Arc<str>, tell: &SyncSender<News>) {
    let mut reader = BufReader::new(output);
    let mut lines = Vec::new();
    while let Some(line) = next_line(&mut reader) {
        lines.push(line);
        // What has come already is told at once.
        let goes_on = reader.buffer().contains(&b'\n') && lines.len() < LOG_LINES_MAX;
        if !goes_on {
            let event = Event::Log(unit.clone(), std::mem::take(&mut lines));
            if tell.send(News::Event(event)).is_err() {
                return;
            }
        }
    }
}

/// A line without its end, of a very long one the begin; none at the end.
fn next_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let length = reader.by_ref().take(LOG_LINE_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
    if length == 0 {
        return None;
    }
    if line.pop_if(|byte| *byte == b'\n').is_none() {
        skip_line(reader);
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

fn skip_line(reader: &mut impl BufRead) {
    while let Ok(buffer) = reader.fill_buf() {
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (length, is_over) =
            (end.map_or(buffer.len(), |at| at + 1), end.is_some() || buffer.is_empty());
        reader.consume(length);
        if is_over {
            return;
        }
    }
}

/// Reads keys until nobody listens.
pub fn read_keys(tell: &SyncSender<News>) {
    if key_by_key(tell).is_none() {
        // Of a terminal that is gone, `watch_signals` may have told already.
        let _ = tell.send(News::End);
    }
}

/// Nothing at the end of the terminal.
fn key_by_key(tell: &SyncSender<News>) -> Option<()> {
    let mut terminal = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let epoll = Epoll::new().ok()?;
    epoll.add(&terminal, 0, Interest::READ).ok()?;
    let (mut ready, mut reader, mut room) =
        (Events::with_capacity(1), Reader::default(), [0; 1024]);
    loop {
        epoll.wait(&mut ready, reader.patience()).ok()?;
        let inputs = match ready.is_empty() {
            true => reader.nothing_follows().into_iter().collect(),
            false => match terminal.read(&mut room) {
                Ok(0) => return None,
                Ok(count) => reader.push(&room[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return None,
            },
        };
        for input in inputs {
            let news = match input {
                Input::Key(key) => News::Event(Event::Key(key)),
                Input::Click(column, row) => News::Click(column, row),
                Input::Wheel(is_down) => News::Event(Event::Wheel(is_down)),
            };
            if tell.send(news).is_err() {
                return Some(());
            }
        }
    }
}

/// Waits for signals, and for the end of the terminal.
pub fn watch_signals(signals: &SignalFd, tell: &SyncSender<News>) {
    let Ok(epoll) = Epoll::new() else { return };
    let mut ready = Events::with_capacity(2);
    // Of the terminal only that it is gone, which is always told.
    let is_watched = epoll.add(signals, 0, Interest::READ).is_ok();
    let _ = epoll.add(std::io::stdin(), 1, Interest::NONE);
    while is_watched && epoll.wait(&mut ready, None).is_ok() {
        let is_gone = ready.iter().any(|ready| ready.token == 1);
        let news = match signals.read() {
            _ if is_gone => News::End,
            Ok(None) => continue,
            Ok(Some(signal)) if signal.signal == SIGWINCH => News::Size,
            Ok(Some(signal)) if signal.signal == SIGTSTP => News::Suspend,
            _ => News::End,
        };
        let is_end = matches!(news, News::End);
        if tell.send(news).is_err() || is_end {
            return;
        }
    }
}

/// All that waits, up to a bound.
pub fn drain(first: Option<News>, more: &Receiver<News>, most: usize) -> (Vec<News>, bool) {
    let mut all: Vec<News> = first.into_iter().collect();
    while all.len() < most {
        match more.try_recv() {
            Ok(news) => all.push(news),
            Err(TryRecvError::Empty) => return (all, true),
            Err(TryRecvError::Disconnected) => return (all, false),
        }
    }
    (all, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_very_long_line_the_begin_is_read() {
        let text = format!("one\n{}\ntwo\n\nlast", "x".repeat(100_000));
        let mut reader = BufReader::new(text.as_bytes());
        let lines: Vec<String> = std::iter::from_fn(|| next_line(&mut reader)).collect();
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [3, LOG_LINE_BYTES_MAX as usize, 3, 0, 4]);
    }
}
