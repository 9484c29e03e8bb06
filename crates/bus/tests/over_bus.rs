//! Clients that come over a message bus: who they are, what they may, what they are told. The bus is
//! played by the test, which sees every message.

mod support;

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use support::client::*;
use support::played::*;
use support::*;
use warren_bus::Answer;
use warren_bus::backend::Call;
use warren_bus::wire::{self, Kind, To, Writer};

const UNITS: &str = "\
== dbus.service
[Service]
ExecStart=/bin/sleep 9
== a.service
[Service]
ExecStart=/bin/sleep 9
== sysinit.target
[Unit]
";

const POLKIT: &str = "org.freedesktop.PolicyKit1";
const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied: Permission denied";

/// A message bus with the manager on it.
struct MessageBus {
    listener: UnixListener,
    bus: PlayedBus,
}

/// Which manager, and what is to be removed at the end.
struct Ground {
    machine: Arc<Machine>,
    dir: Scratch,
}

/// Starts a manager, its bus's service, and gets as far as the manager having its name.
fn joined(test: &str) -> (Ground, MessageBus) {
    let dir = Scratch::new(test);
    let machine = Machine::new(UNITS);
    let path = dir.0.join("bus");
    let listener = UnixListener::bind(&path).expect("a socket can be made");
    machine.serve_and_join(&dir.path("private"), Some(path));
    machine.start("dbus.service");
    let played = PlayedBus::new(accept(&listener));
    let mut bus = MessageBus { listener, bus: played };
    bus.name_it(1);
    (Ground { machine, dir }, bus)
}

impl std::ops::Deref for MessageBus {
    type Target = PlayedBus;

    fn deref(&self) -> &PlayedBus {
        &self.bus
    }
}

impl std::ops::DerefMut for MessageBus {
    fn deref_mut(&mut self) -> &mut PlayedBus {
        &mut self.bus
    }
}

impl MessageBus {
    /// Answers what comes first; RequestName with this code.
    fn name_it(&mut self, code: u32) {
        for want in ["Hello", "AddMatch", "RequestName"] {
            let call = self.next();
            assert_eq!(call.member, want);
            let mut body = Writer::new();
            match want {
                "Hello" => self.answer(&call, "s", body.str(":1.1")),
                "AddMatch" => self.answer(&call, "", &body),
                _ => {
                    assert_eq!(call.body().str(), Ok("org.freedesktop.systemd1"));
                    self.answer(&call, "u", body.u32(code));
                }
            }
        }
    }

    /// A client calls a method of the manager.
    fn call(&mut self, sender: &str, member: &str, texts: &[&str]) {
        self.call_of(sender, MANAGER_INTERFACE, member, texts);
    }

    fn call_of(&mut self, sender: &str, interface: &str, member: &str, texts: &[&str]) {
        self.call_with(sender, interface, member, strings(texts));
    }

    fn call_with(&mut self, sender: &str, interface: &str, member: &str, args: (&str, Writer)) {
        let (signature, body) = args;
        let member = format!("{interface}.{member}");
        let mut whole = wire::signal(To::Peer, 1, MANAGER, &member, signature, body.as_bytes());
        (whole[1], whole[2]) = (1, 0);
        self.put(&whole, sender);
    }

    /// The manager asks who the client is, and is told.
    fn introduce(&mut self, client: &str, uid: u32) {
        let call = self.next();
        assert_eq!(call.member, "GetConnectionCredentials");
        assert_eq!(call.body().str(), Ok(client));
        self.tell_user(&call, uid, DBUS);
    }

    /// The answer to GetConnectionCredentials, as from `sender`.
    fn tell_user(&mut self, call: &Received, uid: u32, sender: &str) {
        let mut body = Writer::new();
        body.array(b'{', |w| {
            w.structure().str("LinuxSecurityLabel").variant("ay").bytes(b"x");
            w.structure().str("UnixUserID").variant("u").u32(uid);
            w.structure().str("ProcessID").variant("u").u32(77);
        });
        self.answer_as(sender, call, "a{sv}", &body);
    }

    /// The manager asks polkit, which is not there.
    fn is_without_polkit(&mut self) {
        let check = self.next();
        assert_eq!(check.member, "CheckAuthorization");
        self.has_no_polkit(&check);
    }

    fn has_no_polkit(&mut self, check: &Received) {
        let name = "org.freedesktop.DBus.Error.ServiceUnknown";
        self.refuse_as(DBUS, check, (name, "The name is not activatable."));
    }

    fn refuse_as(&mut self, sender: &str, call: &Received, (name, text): (&str, &str)) {
        let asked = wire::parse(&call.frame).expect("a sound call").header.serial;
        self.put(&wire::error_reply(To::Peer, 9, asked, name, text), sender);
    }

