//! The console at work: events into the state, its orders to the threads, its screens to the terminal.
//!
//! - Owns: the terminal, the threads and what connects them.
//! - Must not: wait for anybody but the next event, or decide what a key means.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use warren_sys::signal::{
    SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGWINCH, SignalFd, SignalSet,
};

use crate::draw::target;
use crate::lines;
use crate::manager::Connect;
use crate::model::Model;
use crate::poller;
use crate::questions::Subject;
use crate::state::{Event, Look, Order, State, Verb};
use crate::terminal::Screen;
use crate::threads::{self, Follower, News, Question, Sample};

/// News that wait for the screen, at most: who has more to tell waits.
const NEWS_MAX: usize = 1024;

/// Time between two screens, unless a key was pressed.
const FRAME_TIME: Duration = Duration::from_millis(50);

/// Orders of one kind that wait: a person gives no more.
const ORDERS_MAX: usize = 64;

/// Size of a terminal that does not tell its own.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The person has seen enough, or the terminal is gone.
    Quit,
    /// The manager has ended.
    ManagerEnded,
}

/// Queues to the threads.
struct Threads {
    samples: Sender<Sample>,
    questions: SyncSender<Question>,
    actions: SyncSender<(Verb, Vec<Arc<str>>)>,
    starts: SyncSender<Arc<str>>,
    asked: SyncSender<(usize, Subject)>,
    _hurry: Sender<()>,
}

/// Shows the console until it is over.
///
/// # Errors
/// Standard input is no terminal, or the system has no threads to give.
pub fn run(connect: Arc<dyn Connect>, look: Look) -> std::io::Result<End> {
    let ending = SignalSet::EMPTY.with(SIGHUP).with(SIGINT).with(SIGTERM).with(SIGQUIT);
    // Before any thread: all are to leave them to one.
    let signals = SignalFd::new(ending.with(SIGWINCH).with(SIGTSTP)).map_err(of_kernel)?;
    let (tell, news) = sync_channel(NEWS_MAX);
    let wakes = tell.clone();
    let screen = Screen::enter(size(), look.has_mouse, move || {
        // With a full queue there is enough to wake up for.
        let _ = wakes.try_send(News::Written);
    })?;
    let of_signals = tell.clone();
    spawn("signals", move || threads::watch_signals(&signals, &of_signals))?;
    let of_keys = tell.clone();
    spawn("keys", move || threads::read_keys(&of_keys))?;
    let threads = start_threads(&connect, &tell)?;
    let mut console = Console {
        state: State::new(size(), look),
        screen,
        connect,
        threads,
        tell,
        follower: None,
        wanted: (Vec::new(), false),
        is_tick: true,
        root: None,
        end: None,
    };
    console.state.update(Event::Tick(now_us()));
    Ok(console.until_it_ends(&news))
}

fn start_threads(connect: &Arc<dyn Connect>, tell: &SyncSender<News>) -> std::io::Result<Threads> {
    let (hurry, hurried) = channel();
    let (samples, sampled) = channel();
    let (questions, asked) = sync_channel(ORDERS_MAX);
    let (actions, ordered) = sync_channel(ORDERS_MAX);
    let (starts, units) = sync_channel(ORDERS_MAX);
    let (asked_of, all_asked) = sync_channel(ORDERS_MAX);
    let with = || (connect.clone(), tell.clone());
    let (of, to) = with();
    spawn("manager", move || threads::poll(&*of, &to, &hurried))?;
    let (_, to) = with();
    spawn("cgroups", move || threads::sample(&sampled, &to))?;
    let (of, to) = with();
    spawn("page", move || threads::ask_pages(&*of, &asked, &to))?;
    let (of, to) = with();
    spawn("actions", move || threads::act(&*of, &ordered, &to))?;
    let (of, to) = with();
    spawn("starts", move || threads::read_starts(&*of, &units, &to))?;
    let (of, to) = with();
    spawn("answers", move || threads::answer(&*of, &all_asked, &to))?;
    Ok(Threads { samples, questions, actions, starts, asked: asked_of, _hurry: hurry })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

fn of_kernel(error: warren_sys::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.errno)
}

