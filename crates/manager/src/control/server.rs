//! The control socket: what `warren` talks to. Messages are JSON objects, each ended by a NUL byte
//! (the framing of varlink): `{"method": ..., "parameters": {...}}` in, `{"parameters": {...}}` or
//! `{"error": ..., "parameters": {...}}` out. A request with `"more": true` may have several
//! answers; all but the last have `"continues": true`.
//!
//! Reading is open to all who can connect, but for lines of logs and for unit files that the client
//! could not read himself; what changes something is for root and the manager's own user, what follows from rules for
//! one more ([`rules_user`]), and jobs of units for whom polkit allows them ([`authority`]).
//!
//! Readers are answered by threads of this room, from the published view. Some of them wait for the loop: `Record`,
//! for which it cuts a recording into pieces, one a turn, `Status` and `Cat` of a unit that is loaded first, and
//! `FileState` of a file that the loader has yet to look at. The loop waits for none of them.

use crate::base::answers::Bell;
use crate::base::say::say;
use crate::control::answer::{Answered, Refused, invalid, refused};
use crate::control::authority;
use crate::control::caller::{Caller, is_privileged};
use crate::control::careful_reader::CarefulReader;
use crate::control::jobs;
use crate::control::methods::{message, refusal, serve as serve_request};
use crate::control::quota::{Place, Places, Turn, Turns, Who};
use crate::control::rules_user;
use crate::published::shared::Shared;
use crate::shutdown::inhibitors;
use crate::shutdown::inhibitors::LockHandle;
use std::io::{BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use warren_core::protocol::request::Asker;
use warren_sys::eventfd::EventFd;
use warren_sys::{endings, fdpass, socket};
use warren_unit::Scope;
use warren_wire::call::Received;
use warren_wire::control::{
    Done, ErrorName, Inhibit, Jobs, Method, REQUEST_BYTES_MAX, Request,
    UNPRIVILEGED_REQUEST_BYTES_MAX, write_answer, write_error,
};
use warren_wire::frame;

/// Values in a request of others than root and the manager's own user: one of seven bytes takes most of a KiB of memory.
const UNPRIVILEGED_REQUEST_VALUES_MAX: usize = 1024;

/// How long a client may take to read an answer, all of it.
const READS_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of an answer for one write(2): of a longer one each part may take the time that is left.
const PIECE_BYTES: usize = 16 << 10;

/// After an answer of more bytes what it took of the heap is given back.
const LARGE_ANSWER_BYTES: usize = 1 << 20;

/// Connections to one user that cannot be closed for what he has sent: with more he gets none.
const UNENDED_OF_ONE_USER_MAX: usize = 16;

/// So long nobody is taken after accept(2) has failed, for want of descriptors or memory, unless a client
/// ends: nothing tells when others give some back.
const REST: Duration = Duration::from_secs(1);

/// Clients of root that are served at the same time when no thread can be had.
const RESERVE_THREADS: usize = 2;

/// So long one of these is waited for, by all who come then.
const RESERVE_PATIENCE: Duration = Duration::from_millis(500);

/// So long the thread that takes clients has to leave those who come to the next manager.
const LEAVING_TIME: Duration = Duration::from_secs(1);

/// The control socket, served.
#[derive(Debug)]
pub struct Control {
    /// A copy of the one that clients come to.
    listener: UnixListener,
    /// Readable once those who come are the next manager's.
    leaving: Arc<EventFd>,
    /// Hangs up when nobody is taken any more.
    left: Receiver<()>,
}

impl Control {
    /// Whoever keeps it keeps those who connect while nobody serves.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Whoever comes from now on is served by the manager that comes.
    pub fn leave_others_to_the_next(&self) {
        self.leaving.notify();
        // Nothing is ever sent: it hangs up, or does not in time.
        let _ = self.left.recv_timeout(LEAVING_TIME);
    }
}

/// What is done for a client until it goes.
pub(crate) type Service = fn(&UnixStream, Asker, &Place, &Arc<Shared>);

/// Listens at `path` and serves in threads of its own. `kept` is the listener of an earlier manager:
/// who connected since that one ended is served now.
pub(crate) fn start(
    path: &Path,
    kept: Option<OwnedFd>,
    shared: Arc<Shared>,
    service: Service,
) -> std::io::Result<Control> {
    let is_there =
        || std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let listener = match kept.filter(|_| is_there()) {
        Some(kept) => UnixListener::from(kept),
        None => bind(path)?,
    };
    // Older kernels do not know it.
    let _ = fdpass::refuse_fds(listener.as_fd());
    let copy = listener.try_clone()?;
    let leaving = Arc::new(EventFd::new().map_err(of_kernel)?);
    let (taking, left) = channel();
    let is_leaving = leaving.clone();
    std::thread::Builder::new().name("control".into()).spawn(move || {
        accept(&listener, &is_leaving, &shared, service);
        drop::<Sender<()>>(taking);
    })?;
    Ok(Control { listener: copy, leaving, left })
}

fn of_kernel(error: warren_sys::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.errno)
}

fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(path, mode)?;
    Ok(listener)
}

/// The next client; nothing once those who come are left to the next manager.
fn next_client(
    listener: &UnixListener,
    is_leaving: &EventFd,
) -> Option<std::io::Result<UnixStream>> {
    match socket::wait_readable_or(listener, is_leaving) {
        Ok(true) => None,
        // Nobody else takes from it, so that there is somebody.
        Ok(false) => Some(listener.accept().map(|(stream, _)| stream)),
        Err(error) => Some(Err(of_kernel(error))),
    }
}

/// What is done in a thread of its own.
type Work = Box<dyn FnOnce() + Send>;

/// Threads that are there before others have taken all that there may be: root is served then, to stop those.
struct Reserve {
    threads: usize,
    handover: Arc<Handover>,
}

/// How many there are: root stops by the system's manager what took all that there may be, and not by that of a user.
fn reserve_threads(scope: Scope) -> usize {
    match scope {
        Scope::System => RESERVE_THREADS,
        Scope::User => 0,
    }
}

/// Where a thread of the reserve gets what it is to do.
#[derive(Default)]
struct Handover {
    state: Mutex<HandoverState>,
    /// There is work, or a thread that has nothing to do, or work was taken.
    changed: Condvar,
}

#[derive(Default)]
struct HandoverState {
    /// Threads that have nothing to do.
    idle: usize,
    work: Option<Work>,
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, HandoverState> {
        // Nothing that holds it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work.
    fn take(&self) -> Work {
        let mut state = self.lock();
        state.idle += 1;
        self.changed.notify_all();
        loop {
            if let Some(work) = state.work.take() {
                state.idle -= 1;
                self.changed.notify_all();
                return work;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives it to a thread that has nothing to do, for which it waits so long at most; whether there was one.
    fn give(&self, work: Work, patience: Duration) -> bool {
        let is_taken = |state: &mut HandoverState| state.idle == 0 || state.work.is_some();
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_taken);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return false;
        }
        state.work = Some(work);
        self.changed.notify_all();
        true
    }
}

impl Reserve {
    /// With so many threads.
    fn new(threads: usize) -> Reserve {
        let handover = Arc::new(Handover::default());
        let start = |_: &usize| {
            let handover = handover.clone();
            let thread = std::thread::Builder::new().name("reserve".into());
            thread
                .spawn(move || {
                    loop {
                        handover.take()()
                    }
                })
                .is_ok()
        };
        let threads = (0..threads).filter(start).count();
        Reserve { threads, handover }
    }

    /// Does it in a new thread; where there is none, and if it may, in one of the reserve that has nothing to do, or soon
    /// has: whoever it served has gone before it knows.
    fn run(&self, work: Work, may_use_reserve: bool) -> std::io::Result<()> {
        // A thread that cannot be had takes with it what it was to do.
        let shared = Arc::new(Mutex::new(Some(work)));
        let take = |shared: &Mutex<Option<Work>>| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("client".into());
        let Err(error) = thread.spawn(move || take(&own).into_iter().for_each(|work| work()))
        else {
            return Ok(());
        };
        let left = take(&shared).filter(|_| may_use_reserve && self.threads > 0);
        match left.is_some_and(|work| self.handover.give(work, RESERVE_PATIENCE)) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

fn accept(listener: &UnixListener, is_leaving: &EventFd, shared: &Arc<Shared>, service: Service) {
    let places = Places::default();
    let acceptor = std::thread::current();
    let reserve = Reserve::new(reserve_threads(shared.scope()));
    while let Some(stream) = next_client(listener, is_leaving) {
        let Ok(stream) = stream else {
            // He who waits is still in the queue, and would be refused again at once.
            std::thread::park_timeout(REST);
            continue;
        };
        // What is not taken costs nothing; nothing tells when there are fewer.
        while endings::are_full() {
            std::thread::park_timeout(REST);
        }
        let Ok(peer) = warren_sys::credentials::peer(stream.as_fd()) else {
            endings::end(stream.into(), u32::MAX);
            continue;
        };
        let asker = Asker::client(peer.uid, peer.pid);
        let is_over = !is_privileged(asker) && endings::unended(peer.uid) > UNENDED_OF_ONE_USER_MAX;
        let who = match is_privileged(asker) {
            true => Who::Privileged,
            false => Who::unprivileged(peer.uid),
        };
        let stream = Arc::new(stream);
        let place = if is_over { None } else { places.take(&stream, who) };
        let Some(place) = place else {
            let _ = reply(&stream, write_error(&ErrorName::Busy, "too many connections"));
            end_last(stream, peer.uid);
            continue;
        };
        let client = stream.clone();
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        let serve = move || {
            service(&client, asker, &place, &shared);
            end_last(client, peer.uid);
            acceptor.unpark();
            drop(place);
        };
        let may_wait = is_privileged(asker);
        if let Err(e) = reserve.run(Box::new(serve), may_wait) {
            say!("refused a client of the control socket: {e}");
            let text = format!("no thread for it: {e}");
            let _ = reply(&stream, write_error(&ErrorName::Busy, &text));
        }
        // His thread may have ended before.
        end_last(stream, peer.uid);
    }
}

/// Ends a connection for whom nobody else has it.
fn end_last(stream: Arc<UnixStream>, uid: u32) {
    Arc::into_inner(stream).into_iter().for_each(|stream| endings::end(stream.into(), uid));
}

/// The service of the control socket.
pub(crate) fn serve(stream: &UnixStream, asker: Asker, place: &Place, shared: &Arc<Shared>) {
    let request_bytes_max = match is_privileged(asker) {
        true => REQUEST_BYTES_MAX,
        false => UNPRIVILEGED_REQUEST_BYTES_MAX,
    };
    let Some(reader) = CarefulReader::new(stream) else { return };
    let mut reader = BufReader::new(reader);
    let caller = Caller { asker, socket: stream.as_fd(), bell: Bell::new() };
    let turns = place.turns();
    let mut connection = Connection { stream, caller, shared, turns, turn: None, held: Vec::new() };
    loop {
        // The end, or something that never ends.
        let Ok(request) = frame::read(&mut reader, request_bytes_max) else { return };
        let answering = place.answering();
        let answered = match parse(&request, asker) {
            Ok(request) => connection.answer(request),
            Err(why) => Ok(write_error(&ErrorName::Malformed, &why)),
        };
        let done = answered.and_then(|answer| reply(stream, answer));
        connection.turn = None;
        if done.is_err() {
            return;
        }
        match connection.held.is_empty() {
            true => drop(answering),
            false => answering.for_good(),
        }
    }
}

/// What each user without privileges is answered one at a time: recordings and what is said of all units are large for a
/// large host, and what is said of one unit may have files looked for, by the thread that loads what root starts.
fn takes_turn(request: &Request) -> bool {
    matches!(
        request,
        Request::Record(_)
            | Request::List(_)
            | Request::Overview(_)
            | Request::Why(_)
            | Request::Devices(_)
            | Request::Timers(_)
            | Request::StopPlan(_)
            | Request::Unprotected(_)
            | Request::Status(_)
            | Request::Cat(_)
            | Request::FileState(_)
            | Request::Verify(_)
    )
}

/// Whether it is no request that takes many times its size.
pub(crate) fn has_few_values(request: &[u8]) -> bool {
    // No value begins without one of them, but the first; those in texts count too.
    let values = request.iter().filter(|byte| b"{[,:".contains(byte)).count();
    values <= UNPRIVILEGED_REQUEST_VALUES_MAX
}

/// Errors: words for the client.
fn parse(request: &[u8], asker: Asker) -> Result<Received, String> {
    if !is_privileged(asker) && !has_few_values(request) {
        return Err(format!("it has more than {UNPRIVILEGED_REQUEST_VALUES_MAX} values"));
    }
    Received::read(request).map_err(|error| error.to_string())
}

/// Sends a message. What it was made of is gone by now: that has some times the size of its text, which alone is
/// kept until the client has read it.
pub(crate) fn reply(stream: &UnixStream, bytes: Vec<u8>) -> std::io::Result<()> {
    let is_large = bytes.len() > LARGE_ANSWER_BYTES;
    let written = write_within(stream, &bytes, READS_WITHIN);
    drop(bytes);
    if is_large {
        // The heap keeps several times that.
        warren_sys::heap::trim();
    }
    written
}

/// Writes all of it, or fails when that time is over: who reads too slowly is dropped, however little at a time
/// he reads.
fn write_within(mut stream: &UnixStream, bytes: &[u8], time: Duration) -> std::io::Result<()> {
    let until = Instant::now() + time;
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(&rest[..rest.len().min(PIECE_BYTES)]) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A client that is being served.
struct Connection<'a> {
    stream: &'a UnixStream,
    caller: Caller<'a>,
    shared: &'a Arc<Shared>,
    /// Of those without privileges, at large answers.
    turns: &'a Turns,
    /// Until the answer is sent.
    turn: Option<Turn>,
    /// Gone with the connection.
    held: Vec<LockHandle>,
}

impl Connection<'_> {
    /// The message that answers, or the last of several.
    fn answer(&mut self, received: Received) -> std::io::Result<Vec<u8>> {
        let Some(method) = Method::from_full_name(&received.method) else {
            return Ok(refusal((ErrorName::MethodNotFound, received.method)));
        };
        let is_refused = method.changes() && !is_privileged(self.caller.asker);
        let request = Request::read(method, received.parameters);
        let may = |request: &Request| rules_user::may(self.caller.asker, request, self.shared);
        let request = match request {
            Ok(request) => request,
            // Who may not do it is told that first.
            Err(_) if is_refused => return Ok(refusal(authority::denied())),
            Err(why) => return Ok(refusal(invalid(why))),
        };
        if is_refused
            && !may(&request)
            && let Err(why) = authority::check(&request, &self.caller, self.turns, self.shared)
        {
            return Ok(refusal(why));
        }
        match &request {
            Request::Inhibit(request) => return Ok(message(self.inhibit(request))),
            Request::Jobs(request) if received.more => return self.jobs(request),
            request if takes_turn(request) => {
                if let Err(why) = self.take_turn(method == Method::Record) {
                    return Ok(refusal(why));
                }
            }
            _ => {}
        }
        Ok(serve_request(&request, &self.caller, self.shared))
    }

    /// This method leaves something with its connection.
    fn inhibit(&mut self, request: &Inhibit) -> Answered<Done> {
        let lock = inhibitors::take(request, self.caller.asker, self.shared).map_err(refused)?;
        self.held.push(lock);
        Ok(Done {})
    }

    /// Those without privileges are sent one large answer at a time.
    fn take_turn(&mut self, is_recording: bool) -> Result<(), Refused> {
        let asker = self.caller.asker;
        match (is_privileged(asker), is_recording) {
            (true, _) => {}
            (false, false) => self.turn = Some(self.turns.large(asker.uid)),
            (false, true) => {
                self.turn = self.turns.recording();
                if self.turn.is_none() {
                    let text = "another user is receiving a recording; try again later";
                    return Err((ErrorName::Busy, text.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The one method with several answers: one for each unit, when its job has ended.
    fn jobs(&self, request: &Jobs) -> std::io::Result<Vec<u8>> {
        jobs::jobs(request, &self.caller, self.shared, |row| {
            reply(self.stream, write_answer(&row, true))
        })?;
        Ok(write_answer(&Done {}, false))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Sixteen clients of a user that each ask for a unit that there is not had a start of root's wait for seconds.
    #[test]
    fn what_may_have_files_looked_for_is_answered_to_a_user_one_at_a_time() {
        let check = |method: Method, expected: bool| {
            let request = Request::read(method, serde_json::json!({"unit": "a.service"}));
            assert_eq!(takes_turn(&request.expect("a request")), expected, "{method:?}");
        };
        for method in [Method::Status, Method::Cat, Method::FileState, Method::List] {
            check(method, true);
        }
        check(Method::Totals, false);
    }

    #[test]
    fn who_reads_a_little_now_and_then_is_dropped_when_his_time_is_over() {
        let (own, client) = UnixStream::pair().expect("a pair");
        let is_over = Arc::new(AtomicBool::new(false));
        let reads = std::thread::spawn({
            let is_over = is_over.clone();
            move || {
                while !is_over.load(Ordering::SeqCst) {
                    let _ = (&client).read(&mut [0; 1024]);
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            }
        });
        let written = write_within(&own, &[0; 64 << 20], Duration::from_millis(200));
        is_over.store(true, Ordering::SeqCst);
        drop(own);
        assert!(written.is_err());
        reads.join().expect("it ends");
    }

    #[test]
    fn who_comes_when_the_manager_leaves_is_left_in_the_queue() {
        let scratch = crate::base::scratch::Scratch::new("queue");
        let path = scratch.0.join("control");
        let listener = bind(&path).expect("it can be bound");
        let leaving = EventFd::new().expect("an eventfd");
        let connect = || UnixStream::connect(&path).expect("it listens");
        let (_first, second) = (connect(), connect());
        assert!(next_client(&listener, &leaving).is_some_and(|taken| taken.is_ok()));
        leaving.notify();
        assert!(next_client(&listener, &leaving).is_none());
        // Of the next manager.
        let (taken, _) = listener.accept().expect("it is still there");
        drop(second);
        assert_eq!((&taken).read(&mut [0]).expect("the end"), 0);
    }

    #[test]
    fn requests_of_who_may_change_nothing_have_few_values() {
        let (root, other) = (Asker::client(0, 1), Asker::client(u32::MAX - 1, 1));
        let of = |values: usize| format!("[{}0]", "{\"\":0},".repeat(values)).into_bytes();
        assert!(parse(&of(9000), root).is_ok() && parse(&of(300), other).is_ok());
        let refused = parse(&of(9000), other);
        assert!(refused.is_err_and(|why| why.contains("1024 values")));
    }

    /// Root was refused who came when the thread that had served another one was yet to see him go.
    #[test]
    fn a_thread_of_the_reserve_is_waited_for() {
        let reserve = Reserve::new(RESERVE_THREADS);
        let (begin, begun) = channel::<()>();
        let give = |patience| {
            let (end, ended) = channel::<()>();
            let begin = begin.clone();
            let work = move || {
                begin.send(()).expect("the test waits");
                let _ = ended.recv();
            };
            reserve.handover.give(Box::new(work), patience).then_some(end)
        };
        let long = Duration::from_secs(60);
        let first = give(long).expect("it has nothing to do");
        let _second = give(long).expect("nor has the other");
        (0..RESERVE_THREADS).for_each(|_| begun.recv().expect("it begins"));
        assert!(give(Duration::ZERO).is_none(), "both are at work");
        drop(first);
        assert!(give(long).is_some(), "one soon has nothing to do");
    }

    #[test]
    fn an_answer_of_several_pieces_arrives_whole() {
        let (own, client) = UnixStream::pair().expect("a pair");
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 1).map(|at| at as u8).collect();
        let reads = std::thread::spawn(move || {
            let mut read = Vec::new();
            (&client).read_to_end(&mut read).map(|_| read)
        });
        write_within(&own, &bytes, READS_WITHIN).expect("it is read");
        drop(own);
        assert_eq!(reads.join().expect("it ends").expect("it is sent"), bytes);
    }
}
