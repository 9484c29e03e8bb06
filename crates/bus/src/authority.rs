//! What polkit is asked about calls of those who may change nothing themselves, and how long its answers are waited
//! for.
//!
//! A call waits here while somebody else is asked, perhaps a person; nothing else waits for it. Nothing here sends or
//! receives. What is asked of which method is in the tables of methods; names of actions and details are systemd 252's,
//! taken from what it asks.

use crate::error::BusError;
use crate::wire::{Kind, Message, WireError, Writer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The name of polkit on a bus.
pub const POLKIT: &str = "org.freedesktop.PolicyKit1";
/// Its object.
pub const AUTHORITY_PATH: &str = "/org/freedesktop/PolicyKit1/Authority";
/// What it is asked with.
pub const CHECK: &str = "org.freedesktop.PolicyKit1.Authority.CheckAuthorization";
/// Types of what is asked.
pub const CHECK_TYPES: &str = "(sa{sv})sa{ss}us";
/// Types of the answer.
const ANSWER_TYPES: &str = "(bba{ss})";

/// CheckAuthorization's flag: a person may be asked.
const ALLOW_INTERACTION: u32 = 1;

/// Most questions that wait for an answer, of one user and of all.
const QUESTIONS_OF_USER_MAX: usize = 16;
const QUESTIONS_MAX: usize = 128;

/// A person may take this long.
const ANSWER_TIME: Duration = Duration::from_secs(120);

/// What somebody wants to do (polkit(8), actions of org.freedesktop.systemd1.policy).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Change what runs.
    ManageUnits,
    /// Change what is installed.
    ManageUnitFiles,
    /// Change the environment block.
    SetEnvironment,
    /// Load the configuration again.
    ReloadDaemon,
}

impl Action {
    fn id(self) -> &'static str {
        match self {
            Action::ManageUnits => "org.freedesktop.systemd1.manage-units",
            Action::ManageUnitFiles => "org.freedesktop.systemd1.manage-unit-files",
            Action::SetEnvironment => "org.freedesktop.systemd1.set-environment",
            Action::ReloadDaemon => "org.freedesktop.systemd1.reload-daemon",
        }
    }
}

/// What is done to a unit, as rules look at it, and how a person is asked about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verb {
    /// `verb`
    pub word: &'static str,
    /// `polkit.message`; nothing where polkit's own text does.
    pub message: Option<&'static str>,
}

/// One question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// What somebody wants to do.
    pub action: Action,
    /// The unit's name, and what is to be done to it.
    pub unit: Option<(String, Verb)>,
}

/// What the verbs of jobs, EnqueueUnitJob among them, are asked about with.
pub fn job_verb(word: &str) -> Option<Verb> {
    const RESTART: &str = "Authentication is required to restart '$(unit)'.";
    let (word, message) = match word {
        "start" => ("start", "Authentication is required to start '$(unit)'."),
        "stop" => ("stop", "Authentication is required to stop '$(unit)'."),
        "reload" => ("reload", "Authentication is required to reload '$(unit)'."),
        "restart" => ("restart", RESTART),
        "try-restart" => ("try-restart", RESTART),
        "reload-or-restart" => ("reload-or-restart", RESTART),
        "reload-or-try-restart" => ("reload-or-try-restart", RESTART),
        _ => return None,
    };
    Some(Verb { word, message: Some(message) })
}

/// What other methods that are about a unit are asked about with; `member` is the unit's method, or the manager's
/// with the same use.
pub fn unit_verb(member: &str) -> Option<Verb> {
    const FREEZE: &str =
        "Authentication is required to freeze or thaw the processes of '$(unit)' unit.";
    const MOUNT: &str = "Authentication is required to mount on '$(unit)'.";
    let (word, message) = match member {
        "Start" | "StartUnit" | "StartUnitWithFlags" | "StartUnitReplace" => {
            return job_verb("start");
        }
        "Stop" | "StopUnit" => return job_verb("stop"),
        "Reload" | "ReloadUnit" => return job_verb("reload"),
        "Restart" | "RestartUnit" => return job_verb("restart"),
        "TryRestart" | "TryRestartUnit" => return job_verb("try-restart"),
        "ReloadOrRestart" | "ReloadOrRestartUnit" => return job_verb("reload-or-restart"),
        "ReloadOrTryRestart" | "ReloadOrTryRestartUnit" => {
            return job_verb("reload-or-try-restart");
        }
        "Kill" | "KillUnit" => (
            "kill",
            "Authentication is required to send a UNIX signal to the processes of '$(unit)'.",
        ),
        "Clean" | "CleanUnit" => (
            "clean",
            "Authentication is required to delete files and directories associated with '$(unit)'.",
        ),
        // Rules that know the verbs of jobs know these.
        "Freeze" | "FreezeUnit" => ("stop", FREEZE),
        "Thaw" | "ThawUnit" => ("start", FREEZE),
        "ResetFailed" | "ResetFailedUnit" => (
            "reset-failed",
            "Authentication is required to reset the \"failed\" state of '$(unit)'.",
        ),
        "SetProperties" | "SetUnitProperties" => {
            ("set-property", "Authentication is required to set properties on '$(unit)'.")
        }
        "BindMount" | "BindMountUnit" => ("bind-mount", MOUNT),
        "MountImage" | "MountImageUnit" => ("mount-image", MOUNT),
        "Ref" | "RefUnit" => return Some(Verb { word: "ref", message: None }),
        _ => return None,
    };
    Some(Verb { word, message: Some(message) })
}