    /// The same for a client that allows a person to be asked.
    fn call_interactively(&mut self, sender: &str, member: &str, args: (&str, Writer)) {
        let member = format!("{MANAGER_INTERFACE}.{member}");
        let mut whole = wire::signal(To::Peer, 1, MANAGER, &member, args.0, args.1.as_bytes());
        (whole[1], whole[2]) = (1, 4);
        self.put(&whole, sender);
    }

    /// What polkit is asked next: by whom, about what, with which details, and whether a person may be asked.
    fn is_asked(&mut self) -> (Received, String) {
        let check = self.next();
        assert_eq!(check.member, "CheckAuthorization");
        assert_eq!(destination(&check.frame).as_deref(), Some(POLKIT));
        let mut body = check.body();
        assert_eq!(body.str(), Ok("system-bus-name"));
        let entry = |r: &mut wire::Reader<'_>| {
            r.align(8)?;
            Ok((r.str()?.to_owned(), r.signature().and_then(|_| r.str())?.to_owned()))
        };
        let subject = body.array(b'{', entry).expect("a subject");
        let action = body.str().expect("an action").rsplit('.').next().map(str::to_owned);
        let detail = |r: &mut wire::Reader<'_>| {
            r.align(8)?;
            Ok((r.str()?.to_owned(), r.str()?.to_owned()))
        };
        let details = body.array(b'{', detail).expect("details");
        let (flags, cancellation) = (body.u32(), body.str());
        assert_eq!(cancellation, Ok(""));
        let mut text = format!("{} {}", subject[0].1, action.expect("a name"));
        for (name, value) in details {
            text += &format!(" {name}={value}");
        }
        (check, format!("{text} {}", flags.expect("flags")))
    }

    /// Polkit's answer.
    fn say(&mut self, check: &Received, authorized: bool, challenge: bool) {
        let mut body = Writer::new();
        body.structure().bool(authorized).bool(challenge).array(b'{', |_| {});
        self.answer_as(":1.3", check, "(bba{ss})", &body);
    }

    /// What the manager says next: to whom, and what.
    fn says(&mut self) -> String {
        let said = self.next();
        assert!(!has_field(&said.frame, 7), "a bus says itself who sends");
        let to = match destination(&said.frame) {
            Some(to) => format!("to {to}: "),
            None => "to all: ".to_owned(),
        };
        let what = match said.kind {
            Kind::Error => said.error(),
            Kind::MethodReturn => format!("reply {:?}", said.signature),
            _ => said.member.clone(),
        };
        to + &what
    }
}

/// Where the header field of this code begins.
fn field_at(frame: &[u8], code: u8) -> Option<usize> {
    let fields = u32::from_le_bytes(frame[12..16].try_into().expect("four bytes")) as usize;
    let is_it = |at: &usize| frame[*at] == code && frame[*at + 1..].starts_with(b"\x01s\0");
    (16..16 + fields).step_by(8).find(is_it)
}

fn has_field(frame: &[u8], code: u8) -> bool {
    field_at(frame, code).is_some()
}

fn destination(frame: &[u8]) -> Option<String> {
    let at = field_at(frame, 6)? + 4;
    let bytes = u32::from_le_bytes(frame[at..at + 4].try_into().ok()?) as usize;
    Some(String::from_utf8_lossy(&frame[at + 4..at + 4 + bytes]).into_owned())
}

#[test]
fn a_client_is_asked_about_once_and_may_do_what_its_user_may() {
    let (_ground, mut bus) = joined("credentials");
    bus.call(":1.7", "GetUnit", &["a.service"]);
    bus.call(":1.7", "StartUnit", &["a.service", "replace"]);
    bus.introduce(":1.7", 4711);
    assert_eq!(bus.says(), "to :1.7: reply \"o\"");
    bus.is_without_polkit();
    assert_eq!(bus.says(), format!("to :1.7: {DENIED}"));
    bus.call(":1.7", "ListUnits", &[]);
    assert_eq!(bus.says(), "to :1.7: reply \"a(ssssssouso)\"");
    bus.call(":1.8", "StartUnit", &["a.service", "replace"]);
    bus.introduce(":1.8", 0);
    assert_eq!(bus.says(), "to :1.8: reply \"o\"");
}

