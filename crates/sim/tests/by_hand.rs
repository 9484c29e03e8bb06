//! What no plan comes to: the core is told each event by hand, as units are renamed under what runs, and
//! as events come in an order that the kernel of the simulator has not.

use std::sync::Arc;
use std::time::Duration;

use warren_core::graph::{Change, Delta, Graph};
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::{ClientId, EffectId, UnitId};
use warren_core::model::job::{JobKind, JobMode, JobType};
use warren_core::model::process::ExitStatus;
use warren_core::model::reason::Code;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::event::{Done, Effect, Event, KillTarget, Notify, Spawn};
use warren_core::protocol::request::{Asker, Notice, Refusal, Reply, Request};
use warren_core::protocol::trace_event::What;
use warren_core::settings::Settings;
use warren_sim::units::UnitTexts;
use warren_unit::config::TasksLimit;
use warren_unit::{Context, Defaults, UnitName};

/// The signal that asks a process to end.
const SIGTERM: i32 = 15;

struct Hand {
    core: Core,
    texts: UnitTexts,
    now: u64,
}

impl Hand {
    /// A core with these units, which have no default dependencies.
    fn new(texts: &str) -> Hand {
        let context = Arc::new(Context::system());
        let settings = Settings { context, defaults: Arc::new(Defaults::default()) };
        let core = Core::new(settings, 1);
        let mut hand = Hand { core, texts: UnitTexts::default(), now: 1_000_000 };
        hand.reload(texts, &[]);
        hand
    }

    fn tell(&mut self, event: Event) -> Vec<Effect> {
        self.now += 1000;
        let at = Moment { monotonic: Monotonic(self.now), realtime_us: self.now };
        self.core.step(at, event)
    }

    /// Puts these files in force, with a further name each for some of their units.
    fn reload(&mut self, texts: &str, aliases: &[(&str, &str)]) {
        let alone = |line: &str| match line.starts_with("# ") {
            true => format!("{line}\n[Unit]\nDefaultDependencies=no\n"),
            false => format!("{line}\n"),
        };
        let mut texts = UnitTexts::parse(&texts.lines().map(alone).collect::<String>());
        aliases.iter().for_each(|(_, unit)| _ = texts.set_instance(name(unit)));
        let mut changes = texts.changes_from(&self.texts);
        for change in &mut changes {
            let Change::Set(new) = change else { continue };
            let of_this = aliases.iter().filter(|(_, unit)| *unit == new.name.as_str());
            new.aliases = of_this.map(|(alias, _)| name(alias)).collect();
        }
        self.texts = texts;
        let (graph, delta) = self.core.graph().apply(changes);
        self.commit(graph, delta);
    }

    fn commit(&mut self, graph: Graph, delta: Delta) {
        self.tell(Event::Commit { graph: Arc::new(graph), delta: Box::new(delta) });
    }

    fn unit(&self, unit: &str) -> UnitId {
        self.core.graph().lookup(&name(unit)).expect("something has that name")
    }

    fn state(&self, unit: UnitId) -> ActiveState {
        self.core.unit_run(unit).active_state()
    }

    fn ask(&mut self, unit: UnitId, job_type: JobType) -> Vec<Effect> {
        let mode = JobMode::Replace;
        let request = Request::Enqueue { unit, job_type, mode, reload_if_possible: false };
        let (client, asker) = (ClientId(1), Asker { uid: 0, pid: 1 });
        self.tell(Event::Request { client, asker, request })
    }

    fn done(&mut self, effect: EffectId, result: Done) -> Vec<Effect> {
        self.tell(Event::Done { effect, result })
    }

    /// The one process that is asked for is there.
    fn born(&mut self, effects: &[Effect], pid: u32) -> Vec<Effect> {
        let (id, _) = spawn(effects);
        self.done(id, Done::Spawned { pid })
    }

    /// The last process of a unit has ended.
    fn gone(&mut self, unit: UnitId, pid: u32) -> Vec<Effect> {
        self.tell(Event::CgroupEmpty { unit, cpu_us: None });
        self.tell(Event::Exited { pid, status: ExitStatus::Exited(3) })
    }