fn size() -> (u16, u16) {
    warren_sys::terminal::size(std::io::stdout()).unwrap_or(SIZE_DEFAULT)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

struct Console {
    state: State,
    screen: Screen,
    connect: Arc<dyn Connect>,
    threads: Threads,
    tell: SyncSender<News>,
    follower: Option<Follower>,
    wanted: (Vec<Arc<str>>, bool),
    /// A period has begun for which nothing was drawn yet.
    is_tick: bool,
    root: Option<PathBuf>,
    end: Option<End>,
}

impl Console {
    fn until_it_ends(&mut self, news: &Receiver<News>) -> End {
        let mut is_stale = true;
        let (mut ticked, mut drawn) = (Instant::now(), None::<Instant>);
        loop {
            let rest = drawn.map_or(Duration::ZERO, |at| FRAME_TIME.saturating_sub(at.elapsed()));
            if is_stale && rest.is_zero() && self.screen.is_ready() {
                if self.draw().is_err() {
                    return End::Quit;
                }
                (is_stale, drawn) = (false, Some(Instant::now()));
            }
            let until_tick = poller::PERIOD.saturating_sub(ticked.elapsed());
            let wait = if is_stale && !rest.is_zero() { until_tick.min(rest) } else { until_tick };
            let first = match news.recv_timeout(wait) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return End::Quit,
            };
            let (all, _) = threads::drain(first, news, NEWS_MAX);
            for news in all {
                match news {
                    News::Written => continue,
                    // The hand is quicker than the frame.
                    News::Event(Event::Key(_) | Event::Wheel(_)) | News::Click(..) => drawn = None,
                    _ => {}
                }
                is_stale = true;
                self.take(news);
            }
            if let Some(end) = self.end {
                return end;
            }
            if ticked.elapsed() >= poller::PERIOD {
                ticked = Instant::now();
                self.state.update(Event::Tick(now_us()));
                (is_stale, self.is_tick) = (true, true);
            }
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        self.state.settle();
        // With each screen only where that costs no look at all units.
        if self.is_tick || !self.state.shows_groups() {
            self.is_tick = false;
            let wanted = (self.state.wanted(), self.state.wish.sort.is_of_whole_look());
            if wanted != self.wanted {
                let _ = self.threads.samples.send(Sample::Units(wanted.0.clone(), wanted.1));
                self.wanted = wanted;
            }
        }
        self.screen.show(&self.state)
    }

    fn take(&mut self, news: News) {
        match news {
            News::Event(event) => {
                for order in self.state.update(event) {
                    self.carry_out(order);
                }
            }
            News::CgroupRoot(root) => {
                let root = self.connect.root().join(root.trim_start_matches('/'));
                if self.root.as_ref() != Some(&root) {
                    let _ = self.threads.samples.send(Sample::Root(root.clone()));
                    self.root = Some(root);
                }
            }
            News::Click(column, row) => {
                // What the person sees is what was drawn last.
                let target = target(&self.state, column.into(), row.into());
                self.take(News::Event(Event::Click(target)));
            }
            News::Written => {}
            News::Size => {
                let (columns, rows) = size();
                self.state.update(Event::Size(columns, rows));
            }
            News::Suspend => {
                let stop = || drop(warren_sys::process::kill(std::process::id() as i32, SIGSTOP));
                if self.screen.step_aside(stop).is_err() {
                    self.end = Some(End::Quit);
                }
                self.take(News::Size);
            }
            News::Over => self.end = Some(End::ManagerEnded),
            News::End => self.end = Some(End::Quit),
        }
    }

    /// Puts it into a queue; with a full one the person asks again.
    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Open(unit) => {
                self.follower = Follower::start(&*self.connect, &unit, &self.tell);
                let _ = self.threads.questions.try_send(Question::Page(unit));
            }
            Order::Close => {
                self.follower = None;
                let _ = self.threads.questions.try_send(Question::Close);
            }
            Order::ReadFiles(unit) => {
                let _ = self.threads.questions.try_send(Question::Files(unit));
            }
            Order::ReadStarts(unit) => {
                let _ = self.threads.starts.try_send(unit);
            }
            Order::Act(verb, units) => {
                if self.threads.actions.try_send((verb, units)).is_err() {
                    let text = "Too much is being done already; ask again.".to_owned();
                    self.state.update(Event::Done(text));
                }
            }
            Order::Ask(question, subject) => {
                if let Err(full) = self.threads.asked.try_send((question, subject)) {
                    let (TrySendError::Full((question, subject))
                    | TrySendError::Disconnected((question, subject))) = full;
                    let why = Err("Too much is being asked already; ask again.".to_owned());
                    self.state.update(Event::Answer(question, subject, why));
                }
            }
            Order::Quit => self.end = Some(End::Quit),
        }
    }
}

/// Prints the news as lines until a signal ends it, nobody reads them, or the manager has ended.
///
/// # Errors
/// The system has no threads to give.
pub fn run_lines(connect: Arc<dyn Connect>) -> std::io::Result<End> {
    let (tell, news) = sync_channel(NEWS_MAX);
    let (_hurry, hurried) = channel::<()>();
    spawn("manager", move || threads::poll(&*connect, &tell, &hurried))?;
    let mut model = Model::default();
    let mut is_silent = false;
    for news in news {
        let said = match news {
            News::Event(Event::Top(top)) => {
                model.take_top(*top);
                Vec::new()
            }
            News::Event(Event::Overview(answer, is_all)) => {
                let is_first = !model.is_loaded;
                let changes =
                    if is_first { Vec::new() } else { lines::changes(&model, &answer, is_all) };
                model.take_overview(answer, is_all);
                if is_first { lines::first(&model) } else { changes }
            }
            News::Event(Event::Silent(Some(why))) if !is_silent => {
                is_silent = true;
                vec![crate::text::plain(&why).into_owned()]
            }
            News::Event(Event::Silent(None)) => {
                is_silent = false;
                vec!["the manager responds again".to_owned()]
            }
            News::Over => return Ok(End::ManagerEnded),
            _ => Vec::new(),
        };
        if !said.is_empty() && print(&said).is_err() {
            return Ok(End::Quit);
        }
    }
    Ok(End::Quit)
}

fn print(said: &[String]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{}\n", said.join("\n")).as_bytes())?;
    out.flush()
}