#[test]
fn a_clients_calls_are_answered_in_order_and_hold_up_no_other() {
    let (ground, mut bus) = joined("order");
    bus.call(":1.7", "LoadUnit", &["late.service"]);
    bus.call(":1.7", "GetUnit", &["late.service"]);
    bus.call(":1.7", "ListJobs", &[]);
    bus.introduce(":1.7", 0);
    assert_eq!(bus.says(), "to :1.7: reply \"o\"");
    let absent = "org.freedesktop.systemd1.NoSuchUnit: Unit late.service not loaded.";
    assert_eq!(bus.says(), format!("to :1.7: {absent}"), "it has no file");
    assert_eq!(bus.says(), "to :1.7: reply \"a(usssoo)\"");
    *ground.machine.unanswered.lock().unwrap() = Some(Vec::new());
    bus.call(":1.7", "ClearJobs", &[]);
    bus.call(":1.7", "ListJobs", &[]);
    bus.call(":1.7", "StartUnit", &["a.service", "replace"]);
    bus.call(":1.8", "GetDefaultTarget", &[]);
    bus.introduce(":1.8", 4711);
    assert_eq!(bus.says(), "to :1.8: reply \"s\"");
    let replies = ground.machine.unanswered.lock().unwrap().take().expect("it is asked");
    replies.into_iter().for_each(|reply| reply.send(Ok(Answer::Done)));
    for reply in ["", "a(usssoo)", "o"] {
        assert_eq!(bus.says(), format!("to :1.7: reply {reply:?}"));
    }
}

#[test]
fn what_a_client_called_before_it_went_is_done() {
    let (ground, mut bus) = joined("went");
    bus.call(":1.7", "GetDefaultTarget", &[]);
    bus.introduce(":1.7", 0);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
    *ground.machine.unanswered.lock().unwrap() = Some(Vec::new());
    bus.call(":1.7", "ClearJobs", &[]);
    bus.call(":1.7", "StartUnit", &["a.service", "replace"]);
    bus.signal(DBUS, "DBus.NameOwnerChanged", &[":1.7", ":1.7", ""]);
    assert_eq!(bus.says(), "to :1.7: reply \"o\"");
}

#[test]
fn whom_the_bus_does_not_know_is_not_answered() {
    let (_ground, mut bus) = joined("unknown");
    bus.call(":1.7", "Reload", &[]);
    let call = bus.next();
    let asked = wire::parse(&call.frame).expect("a sound call").header.serial;
    let gone =
        wire::error_reply(To::Peer, 9, asked, "org.freedesktop.DBus.Error.NameHasNoOwner", "gone");
    bus.put(&gone, DBUS);
    // Nothing is answered to it; the next one is heard.
    bus.call(":1.8", "GetDefaultTarget", &[]);
    bus.introduce(":1.8", 4711);
    assert_eq!(bus.says(), "to :1.8: reply \"s\"");
}

#[test]
fn signals_are_for_those_who_subscribe_and_end_with_them() {
    let (ground, mut bus) = joined("signals");
    ground.machine.start("a.service");
    bus.call(":1.7", "Unsubscribe", &[]);
    bus.introduce(":1.7", 4711);
    let refused = "org.freedesktop.systemd1.NotSubscribed: Client is not subscribed.";
    assert_eq!(bus.says(), format!("to :1.7: {refused}"));
    bus.call(":1.7", "Subscribe", &[]);
    assert_eq!(bus.says(), "to :1.7: reply \"\"");
    ground.machine.announce(warren_bus::Announcement::UnitFilesChanged);
    assert_eq!(bus.says(), "to all: UnitFilesChanged");
    bus.signal(DBUS, "DBus.NameOwnerChanged", &[":1.7", ":1.7", ""]);
    // A question that is answered behind the bus's news: nothing of this is told to anybody.
    bus.call(":1.8", "GetDefaultTarget", &[]);
    bus.introduce(":1.8", 4711);
    assert_eq!(bus.says(), "to :1.8: reply \"s\"");
    ground.machine.announce(warren_bus::Announcement::UnitFilesChanged);
    bus.call(":1.8", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.8: reply \"s\"");
}

#[test]
fn references_last_as_long_as_the_client() {
    let (ground, mut bus) = joined("references");
    bus.call(":1.7", "RefUnit", &["absent.service"]);
    bus.introduce(":1.7", 0);
    let absent = "org.freedesktop.systemd1.NoSuchUnit: Unit absent.service not found.";
    assert_eq!(bus.says(), format!("to :1.7: {absent}"));
    for want in ["true", ""] {
        bus.call(":1.7", "RefUnit", &["a.service"]);
        assert_eq!(bus.says(), "to :1.7: reply \"\"");
        assert_eq!(ground.machine.take_referred(), want);
    }
    for want in ["", "false"] {
        bus.call(":1.7", "UnrefUnit", &["a.service"]);
        assert_eq!(bus.says(), "to :1.7: reply \"\"");
        assert_eq!(ground.machine.take_referred(), want);
    }
    bus.call(":1.7", "UnrefUnit", &["a.service"]);
    let never = "org.freedesktop.systemd1.NotReferenced: Unit has not been referenced yet.";
    assert_eq!(bus.says(), format!("to :1.7: {never}"));
    bus.call(":1.7", "RefUnit", &["a.service"]);
    bus.says();
    bus.signal(DBUS, "DBus.NameOwnerChanged", &[":1.7", ":1.7", ""]);
    bus.call(":1.8", "GetDefaultTarget", &[]);
    bus.introduce(":1.8", 4711);
    bus.says();
    assert_eq!(ground.machine.take_referred(), "true false");
}