    /// Starts a socket.
    fn listen(&mut self, socket: &str) -> UnitId {
        let unit = self.unit(socket);
        let effects = self.ask(unit, JobType::Start);
        let listens = |effect: &Effect| matches!(effect, Effect::Listen { .. });
        let id = effects.iter().find(|e| listens(e)).and_then(Effect::id).expect("it listens");
        self.done(id, Done::Listening { fds: 1 });
        unit
    }
}

fn name(text: &str) -> UnitName {
    UnitName::parse(text).expect("a valid name")
}

/// The one process that is asked for.
fn spawn(effects: &[Effect]) -> (EffectId, &Spawn) {
    let mut all = effects.iter().filter_map(|effect| match effect {
        Effect::Spawn(id, spawn) => Some((*id, &**spawn)),
        _ => None,
    });
    let one = all.next().expect("a process is asked for");
    assert!(all.next().is_none());
    one
}

fn watches(effects: &[Effect], socket: UnitId) -> bool {
    let is_watch =
        |e: &Effect| matches!(e, Effect::WatchSockets { unit, on: true, .. } if *unit == socket);
    effects.iter().any(is_watch)
}

const SERVICE: &str = "# a.service\n[Service]\nExecStart=/p\n";

#[test]
fn a_socket_whose_name_is_anothers_hands_over_what_it_listens_at_and_listens_again() {
    let old = format!("{SERVICE}# a.socket\n[Socket]\nListenStream=/run/a\n");
    let new = format!("{SERVICE}# b.socket\n[Socket]\nListenStream=/run/a\nService=a.service\n");
    for comes_first in [true, false] {
        let mut hand = Hand::new(&old);
        let socket = hand.listen("a.socket");
        let service = hand.unit("a.service");
        let mut effects = Vec::new();
        if comes_first {
            effects = hand.tell(Event::Incoming { unit: socket });
        }
        hand.reload(&new, &[("a.socket", "b.socket")]);
        assert_ne!(hand.unit("a.socket"), socket);
        if !comes_first {
            effects = hand.tell(Event::Incoming { unit: socket });
        }
        assert_eq!(spawn(&effects).1.sockets, [socket]);
        hand.born(&effects, 7);
        assert!(watches(&hand.gone(service, 7), socket), "{comes_first}");
        let effects = hand.ask(service, JobType::Start);
        assert_eq!(spawn(&effects).1.sockets, [socket]);
    }
}

#[test]
fn a_socket_without_a_file_hands_over_to_who_has_the_name_of_its_service() {
    let mut hand = Hand::new(&format!("{SERVICE}# a.socket\n[Socket]\nListenStream=/run/a\n"));
    let socket = hand.listen("a.socket");
    hand.reload("# b.service\n[Service]\nExecStart=/p\n", &[("a.service", "b.service")]);
    let effects = hand.tell(Event::Incoming { unit: socket });
    let (_, asked) = spawn(&effects);
    let service = hand.unit("b.service");
    assert_eq!((asked.unit, &asked.sockets), (service, &vec![socket]));
    hand.born(&effects, 7);
    assert!(watches(&hand.gone(service, 7), socket));
}

#[test]
fn who_has_the_name_of_what_runs_is_not_forgotten_before_that_has_ended() {
    const SERVICE: &str = "[Service]\nSlice=system.slice\nExecStart=/p\n";
    let mut hand = Hand::new(&format!("# a@1.service\n{SERVICE}"));
    let left = hand.unit("a@1.service");
    let effects = hand.ask(left, JobType::Start);
    hand.born(&effects, 7);
    hand.reload(&format!("# b@.service\n{SERVICE}"), &[("a@1.service", "b@1.service")]);
    let by = hand.unit("a@1.service");
    assert!(by != left && !hand.core.is_forgettable(by));
    let effects = hand.ask(by, JobType::Stop);
    assert!(effects.iter().any(|e| matches!(e, Effect::Kill { unit, .. } if *unit == left)));
    hand.gone(left, 7);
    assert!(hand.core.is_forgettable(by) && !hand.core.is_forgettable(left));
}

