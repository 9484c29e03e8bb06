//! What a method is, what it is given and what it says: the words of all tables of methods.
//!
//! Must not: know a method. The tables are in the files beside it.

use crate::authority::{Action, Question};
use crate::backend::{Backend, Call};
use crate::descriptors::Descriptors;
use crate::error::BusError;
use crate::transient;
use crate::wire::{Reader, WireError, Writer};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::view::View;
use warren_unit::UnitName;

/// Who may call a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everyone who can connect.
    Read,
    /// Root and the manager's own user.
    Write,
    /// The same, and whom polkit lets change what runs.
    Units,
    /// The same, and whom polkit lets change what is installed.
    Files,
    /// The same, and whom polkit lets change the environment block.
    Environment,
    /// The same, and whom polkit lets load the configuration again.
    Reload,
}

impl Access {
    /// What polkit is asked about, if it is.
    pub fn action(self) -> Option<Action> {
        match self {
            Access::Read | Access::Write => None,
            Access::Units => Some(Action::ManageUnits),
            Access::Files => Some(Action::ManageUnitFiles),
            Access::Environment => Some(Action::SetEnvironment),
            Access::Reload => Some(Action::ReloadDaemon),
        }
    }
}

/// One method.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Arguments: `type:name`, separated by spaces.
    pub input: &'static str,
    /// Results, in the same notation.
    pub output: &'static str,
    /// Who may call it.
    pub access: Access,
    /// What it does.
    pub handler: Handler,
}

/// Decides what a call comes to.
pub type Handler = fn(&mut Invocation<'_>) -> Result<Step, Refusal>;

/// Some methods, in the order in which clients see them.
pub type Methods = &'static [Method];

/// `NAME: Method "input" -> "output" Access = handler; ...`
macro_rules! methods {
    ($(#[$doc:meta])* $table:ident:
        $($name:ident $input:literal -> $output:literal $access:ident = $handler:expr;)*) => {
        $(#[$doc])*
        pub static $table: $crate::methods::method::Methods = &[$($crate::methods::method::Method {
            name: stringify!($name),
            input: $input,
            output: $output,
            access: $crate::methods::method::Access::$access,
            handler: $handler,
        },)*];
    };
}
pub(crate) use methods;

impl Method {
    /// Types of the arguments.
    pub fn input_signature(&self) -> String {
        signature(self.input)
    }

    /// Types of the results.
    pub fn output_signature(&self) -> String {
        signature(self.output)
    }
}

/// Name and type of each argument in the notation of the tables.
pub fn arguments(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.split_ascii_whitespace().filter_map(|argument| argument.split_once(':'))
}

fn signature(list: &'static str) -> String {
    arguments(list).map(|(signature, _)| signature).collect()
}

/// What was done for a call before it is looked at again.
#[derive(Debug, Default)]
pub struct Progress {
    /// Units that were loaded, found or not.
    pub tried: BTreeSet<UnitName>,
    /// The unit files that it is about were looked at.
    pub has_looked: bool,
    /// What polkit has allowed.
    pub allowed: Option<Question>,
}

/// A call that is being looked at.
pub struct Invocation<'a> {
    /// The newest view.
    pub view: &'a View,
    /// The manager.
    pub backend: &'a dyn Backend,
    /// The unit whose object was called, if it was one's.
    pub unit: Option<UnitId>,
    /// The job whose object was called, if it was one's.
    pub job: Option<JobId>,
    /// The arguments; their types were checked.
    pub body: Reader<'a>,
    /// The caller's process.
    pub peer_pid: u32,
    /// Whether the caller may change nothing.
    pub is_stranger: bool,
    /// The file descriptors that came with the call.
    pub fds: &'a Descriptors,
    /// What was done for this call already.
    pub done: &'a Progress,
}

/// Why a method gives no reply.
#[derive(Debug)]
pub enum Refusal {
    /// The caller gets this error.
    Error(BusError),
    /// The message is not sound: the connection is dropped.
    Garbage(WireError),
}

impl From<BusError> for Refusal {
    fn from(error: BusError) -> Refusal {
        Refusal::Error(error)
    }
}

impl From<transient::Fault> for Refusal {
    fn from(fault: transient::Fault) -> Refusal {
        match fault {
            transient::Fault::Error(error) => Refusal::Error(error),
            transient::Fault::Garbage(error) => Refusal::Garbage(error),
        }
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Refusal {
        Refusal::Garbage(error)
    }
}

/// What a call comes to.
#[derive(Debug)]
pub enum Step {
    /// This is the reply's body; its types are those of the table.
    Reply(Writer),
    /// The same; what the value of type `h` in it names goes along.
    ReplyWithFd(Writer, OwnedFd),
    /// Ask the manager, then make the reply of its answer.
    Ask(Call, Then),
    /// Load these units, then look at the call again.
    Load(Vec<UnitName>),
    /// Look at this unit's file, or at all, then at the call again.
    LookAtFiles(Option<UnitName>),
    /// Ask polkit, then look at the call again.
    Authorize(Question),
    /// Begin or end the caller's subscription; the reply is empty.
    Subscribe(bool),
    /// The caller refers to the unit, or no longer does; the reply is empty.
    Refer(UnitId, bool),
}

/// How the manager's answer becomes a reply.
#[derive(Clone, Debug)]
pub enum Then {
    /// An empty reply.
    Nothing,
    /// None at all: the connection ends when it is done.
    HangUp,
    /// The job's path; the verb and the unit are named in errors.
    Job(&'static str, UnitName),
    /// The job's path; the client refers to its unit from then on.
    JobAndReference(&'static str, UnitName),
    /// The job in full with all others of its transaction.
    JobDetails(&'static str, UnitName),
    /// The paths of several jobs.
    Jobs,
    /// Several jobs in full.
    JobsOf,
    /// What is known of stored file descriptors.
    StoredFds,
    /// The unit's path.
    Unit,
    /// What was changed, with or without saying whether there was install information.
    Changes {
        /// Say it.
        with_install_info: bool,
    },
    /// Texts.
    Texts,
}

impl Invocation<'_> {
    /// The unit whose object was called.
    pub fn own_unit(&self) -> UnitId {
        self.unit.expect("methods of units are called on units")
    }

    /// The name of that unit.
    pub fn own_name(&self) -> UnitName {
        self.view.definition(self.own_unit()).name.clone()
    }
}