/// What polkit is asked about a call of a user who may change nothing himself.
#[track_caller]
fn check_asked(bus: &mut MessageBus, member: &str, args: (&str, Writer), want: &str) {
    bus.call_with(":1.7", MANAGER_INTERFACE, member, args);
    let (check, asked) = bus.is_asked();
    assert_eq!(asked, format!(":1.7 {want}"));
    bus.say(&check, false, false);
    assert_eq!(bus.says(), format!("to :1.7: {DENIED}"));
}

/// The same words as systemd 252 has for them.
#[test]
fn polkit_is_asked_about_who_may_change_nothing_himself() {
    let (ground, mut bus) = joined("polkit");
    bus.call(":1.7", "GetDefaultTarget", &[]);
    bus.introduce(":1.7", 4711);
    bus.says();
    ground.machine.asked.lock().expect("nobody panics").clear();
    let text = |text: &str| {
        format!(
            "polkit.message=Authentication is required to {text}. polkit.gettext_domain=systemd 1"
        )
    };
    let job = |verb: &str, about: &str| {
        format!("manage-units unit=a.service verb={verb} {}", text(&format!("{about} '$(unit)'")))
    };
    let unit = || strings(&["a.service", "replace"]);
    for (member, verb, about) in [
        ("StartUnit", "start", "start"),
        ("StopUnit", "stop", "stop"),
        ("TryRestartUnit", "try-restart", "restart"),
        ("ReloadOrTryRestartUnit", "reload-or-try-restart", "restart"),
    ] {
        check_asked(&mut bus, member, unit(), &job(verb, about));
    }
    let enqueue = strings(&["a.service", "stop", "replace"]);
    check_asked(&mut bus, "EnqueueUnitJob", enqueue, &job("stop", "stop"));
    let absent = job("start", "start").replace("a.service", "absent.service");
    check_asked(&mut bus, "StartUnit", strings(&["absent.service", "replace"]), &absent);
    let reset = text("reset the \"failed\" state of '$(unit)'");
    let reset = format!("manage-units unit=a.service verb=reset-failed {reset}");
    check_asked(&mut bus, "ResetFailedUnit", strings(&["a.service"]), &reset);
    let refer = "manage-units unit=a.service verb=ref 0";
    check_asked(&mut bus, "RefUnit", strings(&["a.service"]), refer);
    let none = || strings(&[]);
    check_asked(&mut bus, "ResetFailed", none(), "manage-units 0");
    check_asked(&mut bus, "Reload", none(), "reload-daemon 0");
    let mut names = Writer::new();
    names.strs(["A=b"]);
    check_asked(&mut bus, "SetEnvironment", ("as", names), "set-environment 0");
    let mut files = Writer::new();
    files.strs(["a.service"]).bool(false);
    check_asked(&mut bus, "DisableUnitFiles", ("asb", files), "manage-unit-files 0");
    // A person may be asked if the client says so.
    bus.call_interactively(":1.7", "Reload", none());
    let (check, asked) = bus.is_asked();
    assert_eq!(asked, ":1.7 reload-daemon 1");
    bus.say(&check, false, true);
    let needed = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired: Interactive \
                  authentication required.";
    assert_eq!(bus.says(), format!("to :1.7: {needed}"));
    // Of these it is not asked.
    bus.call(":1.7", "PowerOff", &[]);
    assert_eq!(bus.says(), format!("to :1.7: {DENIED}"));
    assert!(!ground.machine.is_up("a.service"));
    let looks = |call: &Call| matches!(call, Call::LoadUnit(_) | Call::LookAtUnitFiles(_));
    let asked = ground.machine.asked.lock().expect("nobody panics");
    assert_eq!(asked.iter().filter(|call| !looks(call)).collect::<Vec<_>>(), Vec::<&Call>::new());
}