#[test]
fn instances_that_name_only_each_other_are_forgotten_together_when_both_are_down() {
    const PAIR: &str = "# p@.service\n[Unit]\nRequires=p@%i.socket\n[Service]\nSlice=system.slice\n\
        ExecStart=/p\n# p@.socket\n[Socket]\nSlice=system.slice\nListenStream=/run/%i\n";
    let aliases = [("own.service", "p@1.service"), ("own.socket", "p@1.socket")];
    let names = ["p@1.service", "p@1.socket"].map(name);
    let mut hand = Hand::new("");
    hand.reload(PAIR, &aliases);
    let both = names.clone().map(|name| hand.unit(name.as_str()));
    let [service, socket] = both;
    let together = |hand: &Hand, unit| {
        let group = hand.core.forgotten_with(unit, |_| false);
        group.map(|units| units.into_iter().collect::<std::collections::BTreeSet<UnitId>>())
    };
    assert_eq!(together(&hand, service), Some(both.into()));
    assert_eq!(together(&hand, socket), Some(both.into()));
    assert!(hand.core.forgotten_with(service, |unit| unit == socket).is_none());
    hand.listen("p@1.socket");
    assert!(both.iter().all(|&unit| !hand.core.is_forgettable(unit)));
    hand.ask(socket, JobType::Stop);
    assert!(both.iter().all(|&unit| hand.core.is_forgettable(unit)));
    assert!(hand.core.graph().forget(&names[..1]).1.forgotten.is_empty(), "not one alone");
    hand.reload(&format!("{PAIR}# keeps.target\n[Unit]\nWants=p@1.socket\n"), &aliases);
    assert!(both.iter().all(|&unit| !hand.core.is_forgettable(unit)));
    assert!(hand.core.graph().forget(&names).1.forgotten.is_empty(), "one is wanted");
    hand.reload(PAIR, &aliases);
    let (graph, delta) = hand.core.graph().forget(&names);
    assert_eq!(delta.forgotten.len(), 2);
    hand.commit(graph, delta);
    assert!(names.iter().all(|name| hand.core.graph().lookup(name).is_none()));
}

/// A daemon that names its main process in a file runs, as process 8.
const FORKING: &str =
    "# a.service\n[Service]\nType=forking\nPIDFile=/run/a.pid\nExecStart=/p\nExecReload=/p\n";

fn forked() -> (Hand, UnitId) {
    let mut hand = Hand::new(FORKING);
    let unit = hand.unit("a.service");
    let effects = hand.ask(unit, JobType::Start);
    hand.born(&effects, 7);
    let effects = hand.tell(Event::Exited { pid: 7, status: ExitStatus::Exited(0) });
    let id = search(&effects).expect("the file is looked at");
    hand.done(id, Done::MainProcess { pid: Some(8) });
    assert_eq!(hand.state(unit), ActiveState::Active);
    (hand, unit)
}

fn search(effects: &[Effect]) -> Option<EffectId> {
    let is_search = |effect: &&Effect| matches!(effect, Effect::FindMain { .. });
    effects.iter().find(is_search).and_then(Effect::id)
}

#[test]
fn where_nobody_is_left_no_file_is_asked_for_a_successor() {
    let (mut hand, unit) = forked();
    assert_eq!(search(&hand.gone(unit, 8)), None);
    assert_eq!(hand.state(unit), ActiveState::Failed);
}

#[test]
fn a_successor_is_looked_for_no_longer_when_a_command_was_the_last_one_left() {
    let (mut hand, unit) = forked();
    let effects = hand.ask(unit, JobType::Reload);
    hand.born(&effects, 9);
    let effects = hand.tell(Event::Exited { pid: 8, status: ExitStatus::Exited(3) });
    assert!(search(&effects).is_some());
    hand.tell(Event::CgroupEmpty { unit, cpu_us: None });
    hand.tell(Event::Exited { pid: 9, status: ExitStatus::Exited(0) });
    assert_eq!(hand.state(unit), ActiveState::Failed);
}

