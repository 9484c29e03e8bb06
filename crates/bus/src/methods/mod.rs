//! The one table of methods: names, arguments, who may call, and what does it.
//!
//! A method looks at the view and at its arguments and says what follows: a reply, a question to
//! the manager, a unit to be loaded first. It does nothing itself. The introspection text comes
//! from the same tables.

mod files;
mod filter;
mod listing;
mod manager;
mod unit;

pub use listing::{has_got_file, is_listed, is_only_named, may_have_got_file};
pub use manager::{MANAGER_METHODS, unit_of_invocation};
pub use unit::{JOB_METHODS, PROCESS_METHODS, SCOPE_METHODS, SERVICE_METHODS, UNIT_METHODS};

use crate::backend::{Answer, Backend, Call, FileChange};
use crate::error::BusError;
use crate::path;
use crate::transient;
use crate::wire::{Reader, WireError, Writer};
use std::collections::BTreeSet;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::JobKind;
use warren_core::view::View;
use warren_unit::UnitName;
use warren_unit::install::Remark;

/// Who may call a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everyone who can connect.
    Read,
    /// Root and the manager's own user.
    Write,
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
pub type Handler = fn(&mut Invocation<'_>) -> Result<Step, Refused>;

/// Some methods, in the order in which clients see them.
pub type Methods = &'static [Method];

/// `NAME: Method "input" -> "output" Access = handler; ...`
macro_rules! methods {
    ($(#[$doc:meta])* $table:ident:
        $($name:ident $input:literal -> $output:literal $access:ident = $handler:expr;)*) => {
        $(#[$doc])*
        pub static $table: $crate::methods::Methods = &[$($crate::methods::Method {
            name: stringify!($name),
            input: $input,
            output: $output,
            access: $crate::methods::Access::$access,
            handler: $handler,
        },)*];
    };
}
use methods;

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
pub struct Done {
    /// Units that were loaded, found or not.
    pub tried: BTreeSet<UnitName>,
    /// The unit files that it is about were looked at.
    pub has_looked: bool,
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
    /// What was done for this call already.
    pub done: &'a Done,
}

/// Why a method gives no reply.
#[derive(Debug)]
pub enum Refused {
    /// The caller is told.
    Told(BusError),
    /// The message is not sound: the connection is dropped.
    Garbage(WireError),
}

impl From<BusError> for Refused {
    fn from(error: BusError) -> Refused {
        Refused::Told(error)
    }
}

impl From<transient::Fault> for Refused {
    fn from(fault: transient::Fault) -> Refused {
        match fault {
            transient::Fault::Told(error) => Refused::Told(error),
            transient::Fault::Garbage(error) => Refused::Garbage(error),
        }
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Refused {
        Refused::Garbage(error)
    }
}

/// What a call comes to.
#[derive(Debug)]
pub enum Step {
    /// This is the reply's body; its types are those of the table.
    Reply(Writer),
    /// Ask the manager, then make the reply of its answer.
    Ask(Call, Then),
    /// Load these units, then look at the call again.
    Load(Vec<UnitName>),
    /// Look at this unit's file, or at all, then at the call again.
    LookAtFiles(Option<UnitName>),
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

/// Makes the reply of an answer.
pub fn render(then: &Then, answer: Answer, view: &View) -> Result<Writer, BusError> {
    let mut w = Writer::new();
    match (then, answer) {
        (Then::Nothing | Then::HangUp, _) => {}
        (Then::Job(..) | Then::JobAndReference(..), Answer::Job { job, .. }) => {
            w.str(&path::job(job.0));
        }
        (Then::JobDetails(..), Answer::Job { job, unit, kind, affected }) => {
            job_fields(&mut w, view, (job, unit, kind));
            w.array(b'(', |w| {
                for made in affected {
                    w.structure();
                    job_fields(w, view, made);
                }
            });
        }
        (Then::Unit, Answer::Unit(unit)) => {
            w.str(&path::unit(view.definition(unit).name.as_str()));
        }
        (
            Then::Changes { with_install_info },
            Answer::Changes { carries_install_info, changes, remarks },
        ) => {
            if *with_install_info {
                w.bool(carries_install_info);
            }
            write_changes(&mut w, &changes, &remarks);
        }
        (Then::Texts, Answer::Texts(texts)) => {
            w.strs(texts.iter().map(|text| &**text));
        }
        (then, answer) => {
            return Err(BusError::failed(format!("The manager answered {answer:?} to {then:?}.")));
        }
    }
    Ok(w)
}

/// Names the request in errors where the manager's refusal does not.
pub fn explain(then: &Then, error: BusError) -> BusError {
    let (Then::Job(verb, unit) | Then::JobAndReference(verb, unit) | Then::JobDetails(verb, unit)) =
        then
    else {
        return error;
    };
    match error.name.rsplit('.').next() {
        Some("JobTypeNotApplicable") => {
            BusError::not_applicable(format!("Job type {verb} is not applicable for unit {unit}."))
        }
        _ => error,
    }
}

/// `uosos`.
fn job_fields(w: &mut Writer, view: &View, (job, unit, kind): (JobId, UnitId, JobKind)) {
    let name = view.definition(unit).name.as_str();
    w.u32(job.0).str(&path::job(job.0)).str(name).str(&path::unit(name)).str(kind.as_str());
}

/// What was passed over is told as changes of kinds that systemctl 252 has words for.
fn write_changes(w: &mut Writer, changes: &[FileChange], remarks: &[Remark]) {
    w.array(b'(', |w| {
        for change in changes {
            w.structure().str(change.kind).str(&change.path).str(&change.source);
        }
        for remark in remarks {
            let (kind, path, source) = match remark {
                Remark::DestinationNotPresent { path, target } => {
                    ("destination not present", target.as_str(), &**path)
                }
                Remark::AuxiliaryFailed { name } => ("auxiliary unit failed", name.as_str(), ""),
                Remark::Masked { path } => ("masked", &**path, ""),
            };
            w.structure().str(kind).str(path).str(source);
        }
    });
}
