//! Sockets that are opened and removed by threads, as the way to them may lead past a server that does not
//! answer.
//!
//! The threads hold nothing open but their end of a pair of sockets, through which they hand over what they
//! have opened. For one unit they do one thing after another: what is removed is not what was made since.

use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Done;
use warren_core::settings::Compiled;
use warren_sys::eventfd::EventFd;
use warren_sys::{Result, fdpass};

use crate::base::worker_pool::{Piece, Workers};
use crate::socket::opening;
use crate::socket::opening::Opened;

/// Sockets are open within this time, or their unit fails.
pub const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// What is to be removed has gone within this time, or nobody waits for it any more.
pub const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Threads that share what is to be done.
const THREADS: usize = 2;

/// Bytes of a message: the number of the task, and what the kernel has refused.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// What became of sockets that were to be opened.
pub struct OpeningResults {
    /// Who asked; `None` if it was given up.
    pub effect: Option<EffectId>,
    /// Whose they are.
    pub unit: UnitId,
    /// What they were opened by.
    pub settings: Arc<Compiled>,
    /// They, or why not.
    pub result: std::result::Result<Opened, String>,
}

/// What has taken too long and is not waited for any more.
pub enum Late {
    /// The effect fails.
    Open(EffectId, Arc<Compiled>),
    /// It may be removed yet.
    Remove(UnitId),
}

enum What {
    /// `None` from when it was given up.
    Open(Option<EffectId>),
    /// And whether what the sockets are listed by goes, not the links alone.
    Remove(bool),
}

struct Task {
    unit: UnitId,
    what: What,
    settings: Arc<Compiled>,
    due: Instant,
}

/// The threads, and where what they have opened comes through.
struct Hands {
    workers: Workers,
    ours: OwnedFd,
    theirs: Arc<OwnedFd>,
}

/// All of it.
pub struct Beside {
    wake: Arc<EventFd>,
    /// There are none before there is something to do.
    hands: Option<Hands>,
    /// Tasks for the threads at the end of the turn.
    to_do: VecDeque<u64>,
    tasks: BTreeMap<u64, Task>,
    /// Tasks of each unit; the first is under way.
    lines: BTreeMap<UnitId, VecDeque<u64>>,
    /// Tasks that are waited for, by when no longer.
    due: BTreeSet<(Instant, u64)>,
    /// Those of them that remove something.
    removing: BTreeMap<u64, UnitId>,
    /// Tasks that ever were.
    ever: u64,
    /// What came through and is not told yet, by task.
    come: BTreeMap<u64, Opened>,
}

impl Beside {
    /// Nothing is under way. The loop is woken through `wake`.
    pub fn new(wake: Arc<EventFd>) -> Beside {
        Beside {
            wake,
            hands: None,
            to_do: VecDeque::new(),
            tasks: BTreeMap::new(),
            lines: BTreeMap::new(),
            due: BTreeSet::new(),
            removing: BTreeMap::new(),
            ever: 0,
            come: BTreeMap::new(),
        }
    }

    /// Has a unit's sockets opened for an effect.
    pub fn open(&mut self, effect: EffectId, unit: UnitId, settings: Arc<Compiled>) {
        let due = Instant::now() + OPEN_WITHIN;
        self.add(Task { unit, what: What::Open(Some(effect)), settings, due });
    }

    /// Has a unit's links removed, and with `listed` what its sockets are known by.
    pub fn remove(&mut self, unit: UnitId, settings: Arc<Compiled>, listed: bool) {
        let due = Instant::now() + GONE_WITHIN;
        self.add(Task { unit, what: What::Remove(listed), settings, due });
    }

    /// Whether there is something to do for the unit that is not done.
    pub fn is_at(&self, unit: UnitId) -> bool {
        self.lines.contains_key(&unit)
    }

    /// Units of which something is to go that is waited for.
    pub fn removing(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.removing.values().copied()
    }

    fn add(&mut self, task: Task) {
        self.ever += 1;
        let number = self.ever;
        self.due.insert((task.due, number));
        if matches!(task.what, What::Remove(_)) {
            self.removing.insert(number, task.unit);
        }
        let line = self.lines.entry(task.unit).or_default();
        line.push_back(number);
        if line.len() == 1 {
            self.to_do.push_back(number);
        }
        self.tasks.insert(number, task);
    }

    /// Hands to the threads what is to be done.
    pub fn begin(&mut self) {
        if self.to_do.is_empty() {
            return;
        }
        if self.hands.is_none() {
            self.hands = Hands::new(&self.wake);
        }
        // Without threads it waits: the next turn tries again to have some.
        let Some(hands) = &self.hands else { return };
        let tasks = std::mem::take(&mut self.to_do).into_iter();
        let pieces: VecDeque<Piece> = tasks
            .filter_map(|number| {
                Some((EffectId(number), hands.work(number, self.tasks.get(&number)?)))
            })
            .collect();
        hands.workers.share_out(pieces, THREADS);
    }