const GUARDED: &str = "# a.service\n[Service]\nType=notify\nWatchdogSec=1\nExecStart=/p\n";

#[test]
fn who_feeds_its_watchdog_or_says_the_same_again_is_written_down_but_nobody_is_told() {
    let mut hand = Hand::new(GUARDED);
    let unit = hand.unit("a.service");
    let effects = hand.ask(unit, JobType::Start);
    hand.born(&effects, 7);
    let says = |hand: &mut Hand, message: Notify| {
        hand.tell(Event::Notify { unit, pid: 7, message });
        (hand.core.take_changed().len(), hand.core.take_rearmed().len())
    };
    let status = |text: &str| Notify { status: Some(text.to_owned()), ..Notify::default() };
    let fed = || Notify { watchdog: true, ..Notify::default() };
    says(&mut hand, Notify { ready: true, ..Notify::default() });
    assert_eq!(hand.state(unit), ActiveState::Active);
    assert_eq!(says(&mut hand, fed()), (0, 1));
    assert_eq!(says(&mut hand, status("one")), (1, 0));
    assert_eq!(says(&mut hand, status("one")), (0, 0));
    assert_eq!(says(&mut hand, Notify { errno: Some(2), ..status("two") }), (1, 0));
    assert_eq!(says(&mut hand, Notify { errno: Some(2), ..fed() }), (0, 1));
    // It is late a second after it was fed last.
    let late = Some(Monotonic(hand.now + 1_000_000));
    assert_eq!(hand.core.next_deadline(), late);
}

#[test]
fn what_a_service_said_before_it_was_told_to_reload_is_no_answer_to_that() {
    let mut hand = Hand::new("# a.service\n[Service]\nType=notify-reload\nExecStart=/p\n");
    let unit = hand.unit("a.service");
    let effects = hand.ask(unit, JobType::Start);
    hand.born(&effects, 7);
    let ready = || Notify { ready: true, ..Notify::default() };
    let reloading = |at| Notify { reloading: true, made: Some(Monotonic(at)), ..Notify::default() };
    let says = |hand: &mut Hand, message: Notify| {
        hand.tell(Event::Notify { unit, pid: 7, message });
        hand.state(unit)
    };
    assert_eq!(says(&mut hand, ready()), ActiveState::Active);
    // It has begun to reload by itself, and is told to before that is heard of.
    let before = hand.now;
    hand.ask(unit, JobType::Reload);
    assert_eq!(says(&mut hand, reloading(before)), ActiveState::Reloading);
    assert_eq!(says(&mut hand, ready()), ActiveState::Reloading, "not by this one");
    let after = hand.now;
    assert_eq!(says(&mut hand, reloading(after)), ActiveState::Reloading);
    assert_eq!(says(&mut hand, ready()), ActiveState::Active);
}

#[test]
fn other_defaults_hold_for_what_is_under_way_and_for_groups_that_there_are() {
    let mut hand = Hand::new(
        "# a.service\n[Service]\nExecStart=/p\n# own.service\n[Service]\nExecStart=/p\nTasksMax=3\n",
    );
    for (pid, unit) in [(7, "a.service"), (8, "own.service")] {
        let start = hand.ask(hand.unit(unit), JobType::Start);
        hand.born(&start, pid);
    }
    let unit = hand.unit("a.service");
    hand.ask(unit, JobType::Stop);
    let begun = hand.now;
    assert_eq!(hand.core.next_deadline(), Some(Monotonic(begun + 90_000_000)));
    let defaults = Defaults {
        timeout_stop: Some(Duration::from_secs(5)),
        tasks_max: TasksLimit::Tasks(9),
        ..Defaults::default()
    };
    let effects = hand.tell(Event::Defaults(Arc::new(defaults)));
    assert_eq!(hand.core.next_deadline(), Some(Monotonic(begun + 5_000_000)));
    let limited = effects.iter().filter_map(|effect| match effect {
        Effect::LimitGroup { unit, .. } => Some(*unit),
        _ => None,
    });
    assert_eq!(limited.collect::<Vec<_>>(), [unit], "the other one has a limit of its own");
}