/// Who wants it, as polkit knows them: `Subject` of its D-Bus interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// A client of the message bus, by its unique name.
    Client(String),
    /// A process, by what cannot be another's: its number, its start in ticks since the boot (proc_pid_stat(5),
    /// `starttime`), and the user that it had when it connected.
    Process {
        /// Its number.
        pid: u32,
        /// Its start.
        start_time: u64,
        /// Its user then.
        uid: u32,
    },
}

impl Who {
    fn write(&self, body: &mut Writer) {
        match self {
            Who::Client(name) => {
                body.structure().str("system-bus-name").array(b'{', |w| {
                    w.structure().str("name").variant("s").str(name);
                });
            }
            Who::Process { pid, start_time, uid } => {
                body.structure().str("unix-process").array(b'{', |w| {
                    w.structure().str("pid").variant("u").u32(*pid);
                    w.structure().str("start-time").variant("t").u64(*start_time);
                    // A number of 32 bits with a sign, as polkit has it.
                    w.structure().str("uid").variant("i").i32(uid.cast_signed());
                });
            }
        }
    }
}

impl Question {
    /// The body of CheckAuthorization about this client of the bus. A person may be asked if the client allows that,
    /// and, as with systemd, always where there is a text for it.
    pub fn body(&self, client: &str, is_interactive: bool) -> Writer {
        let has_text = self.unit.as_ref().is_some_and(|(_, verb)| verb.message.is_some());
        self.body_about(&Who::Client(client.to_owned()), is_interactive || has_text)
    }

    /// The body of CheckAuthorization. Whether a person may be asked is for the caller to say.
    pub fn body_about(&self, who: &Who, may_interact: bool) -> Writer {
        let message = self.unit.as_ref().and_then(|(_, verb)| verb.message);
        let mut body = Writer::new();
        who.write(&mut body);
        body.str(self.action.id()).array(b'{', |w| {
            let mut detail = |name: &str, value: &str| _ = w.structure().str(name).str(value);
            if let Some((unit, verb)) = &self.unit {
                detail("unit", unit);
                detail("verb", verb.word);
            }
            if let Some(message) = message {
                detail("polkit.message", message);
                detail("polkit.gettext_domain", "systemd");
            }
        });
        body.u32(if may_interact { ALLOW_INTERACTION } else { 0 }).str("");
        body
    }
}

/// Takes the answer: nothing if it is allowed, else what is said of it. Dropped where there is none.
pub type Verdict = Box<dyn FnOnce(Result<(), BusError>) + Send>;

/// What polkit is to be asked for a client of another socket; no person is asked for a password.
pub struct Authorize {
    pub(crate) who: Who,
    pub(crate) question: Question,
    pub(crate) verdict: Verdict,
}

/// What a reply to CheckAuthorization says: nothing if the client may do it, else what it is answered.
pub fn refusal(reply: &Message<'_>) -> Option<BusError> {
    let denied = || BusError::access_denied("Permission denied");
    match reply.header.kind {
        Kind::MethodReturn if reply.header.signature == ANSWER_TYPES => match answer(reply) {
            Ok((true, _)) => None,
            Ok((false, true)) => {
                Some(BusError::needs_interaction("Interactive authentication required."))
            }
            Ok((false, false)) | Err(_) => Some(denied()),
        },
        // Without polkit nobody else may do anything. What polkit itself has to say the client is told.
        Kind::Error if reply.header.error_name.starts_with(POLKIT) => Some(BusError {
            name: reply.header.error_name.to_owned(),
            text: reply.body().str().unwrap_or_default().to_owned(),
        }),
        _ => Some(denied()),
    }
}

fn answer(reply: &Message<'_>) -> Result<(bool, bool), WireError> {
    let mut body = reply.body();
    body.align(8)?;
    Ok((body.bool()?, body.bool()?))
}

/// What waits for answers, by the number of the message that asks.
pub struct Pending<T> {
    by_serial: BTreeMap<u32, Asked<T>>,
}

struct Asked<T> {
    uid: u32,
    until: Instant,
    what: T,
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending { by_serial: BTreeMap::new() }
    }
}