    /// What was opened, or not, since the last call.
    pub fn hear(&mut self) -> Vec<OpeningResults> {
        let Some(hands) = &self.hands else { return Vec::new() };
        let results: Vec<(EffectId, Done)> = hands.workers.results().collect();
        // What a task has opened comes before its result.
        hands.take_all(&mut self.come);
        let mut heard = Vec::new();
        for (EffectId(number), done) in results {
            let Some(Task { unit, what, settings, due }) = self.tasks.remove(&number) else {
                continue;
            };
            self.due.remove(&(due, number));
            self.removing.remove(&number);
            self.go_on(unit);
            let What::Open(effect) = what else { continue };
            let result = match (done, self.come.remove(&number).unwrap_or_default()) {
                (Done::Failed { error }, _) => Err(error),
                (Done::Listening { fds }, opened) if opened.fds.len() < usize::from(fds) => {
                    Err("there is no room for more file descriptors".to_owned())
                }
                (_, opened) => Ok(opened),
            };
            heard.push(OpeningResults { effect, unit, settings, result });
        }
        heard
    }

    /// The first of a unit's line is done.
    fn go_on(&mut self, unit: UnitId) {
        let Some(line) = self.lines.get_mut(&unit) else { return };
        line.pop_front();
        match line.front() {
            Some(&next) => self.to_do.push_back(next),
            None => _ = self.lines.remove(&unit),
        }
    }

    /// Waits no longer for what should be done by now.
    pub fn leave_late(&mut self, now: Instant) -> Vec<Late> {
        let mut late = Vec::new();
        while let Some(&(due, number)) = self.due.first()
            && due <= now
        {
            self.due.pop_first();
            self.removing.remove(&number);
            let Some(task) = self.tasks.get_mut(&number) else { continue };
            late.extend(match &mut task.what {
                What::Open(effect) => {
                    effect.take().map(|effect| Late::Open(effect, task.settings.clone()))
                }
                What::Remove(_) => Some(Late::Remove(task.unit)),
            });
        }
        late
    }
}

impl Patient for Beside {
    // Has done by others what waits behind threads that are held up.
    fn relieve(&self, now: Instant) {
        self.hands.iter().for_each(|hands| hands.workers.relieve(now));
    }

    // How long nothing is to be done about what is late, if something may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let late = self.due.first().map(|(due, _)| due.saturating_duration_since(now));
        let held = self.hands.as_ref().and_then(|hands| hands.workers.patience_left(now));
        late.into_iter().chain(held).min()
    }
}

impl Hands {
    fn new(wake: &Arc<EventFd>) -> Option<Hands> {
        let (ours, theirs) = fdpass::seqpacket_pair(false).ok()?;
        let theirs = Arc::new(theirs);
        let workers = Workers::start_keeping(wake.clone(), vec![theirs.clone()]).ok()?;
        Some(Hands { workers, ours, theirs })
    }

    fn work(&self, number: u64, task: &Task) -> Box<dyn FnOnce() -> Done + Send> {
        let settings = task.settings.clone();
        match task.what {
            What::Remove(listed) => Box::new(move || {
                opening::remove_all(settings.socket(), listed);
                Done::Ok
            }),
            // It was given up before its turn came.
            What::Open(None) => Box::new(|| Done::Failed { error: String::new() }),
            What::Open(Some(_)) => {
                let (theirs, wake) = (self.theirs.clone(), self.workers.wake().clone());
                Box::new(move || {
                    let opened = opening::open_all(settings.socket());
                    let over = opened.and_then(|opened| {
                        hand_over(&theirs, &wake, number, &opened).map_err(|e| e.to_string())?;
                        Ok(opened.fds.len() as u16)
                    });
                    match over {
                        Ok(fds) => Done::Listening { fds },
                        Err(error) => Done::Failed { error },
                    }
                })
            }
        }
    }

    /// Takes everything that has come through, by task.
    fn take_all(&self, come: &mut BTreeMap<u64, Opened>) {
        let mut message = [0; MESSAGE_BYTES_MAX];
        loop {
            let mut fds = Vec::new();
            let taken = fdpass::recv(self.ours.as_fd(), &mut message, &mut fds, false);
            let Ok(taken) = taken else { return };
            let Some((number, refused)) = message[..taken.bytes].split_first_chunk() else {
                return;
            };
            let opened = come.entry(u64::from_ne_bytes(*number)).or_default();
            opened.fds.append(&mut fds);
            let refused = String::from_utf8_lossy(refused);
            opened.refused.extend(refused.lines().map(str::to_owned));
        }
    }
}

/// Sends what was opened to the loop, under the number of the task. If there is no room for it, the loop is
/// woken to make some.
fn hand_over(way: &OwnedFd, wake: &EventFd, number: u64, opened: &Opened) -> Result<()> {
    let mut message = number.to_ne_bytes().to_vec();
    message.extend_from_slice(opened.refused.join("\n").as_bytes());
    message.truncate(MESSAGE_BYTES_MAX);
    for fds in opened.fds.chunks(fdpass::FDS_PER_MESSAGE_MAX) {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        match fdpass::try_send(way.as_fd(), &message, &fds) {
            Err(e) if e.is_would_block() => {
                wake.notify();
                fdpass::send(way.as_fd(), &message, &fds)?;
            }
            sent => sent?,
        }
        message.truncate(size_of_val(&number));
    }
    Ok(())
}