/// None of several begins before all are there: the one that is named first waits for the other.
#[test]
fn jobs_that_are_asked_for_together_keep_their_order() {
    let mut hand = Hand::new(
        "# first.service\n[Service]\nType=oneshot\nExecStart=/p\n\
         # second.service\nAfter=first.service\n[Service]\nType=oneshot\nExecStart=/p\n\
         # rival.service\nConflicts=first.service\n[Service]\nExecStart=/p\n",
    );
    let many = |hand: &mut Hand, names: &[&str], mode| {
        let units = names.iter().map(|name| hand.unit(name)).collect();
        let request = Request::EnqueueMany {
            units,
            job_type: JobType::Start,
            mode,
            reload_if_possible: false,
        };
        let (client, asker) = (ClientId(1), Asker { uid: 0, pid: 1 });
        hand.tell(Event::Request { client, asker, request })
    };
    let reply = |effects: &[Effect]| {
        let mut replies = effects.iter().filter_map(|effect| match effect {
            Effect::Reply { reply, .. } => Some(reply.clone()),
            _ => None,
        });
        replies.next().expect("it is answered")
    };
    let refused =
        many(&mut hand, &["second.service", "first.service", "rival.service"], JobMode::Replace);
    assert_eq!(reply(&refused), Reply::Refused(Refusal::JobsConflict(name("first.service"))));
    let alone = many(&mut hand, &["second.service", "first.service"], JobMode::Flush);
    assert!(matches!(reply(&alone), Reply::Refused(Refusal::BadMode(_))));
    for unit in ["first.service", "second.service", "rival.service"] {
        assert!(hand.core.unit_run(hand.unit(unit)).job.is_none(), "{unit}: all of them or none");
    }
    let effects = many(&mut hand, &["second.service", "first.service"], JobMode::Fail);
    let Reply::JobsOf(jobs) = reply(&effects) else { panic!("they are made") };
    let units: Vec<_> = jobs.iter().map(|(_, unit, kind)| (*unit, *kind)).collect();
    let (first, second) = (hand.unit("first.service"), hand.unit("second.service"));
    assert_eq!(units, [(second, JobKind::Start), (first, JobKind::Start)]);
    let (_, begun) = spawn(&effects);
    assert_eq!(begun.unit, first, "the other one waits for it");
}

/// Which job gives way does not depend on the order in which files are found (systemd#39338).
#[test]
fn of_a_circle_the_same_job_gives_way_whatever_is_loaded_first() {
    let files = [
        "# t.target\nWants=a.service\nRequires=sysinit.target\nAfter=sysinit.target\n",
        "# sysinit.target\nWants=b.service\n",
        "# a.service\nBefore=b.service\nRequires=sysinit.target\nAfter=sysinit.target\n[Service]\nExecStart=/p\n",
        "# b.service\nBefore=sysinit.target\n[Service]\nExecStart=/p\n",
    ];
    for turn in 0..files.len() {
        let mut files = files;
        files.rotate_left(turn);
        let mut hand = Hand::new(&files.concat());
        let target = hand.unit("t.target");
        let effects = hand.ask(target, JobType::Start);
        let gave_way: Vec<UnitName> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Tell(Notice::CycleBroken { at, .. }) => {
                    Some(hand.core.graph().name(*at).clone())
                }
                _ => None,
            })
            .collect();
        assert_eq!(gave_way, [name("b.service")], "{turn}");
        let reason = hand.core.view().reason(hand.unit("b.service")).code;
        assert_eq!(reason, Code::Circle, "status and why of it say so");
    }
}