impl<T> Pending<T> {
    /// Whether one more of this user may wait.
    pub fn has_room(&self, uid: u32) -> bool {
        let own = self.by_serial.values().filter(|asked| asked.uid == uid).count();
        own < QUESTIONS_OF_USER_MAX && self.by_serial.len() < QUESTIONS_MAX
    }

    /// What waits for the answer to this message, which a call of this user led to.
    pub fn add(&mut self, serial: u32, uid: u32, now: Instant, what: T) {
        debug_assert!(self.has_room(uid), "who adds asks first");
        self.by_serial.insert(serial, Asked { uid, until: now + ANSWER_TIME, what });
    }

    /// What waited for the answer to this message.
    pub fn take(&mut self, serial: u32) -> Option<T> {
        self.by_serial.remove(&serial).map(|asked| asked.what)
    }

    /// What has waited in vain.
    pub fn take_overdue(&mut self, now: Instant) -> Vec<T> {
        let overdue = self.by_serial.extract_if(.., |_, asked| asked.until <= now);
        overdue.map(|(_, asked)| asked.what).collect()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.by_serial.is_empty()
    }

    /// How long the first of all has yet.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let until = self.by_serial.values().map(|asked| asked.until).min()?;
        Some(until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{self, To};

    #[test]
    fn no_user_has_all_places_and_nobody_waits_for_ever() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let mut serial = 0;
        for uid in 0..100 {
            while pending.has_room(uid) {
                serial += 1;
                pending.add(serial, uid, now, serial);
            }
        }
        assert_eq!(serial as usize, QUESTIONS_MAX);
        assert!(!pending.has_room(7) && !pending.has_room(100));
        // Of the first user all have an answer: another one may ask as often.
        for answered in 1..=QUESTIONS_OF_USER_MAX as u32 {
            assert_eq!(pending.take(answered), Some(answered));
            assert_eq!(pending.take(answered), None);
        }
        assert!(pending.has_room(100) && !pending.has_room(7));
        assert_eq!(pending.left(now), Some(ANSWER_TIME));
        assert_eq!(pending.take_overdue(now), Vec::<u32>::new());
        let left = pending.take_overdue(now + ANSWER_TIME);
        assert_eq!(left.len(), QUESTIONS_MAX - QUESTIONS_OF_USER_MAX);
        assert_eq!(pending.left(now), None);
    }

    /// As `busctl call` would have it; the first number is that of the process.
    #[test]
    fn a_process_is_named_by_what_no_other_one_has() {
        let question = Question {
            action: Action::ManageUnits,
            unit: Some(("a.service".to_owned(), job_verb("start").expect("a verb"))),
        };
        let who = Who::Process { pid: 77, start_time: 1 << 40, uid: u32::MAX };
        let body = question.body_about(&who, false);
        let bytes =
            [wire::method_return(To::Peer, 9, 8, CHECK_TYPES, body.len()), body.finish()].concat();
        let message = wire::parse(&bytes).expect("a sound message");
        let mut body = message.body();
        body.align(8).expect("a structure");
        assert_eq!(body.str(), Ok("unix-process"));
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(has(b"start-time\0") && has(&(1_u64 << 40).to_le_bytes()) && has(&[0xff; 4]));
        assert!(has(b"org.freedesktop.systemd1.manage-units\0") && has(b"a.service\0"));
    }

    fn check(reply: &[u8], want: Option<&str>) {
        let reply = wire::parse(reply).expect("a sound message");
        assert_eq!(refusal(&reply).map(|error| error.to_string()).as_deref(), want);
    }

    fn said(signature: &str, authorized: bool, challenge: bool) -> Vec<u8> {
        let mut body = Writer::new();
        body.structure().bool(authorized).bool(challenge).array(b'{', |_| {});
        let head = wire::method_return(To::Peer, 9, 8, signature, body.len());
        [head, body.finish()].concat()
    }

    #[test]
    fn only_a_plain_yes_is_one() {
        let denied = "org.freedesktop.DBus.Error.AccessDenied: Permission denied";
        let challenge = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired: Interactive \
                         authentication required.";
        check(&said(ANSWER_TYPES, true, false), None);
        check(&said(ANSWER_TYPES, true, true), None);
        check(&said(ANSWER_TYPES, false, true), Some(challenge));
        check(&said(ANSWER_TYPES, false, false), Some(denied));
        check(&said("(bb)", true, false), Some(denied));
        let error = |name: &str| wire::error_reply(To::Peer, 9, 8, name, "no such action");
        check(&error("org.freedesktop.DBus.Error.ServiceUnknown"), Some(denied));
        let failed = "org.freedesktop.PolicyKit1.Error.Failed";
        check(&error(failed), Some(&format!("{failed}: no such action")));
    }
}