#[test]
fn whom_polkit_allows_it_may_do_it_once_and_nobody_waits_meanwhile() {
    let (ground, mut bus) = joined("allowed");
    bus.call(":1.7", "StartUnit", &["a.service", "replace"]);
    bus.introduce(":1.7", 4711);
    let (check, _) = bus.is_asked();
    // Root does not wait for a person, nor does the same client.
    bus.call(":1.7", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
    bus.call(":1.8", "ResetFailed", &[]);
    bus.introduce(":1.8", 0);
    assert_eq!(bus.says(), "to :1.8: reply \"\"");
    assert!(!ground.machine.is_up("a.service"));
    bus.say(&check, true, false);
    assert_eq!(bus.says(), "to :1.7: reply \"o\"");
    assert!(ground.machine.is_up("a.service"));
    // A second answer to it is none, and the next call is asked about anew.
    bus.say(&check, true, false);
    bus.call(":1.7", "StopUnit", &["a.service", "replace"]);
    let check = loop {
        let told = bus.next();
        if told.member == "CheckAuthorization" {
            break told;
        }
        assert!(matches!(told.kind, Kind::Signal), "{}", told.member);
    };
    bus.refuse_as(":1.3", &check, ("org.freedesktop.PolicyKit1.Error.Failed", "no"));
    while bus.says() != "to :1.7: org.freedesktop.PolicyKit1.Error.Failed: no" {}
    assert!(ground.machine.is_up("a.service"));
}

/// A client of the control socket is asked about as one of the bus is, by its process.
#[test]
fn polkit_is_asked_for_clients_of_other_sockets() {
    use warren_bus::authority::{Action, Question, Who, job_verb};
    let (ground, mut bus) = joined("others");
    let authority = ground.machine.authority();
    let ask = |uid: u32| {
        let (send, verdict) = std::sync::mpsc::channel();
        let verb = job_verb("stop").expect("a verb");
        let unit = Some(("a.service".to_owned(), verb));
        let question = Question { action: Action::ManageUnits, unit };
        let who = Who::Process { pid: 77, start_time: 5, uid };
        authority.ask(who, question, Box::new(move |said| send.send(said).expect("it waits")));
        verdict
    };
    let asked = |bus: &mut MessageBus| {
        let check = bus.next();
        assert_eq!(check.member, "CheckAuthorization");
        assert_eq!(check.body().str(), Ok("unix-process"));
        assert!(check.frame.windows(10).any(|part| part == b"start-time"));
        check
    };
    let said = |verdict: std::sync::mpsc::Receiver<Result<(), warren_bus::BusError>>| {
        let said = verdict.recv_timeout(warren_testkit::WAIT_MAX).expect("a verdict");
        said.map_err(|error| error.to_string())
    };
    let verdict = ask(4711);
    let check = asked(&mut bus);
    bus.say(&check, true, false);
    assert_eq!(said(verdict), Ok(()));
    let verdict = ask(4711);
    let check = asked(&mut bus);
    bus.say(&check, false, false);
    assert_eq!(said(verdict), Err(DENIED.to_owned()));
    // A user has so many questions, others have theirs.
    let open: Vec<_> = (0..16).map(|_| (ask(4711), asked(&mut bus))).collect();
    assert!(said(ask(4711)).is_err_and(|why| why.contains("too many questions")));
    let verdict = ask(4712);
    let check = asked(&mut bus);
    bus.say(&check, true, false);
    assert_eq!(said(verdict), Ok(()));
    // With the bus go all questions; without one there is an answer at once.
    drop(bus);
    for (verdict, _) in open {
        let gone = verdict.recv_timeout(warren_testkit::WAIT_MAX);
        assert_eq!(gone.err(), Some(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
    assert!(said(ask(4711)).is_err_and(|why| why.contains("on no message bus")));
}

#[test]
fn a_user_has_some_questions_in_flight_and_no_more() {
    let (_ground, mut bus) = joined("questions");
    bus.call(":1.7", "Reload", &[]);
    bus.introduce(":1.7", 4711);
    let (first, _) = bus.is_asked();
    let mut asked = 1;
    loop {
        bus.call(":1.7", "Reload", &[]);
        let told = bus.next();
        if told.member != "CheckAuthorization" {
            let error = "org.freedesktop.DBus.Error.LimitsExceeded: Too many calls at once.";
            assert_eq!(told.error(), error);
            break;
        }
        asked += 1;
    }
    assert_eq!(asked, 16);
    bus.say(&first, false, false);
    assert_eq!(bus.says(), format!("to :1.7: {DENIED}"));
    bus.call(":1.7", "Reload", &[]);
    bus.is_asked();
    // Somebody else is asked about.
    bus.call(":1.8", "Reload", &[]);
    bus.introduce(":1.8", 4712);
    let (check, asked) = bus.is_asked();
    assert_eq!(asked, ":1.8 reload-daemon 0");
    bus.say(&check, true, false);
    assert_eq!(bus.says(), "to :1.8: reply \"\"");
}

#[test]
fn who_refers_to_a_unit_is_told_of_its_changes() {
    let (ground, mut bus) = joined("referred");
    bus.call(":1.7", "RefUnit", &["a.service"]);
    bus.introduce(":1.7", 0);
    assert_eq!(bus.says(), "to :1.7: reply \"\"");
    // Of another unit nothing is told, nor of jobs.
    ground.machine.start("sysinit.target");
    ground.machine.start("a.service");
    for _ in 0..2 {
        let told = bus.next();
        let path = wire::parse(&told.frame).map(|message| message.header.path.to_owned());
        assert_eq!(path.as_deref(), Ok("/org/freedesktop/systemd1/unit/a_2eservice"));
        assert_eq!(told.member, "PropertiesChanged");
    }
    bus.call(":1.7", "UnrefUnit", &["a.service"]);
    assert_eq!(bus.says(), "to :1.7: reply \"\"");
    ground.machine.start("a.service");
    bus.call(":1.7", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
}

#[test]
fn the_bus_has_services_started() {
    let (ground, mut bus) = joined("activation");
    bus.signal(DBUS, "systemd1.Activator.ActivationRequest", &["a.service"]);
    // Buses run as a user of their own.
    bus.introduce(DBUS, 101);
    bus.signal(DBUS, "systemd1.Activator.ActivationRequest", &["absent.service"]);
    let told = bus.next();
    assert_eq!(
        (told.member.as_str(), destination(&told.frame).as_deref()),
        ("ActivationFailure", Some(DBUS))
    );
    let mut body = told.body();
    assert_eq!(body.str(), Ok("absent.service"));
    assert_eq!(body.str(), Ok("org.freedesktop.systemd1.NoSuchUnit"));
    assert_eq!(body.str(), Ok("Unit absent.service not found."));
    assert!(ground.machine.is_up("a.service"));
    // Whoever else says so is not believed.
    bus.call(":1.9", "GetDefaultTarget", &[]);
    bus.introduce(":1.9", 4711);
    bus.says();
    bus.signal(":1.9", "systemd1.Activator.ActivationRequest", &["absent.service"]);
    bus.call(":1.9", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.9: reply \"s\"");
}

#[test]
fn only_the_bus_has_services_started() {
    let (ground, mut bus) = joined("activator");
    let activator = "org.freedesktop.systemd1.Activator";
    bus.call_of(":1.9", activator, "ActivationRequest", &["a.service"]);
    bus.introduce(":1.9", 4711);
    let unknown = format!("Unknown method ActivationRequest or interface {activator}.");
    let error = "org.freedesktop.DBus.Error.UnknownMethod";
    assert_eq!(bus.says(), format!("to :1.9: {error}: {unknown}"));
    bus.signal(":1.9", "systemd1.Activator.ActivationRequest", &["a.service"]);
    bus.call(":1.9", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.9: reply \"s\"");
    assert!(!ground.machine.is_up("a.service"));
}

#[test]
fn who_a_client_is_only_the_bus_says() {
    let (_ground, mut bus) = joined("forged");
    bus.call(":1.9", "StartUnit", &["a.service", "replace"]);
    let call = bus.next();
    assert_eq!(call.member, "GetConnectionCredentials");
    bus.tell_user(&call, 0, ":1.9");
    bus.tell_user(&call, 4711, DBUS);
    bus.is_without_polkit();
    assert_eq!(bus.says(), format!("to :1.9: {DENIED}"));
}

#[test]
fn no_message_of_a_client_costs_the_others_the_bus() {
    let (_ground, mut bus) = joined("hostile");
    bus.put_hostile(":1.9");
    let exceeded = "org.freedesktop.DBus.Error.LimitsExceeded: The message is too long.";
    assert_eq!(bus.says(), format!("to :1.9: {exceeded}"));
    // One that says that it has file descriptors, and has none, is a call as any other.
    bus.introduce(":1.9", 4711);
    assert_eq!(bus.says(), "to :1.9: reply \"\"");
    bus.call(":1.7", "GetDefaultTarget", &[]);
    bus.introduce(":1.7", 4711);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
}

/// A call of StartTransientUnit with a standard input.
fn run_with_input() -> Vec<u8> {
    let mut body = Writer::new();
    body.str("a.service").str("fail");
    body.array(b'(', |w| {
        w.structure().str("StandardInputFileDescriptor").variant("h").u32(0);
    });
    body.array(b'(', |_| {});
    let member = format!("{MANAGER_INTERFACE}.StartTransientUnit");
    let types = "ssa(sv)a(sa(sv))";
    let mut whole = wire::signal(To::Peer, 1, MANAGER, &member, types, body.as_bytes());
    (whole[1], whole[2]) = (1, 0);
    whole
}

/// A pipe whose one end a client sends with its call: what reads at the other, once nothing of it is left here.
fn put_pipe(bus: &mut MessageBus, sender: &str) -> std::io::PipeReader {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    bus.put_with_fds(&run_with_input(), sender, &[writer.as_fd()]);
    reader
}

fn is_closed(reader: &std::io::PipeReader) -> bool {
    warren_sys::fdpass::wait_readable(reader.as_fd(), std::time::Duration::ZERO) == Ok(true)
}

/// The manager asks over a connection of its own who the sender is.
fn introduce_apart(bus: &MessageBus, client: &str, uid: Option<u32>) {
    let mut apart = MessageBus {
        listener: bus.listener.try_clone().expect("free"),
        bus: PlayedBus::new(accept(&bus.listener)),
    };
    assert_eq!(apart.next().member, "Hello");
    let call = apart.next();
    assert_eq!(call.member, "GetConnectionCredentials");
    assert_eq!(call.body().str(), Ok(client));
    match uid {
        Some(uid) => apart.tell_user(&call, uid, DBUS),
        None => apart.end(),
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn descriptors_are_taken_of_who_may_change_things() {
    let (ground, mut bus) = joined("fds");
    let reader = put_pipe(&mut bus, ":1.9");
    introduce_apart(&bus, ":1.9", Some(own_uid()));
    assert_eq!(bus.says(), "to :1.9: reply \"o\"");
    let sent = || {
        let asked = ground.machine.asked.lock().expect("nobody panics");
        asked
            .iter()
            .any(|call| matches!(call, Call::StartTransient(made) if made.fds.get(0).is_some()))
    };
    assert!(sent(), "it came along");
    assert!(!is_closed(&reader));
    ground.machine.asked.lock().expect("nobody panics").clear();
    warren_testkit::wait_until("nothing keeps it", || is_closed(&reader));
    // Now that it is known who that is, nobody is asked.
    let again = put_pipe(&mut bus, ":1.9");
    while bus.says() != "to :1.9: reply \"o\"" {}
    assert!(sent() && !is_closed(&again));
}

#[test]
fn descriptors_of_others_are_never_received() {
    let (ground, mut bus) = joined("fds-of-others");
    let denied = format!("to :1.9: {DENIED}");
    // What is behind it waits for nothing but who sent it.
    let reader = put_pipe(&mut bus, ":1.9");
    bus.call(":1.9", "GetDefaultTarget", &[]);
    introduce_apart(&bus, ":1.9", Some(4711));
    let check = bus.next();
    assert_eq!(check.member, "CheckAuthorization");
    assert_eq!(bus.says(), "to :1.9: reply \"s\"");
    bus.has_no_polkit(&check);
    assert_eq!(bus.says(), denied);
    warren_testkit::wait_until("nothing keeps it", || is_closed(&reader));
    let again = put_pipe(&mut bus, ":1.9");
    bus.is_without_polkit();
    assert_eq!(bus.says(), denied);
    warren_testkit::wait_until("nothing keeps it", || is_closed(&again));
    // Of whom the bus does not say who it is, none are taken either.
    let nobody = put_pipe(&mut bus, ":1.10");
    introduce_apart(&bus, ":1.10", None);
    warren_testkit::wait_until("nothing keeps it", || is_closed(&nobody));
    bus.introduce(":1.10", own_uid());
    assert!(bus.says().contains("did not come along"));
    assert!(
        !ground
            .machine
            .asked
            .lock()
            .expect("nobody panics")
            .iter()
            .any(|call| matches!(call, Call::StartTransient(_)))
    );
}

#[test]
fn lists_of_strangers_have_a_bound_on_patterns_and_names() {
    let (_ground, mut bus) = joined("patterns");
    let names = |count: usize| (0..count).map(|number| format!("{number}.service"));
    let patterns = |count: usize| {
        let mut body = Writer::new();
        let all: Vec<String> = names(count).map(|name| format!("*{name}")).collect();
        body.strs(["static"]).strs(all.iter().map(String::as_str));
        ("asas", body)
    };
    bus.call_with(":1.7", MANAGER_INTERFACE, "ListUnitFilesByPatterns", patterns(65));
    bus.introduce(":1.7", 4711);
    let few = "A call may have 64 patterns with 2048 bytes altogether.";
    let exceeded = "to :1.7: org.freedesktop.DBus.Error.LimitsExceeded:";
    assert_eq!(bus.says(), format!("{exceeded} {few}"));
    for (member, reply) in
        [("ListUnitFilesByPatterns", "a(ss)"), ("ListUnitsByPatterns", "a(ssssssouso)")]
    {
        bus.call_with(":1.7", MANAGER_INTERFACE, member, patterns(64));
        assert_eq!(bus.says(), format!("to :1.7: reply {reply:?}"));
    }
    let mut body = Writer::new();
    let many: Vec<String> = names(4097).collect();
    body.strs(many.iter().map(String::as_str));
    bus.call_with(":1.7", MANAGER_INTERFACE, "ListUnitsByNames", ("as", body));
    assert_eq!(bus.says(), format!("{exceeded} A call may have 4096 names."));
    bus.call_with(":1.8", MANAGER_INTERFACE, "ListUnitsByPatterns", patterns(65));
    bus.introduce(":1.8", 0);
    assert_eq!(bus.says(), "to :1.8: reply \"a(ssssssouso)\"");
}

#[test]
fn clients_that_are_not_known_yet_have_a_bound_together() {
    let (_ground, mut bus) = joined("strangers");
    let large = || strings_of_bytes(4 << 20);
    for client in [":1.1", ":1.2", ":1.3", ":1.4"] {
        bus.call_with(client, MANAGER_INTERFACE, "GetUnit", large());
    }
    let questions: Vec<Received> = (0..4).map(|_| bus.next()).collect();
    bus.call_with(":1.5", MANAGER_INTERFACE, "GetUnit", large());
    let exceeded = "org.freedesktop.DBus.Error.LimitsExceeded: Too many calls at once.";
    assert_eq!(bus.says(), format!("to :1.5: {exceeded}"));
    bus.tell_user(&questions[0], 4711, DBUS);
    let invalid = bus.says();
    assert!(invalid.starts_with("to :1.1: org.freedesktop."), "{invalid}");
    bus.call_with(":1.5", MANAGER_INTERFACE, "GetUnit", large());
    bus.introduce(":1.5", 4711);
}

/// A text that makes a call of almost so many bytes.
fn strings_of_bytes(bytes: usize) -> (&'static str, Writer) {
    let mut body = Writer::new();
    body.str(&"x".repeat(bytes - 1024));
    ("s", body)
}

#[test]
fn a_bus_that_was_lost_is_found_again() {
    let (_ground, mut bus) = joined("lost");
    bus.end();
    bus.bus = PlayedBus::new(accept(&bus.listener));
    // Somebody else has the name: the connection is given up, and made again.
    bus.name_it(3);
    assert!(bus.peer.is_dropped());
    bus.bus = PlayedBus::new(accept(&bus.listener));
    bus.name_it(4);
    bus.call(":1.7", "GetDefaultTarget", &[]);
    bus.introduce(":1.7", 4711);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
}

#[test]
fn who_subscribed_with_an_earlier_manager_is_told_on() {
    let (ground, mut bus) = joined("heirs");
    bus.call(":1.7", "Subscribe", &[]);
    bus.introduce(":1.7", 4711);
    assert_eq!(bus.says(), "to :1.7: reply \"\"");
    let path = ground.dir.0.join("bus");
    ground.machine.inherit(&ground.dir.path("private"), Some(path));
    ground.machine.announce(warren_bus::Announcement::UnitFilesChanged);
    bus.bus = PlayedBus::new(accept(&bus.listener));
    bus.name_it(1);
    assert_eq!(bus.says(), "to all: UnitFilesChanged");
    bus.call(":1.7", "Unsubscribe", &[]);
    bus.introduce(":1.7", 4711);
    assert_eq!(bus.says(), "to :1.7: reply \"\"");
}

#[test]
fn who_asks_for_a_job_is_told_of_it_without_a_subscription() {
    let (ground, mut bus) = joined("askers");
    ground.machine.announce(warren_bus::Announcement::UnitFilesChanged);
    bus.call(":1.7", "StartUnit", &["a.service", "replace"]);
    bus.introduce(":1.7", 0);
    let mut said = Vec::new();
    while said.last().is_none_or(|last: &String| !last.contains("JobRemoved")) {
        said.push(bus.says());
    }
    assert_eq!(said[0], "to :1.7: reply \"o\"");
    assert!(said.iter().any(|said| said == "to all: JobNew"), "{said:?}");
    // It has ended: nobody hears what else happens.
    ground.machine.announce(warren_bus::Announcement::UnitFilesChanged);
    bus.call(":1.7", "GetDefaultTarget", &[]);
    assert_eq!(bus.says(), "to :1.7: reply \"s\"");
}