/// What a watchdog or a limit asks for is not done, and the log is told.
#[test]
fn service_watchdogs_can_be_switched_off() {
    let mut hand = Hand::new(
        "# a.service\n[Service]\nExecStart=/p\nWatchdogSec=5\n\
         # b.service\nJobTimeoutSec=5\nJobTimeoutAction=reboot\nAfter=c.service\n[Service]\nExecStart=/p\n\
         # c.service\n[Service]\nType=oneshot\nExecStart=/p\nTimeoutStartSec=infinity\n",
    );
    let ignored = |effects: &[Effect]| {
        let is_ignored = |effect: &&Effect| {
            let code = Code::WatchdogIgnored;
            matches!(effect, Effect::Tell(Notice::Log { reason, .. }) if reason.code == code)
        };
        effects.iter().filter(is_ignored).count()
    };
    let reboots =
        |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Emergency { .. }));
    let a = hand.unit("a.service");
    let start = hand.ask(a, JobType::Start);
    hand.born(&start, 7);
    hand.tell(Event::ServiceWatchdogs(false));
    hand.now += 6_000_000;
    let effects = hand.tell(Event::Tick);
    assert_eq!((hand.state(a), ignored(&effects)), (ActiveState::Active, 1));
    for (on, expected) in [(false, (1, false)), (true, (0, true))] {
        hand.tell(Event::ServiceWatchdogs(on));
        let c = hand.unit("c.service");
        hand.ask(c, JobType::Start);
        let b = hand.unit("b.service");
        hand.ask(b, JobType::Start);
        hand.now += 6_000_000;
        let effects = hand.tell(Event::Tick);
        assert_eq!((ignored(&effects), reboots(&effects)), expected, "{on}");
    }
}

#[test]
fn a_job_begins_when_its_turn_comes() {
    let mut hand = Hand::new("# a.target\nRequires=b.target c.target\n# b.target\n# c.target\n");
    hand.core.set_jobs_per_step_max(1);
    let unit = hand.unit("a.target");
    let mut begun = Vec::new();
    hand.ask(unit, JobType::Start);
    while hand.core.is_behind() {
        hand.tell(Event::Tick);
    }
    for happening in hand.core.take_happenings().0 {
        if let What::JobBegan { .. } = happening.what {
            begun.push(happening.at.0);
        }
    }
    begun.dedup();
    assert_eq!(begun.len(), 3, "each has a moment of its own: {begun:?}");
}

const MIXED: &str = "# a.service\n[Service]\nKillMode=mixed\nExecStart=/p\n";

#[test]
fn who_is_still_being_made_when_it_is_to_stop_is_asked_to_when_it_comes() {
    let mut hand = Hand::new(MIXED);
    let unit = hand.unit("a.service");
    let start = hand.ask(unit, JobType::Start);
    let is_kill = |e: &&Effect| matches!(e, Effect::Kill { .. } | Effect::KillGroup { .. });
    assert_eq!(hand.ask(unit, JobType::Stop).iter().find(is_kill), None);
    let come = hand.born(&start, 7);
    let asked = come.iter().find(is_kill).expect("it is told to stop");
    assert!(
        matches!(asked, Effect::Kill { target: KillTarget::Process(7), signal: SIGTERM, .. }),
        "{asked:?}"
    );
    hand.tell(Event::CgroupEmpty { unit, cpu_us: None });
    hand.tell(Event::Exited { pid: 7, status: ExitStatus::Killed(15) });
    assert_eq!(hand.state(unit), ActiveState::Inactive);
}

const ENDS: &str = "# shutdown.target\n# reboot.target\nRequires=shutdown.target\nAfter=shutdown.target\n\
                    # a.service\nConflicts=shutdown.target\nBefore=shutdown.target\n\
                    [X-Warren]\nStopPolicy=sudden\n[Service]\nExecStart=/p\n";

#[test]
fn an_end_that_files_describe_is_one_from_its_first_job_until_it_is_cancelled() {
    let mut hand = Hand::new(ENDS);
    let (service, target) = (hand.unit("a.service"), hand.unit("reboot.target"));
    let start = hand.ask(service, JobType::Start);
    hand.born(&start, 7);
    assert!(!hand.core.view().is_going_down());
    let begun = hand.ask(target, JobType::Start);
    let view = hand.core.view();
    assert_eq!(
        (view.is_going_down(), view.goal(), view.totals.stopping),
        (true, Some(target), false)
    );
    let is_killed = |e: &Effect| matches!(e, Effect::KillGroup { unit } if *unit == service);
    assert!(begun.iter().any(is_killed), "it holds nothing to save: {begun:?}");
    let shutdown = hand.unit("shutdown.target");
    hand.ask(shutdown, JobType::Stop);
    assert!(!hand.core.view().is_going_down(), "it is cancelled");
}

#[test]
fn a_reset_of_all_that_failed_tells_only_of_what_had() {
    let mut hand =
        Hand::new("# a.service\n[Service]\nExecStart=/p\n# b.service\n[Service]\nExecStart=/p\n");
    let (good, bad) = (hand.unit("a.service"), hand.unit("b.service"));
    for (unit, pid) in [(good, 7), (bad, 8)] {
        let effects = hand.ask(unit, JobType::Start);
        hand.born(&effects, pid);
    }
    hand.gone(bad, 8);
    assert_eq!(hand.state(bad), ActiveState::Failed);
    hand.core.take_changed();
    let (client, asker) = (ClientId(1), Asker { uid: 0, pid: 1 });
    hand.tell(Event::Request { client, asker, request: Request::ResetFailed(None) });
    assert_eq!(hand.core.take_changed().into_iter().collect::<Vec<_>>(), [bad]);
    assert_eq!(hand.state(bad), ActiveState::Inactive);
}

#[test]
fn what_begins_and_ends_in_one_moment_has_ended_after_it_began() {
    let mut hand = Hand::new(SERVICE);
    let unit = hand.unit("a.service");
    let effects = hand.ask(unit, JobType::Start);
    let moment = Moment { monotonic: Monotonic(hand.now + 5), realtime_us: hand.now + 5 };
    let (effect, _) = spawn(&effects);
    hand.core.step(moment, Event::Done { effect, result: Done::Spawned { pid: 7 } });
    hand.core.step(moment, Event::Exited { pid: 7, status: ExitStatus::Exited(0) });
    let history = hand.core.unit_run(unit).history.as_ref().expect("it ran");
    let main = history.last_main.expect("it has ended");
    assert!(main.started < main.ended, "{main:?}");
}

#[test]
fn only_jobs_that_failed_count_as_failed() {
    let mut hand = Hand::new(
        "# a.service\n[Service]\nType=notify\nExecStart=/p\n\
         # b.service\n[Unit]\nRequires=a.service\nAfter=a.service\n[Service]\nExecStart=/p\n\
         # c.swap\n[Swap]\nWhat=/c\n",
    );
    hand.core.set_without_swaps(true);
    let [a, b, swap] = ["a.service", "b.service", "c.swap"].map(|unit| hand.unit(unit));
    let failed = |hand: &Hand| hand.core.totals().failed_jobs_ever;
    hand.ask(swap, JobType::Start);
    let effects = hand.ask(a, JobType::Start);
    hand.born(&effects, 7);
    hand.ask(a, JobType::Stop);
    hand.gone(a, 7);
    assert_eq!(failed(&hand), 0, "one is not supported, one was cancelled");
    let effects = hand.ask(b, JobType::Start);
    hand.born(&effects, 8);
    hand.gone(a, 8);
    assert_eq!(hand.state(b), ActiveState::Inactive);
    assert_eq!(failed(&hand), 1, "not the one that could not begin for it");
}

#[test]
fn where_swap_areas_are_the_hosts_none_is_asked_for() {
    let texts = "# dev-x.swap\n[Unit]\nOnFailure=other.service\n[Swap]\nWhat=/dev/x\n\
                 # other.service\n[Service]\nExecStart=/p\n";
    let started = |without: bool| {
        let mut hand = Hand::new(texts);
        hand.core.set_without_swaps(without);
        let unit = hand.unit("dev-x.swap");
        let effects = hand.ask(unit, JobType::Start);
        (effects.iter().any(|e| matches!(e, Effect::Mount { .. })), hand.state(unit))
    };
    assert_eq!(started(false), (true, ActiveState::Activating));
    assert_eq!(started(true), (false, ActiveState::Inactive));
}
