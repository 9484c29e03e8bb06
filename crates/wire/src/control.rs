//! What `warren` and the manager say over the control socket.
//!
//! - Owns: the methods, the parameters and the answer of each, and the names of errors. Start reading at [`Method`].
//! - Must not: decide who may call what.
//! - Runs on the thread of its caller.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::call::{self, Envelope};

mod devices;
mod metrics;
mod overview;
mod parameters;
mod parts;
mod requests;
mod shutdown;
mod timers;
mod top;
mod totals;
mod unit_files;
mod units;
mod why;
mod words;

pub use devices::{DeviceGroup, DeviceRow, DeviceUser, DeviceWait, DevicesAnswer};
pub use metrics::{
    BootMetrics, Histogram, JobMetrics, LogCounts, ManagerMetrics, MetricsAnswer, ReloadMetrics,
    UnitCount, UnitMetrics,
};
pub use overview::{OverviewAnswer, OverviewRow};
pub use parts::{
    Cause, Diagnostic, Done, JobRow, LostJob, ReasonAnswer, ReasonCode, Remark, RestartAnswer,
    RestartBefore, RuleOrigin, RuleTarget, StartLimit, Through, UnitRow,
};
pub use requests::{
    CancelLeave, Cat, Clear, Devices, FileState, Hurry, Inhibit, Job, Jobs, Kill, Leave, List,
    Mark, Metrics, Overview, Record, Records, Reexecute, ReloadConfiguration, Reloads, ResetFailed,
    Shutdown, Status, StopPlan, Texts, Timers, Top, Totals, UnitFiles, Unprotected, Verify, Why,
};
pub use shutdown::{InhibitorLock, LogindPlan, PlannedShutdown, ShutdownAnswer, ShutdownWait};
pub use timers::{TimerRow, TimersAnswer};
pub use top::{TopAnswer, TopFailed, TopJob, TopRestarting, TopSlice};
pub use totals::TotalsAnswer;
pub use unit_files::{
    CatAnswer, CatFile, ChangedUnits, FileChange, FileStateAnswer, FileText, PastReload,
    RecordAnswer, RecordRow, RecordUnderWay, RecordsAnswer, ReloadAnswer, ReloadsAnswer,
    UnitFilesAnswer, VerifyAnswer,
};
pub use units::{
    JobEnd, JobsRow, ListAnswer, Listening, PlannedStop, ProcessRow, RelatedUnit,
    SocketConnections, StatusAnswer, StopPlanAnswer, UnprotectedAnswer, UnprotectedService,
};
pub use why::{Refusal, Removal, UnderWay, WhyAnswer, WhyStep, WhyUnit};
pub use words::{
    ActiveState, CauseKind, ErrorName, JobKind, JobResult, JobType, KillWhom, LeaveHow, LoadState,
    MarkAs, Severity, UnitFileVerb,
};

/// Version of this language. It is also the `format` in what `warren --json` prints.
pub const VERSION: u64 = 1;

/// Begins the full name of a method.
const INTERFACE: &str = "io.warrener.Manager.";

/// Largest request that the manager reads of root and its own user, in bytes: the names of 100,000 units are about
/// 4 MB.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The same for others, who name one unit or a few patterns.
pub const UNPRIVILEGED_REQUEST_BYTES_MAX: usize = 64 << 10;

/// Largest answer that is read, in bytes: 40,000 units listed are about 8 MB.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A request that the manager knows the answer's type of.
pub trait Call: Serialize + DeserializeOwned {
    /// Which method.
    const METHOD: Method;
    /// What the manager answers; of a method with several answers, each but the last.
    type Answer: Serialize + DeserializeOwned + Default;
}

/// Makes the table of methods.
macro_rules! methods {
    ($($name:ident $changes:literal $answer:ty,)*) => {
        /// A method of `io.warrener.Manager`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Method {
            $(#[doc = concat!("See [`requests::", stringify!($name), "`].")] $name,)*
        }

        impl Method {
            /// All of them.
            pub const ALL: &'static [Method] = &[$(Method::$name),*];

            /// Its name, without the interface's.
            pub const fn name(self) -> &'static str {
                match self { $(Method::$name => stringify!($name),)* }
            }

            /// Whether it changes something, so that not everybody may call it.
            pub const fn changes(self) -> bool {
                match self { $(Method::$name => $changes,)* }
            }
        }

        /// A request with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request {
            $(#[doc = concat!("Calls [`Method::", stringify!($name), "`].")] $name($name),)*
        }

        impl Request {
            /// Reads the parameters of a method.
            ///
            /// # Errors
            /// In words, where a parameter has another type than is meant, or is one that a method
            /// which changes something does not know.
            pub fn read(method: Method, parameters: Value) -> Result<Request, String> {
                match method {
                    $(Method::$name => {
                        parameters::read(method.name(), parameters).map(Request::$name)
                    })*
                }
            }
        }

        $(impl Call for $name {
            const METHOD: Method = Method::$name;
            type Answer = $answer;
        })*

        /// The schema of each method.
        #[cfg(feature = "schema")]
        pub fn schemas() -> Vec<MethodSchema> {
            vec![$(MethodSchema {
                method: Method::$name,
                parameters: schema_of::<$name>(),
                answer: schema_of::<$answer>(),
            }),*]
        }
    };
}

methods! {
    List false ListAnswer,
    Status false StatusAnswer,
    FileState false FileStateAnswer,
    Why false WhyAnswer,
    Devices false DevicesAnswer,
    Timers false TimersAnswer,
    Cat false CatAnswer,
    Records false RecordsAnswer,
    Record false RecordAnswer,
    Top false TopAnswer,
    Totals false TotalsAnswer,
    Metrics false MetricsAnswer,
    Overview false OverviewAnswer,
    Verify false VerifyAnswer,
    Shutdown false ShutdownAnswer,
    StopPlan false StopPlanAnswer,
    Reloads false ReloadsAnswer,
    Unprotected false UnprotectedAnswer,
    Job true JobEnd,
    Jobs true JobsRow,
    ReloadConfiguration true ReloadAnswer,
    UnitFiles true UnitFilesAnswer,
    Kill true Done,
    ResetFailed true Done,
    Reexecute true Done,
    Leave true Done,
    CancelLeave true Done,
    Hurry true Done,
    Mark true Done,
    Clear true Done,
    Inhibit true Done,
}

impl Method {
    /// The method of this full name.
    pub fn from_full_name(name: &str) -> Option<Method> {
        let name = name.strip_prefix(INTERFACE)?;
        Method::ALL.iter().copied().find(|method| method.name() == name)
    }

    /// Its name with the interface's.
    pub fn full_name(self) -> String {
        format!("{INTERFACE}{}", self.name())
    }
}

/// What the reference page has of one method.
#[cfg(feature = "schema")]
#[derive(Debug)]
pub struct MethodSchema {
    /// Which.
    pub method: Method,
    /// JSON Schema of its parameters.
    pub parameters: Value,
    /// JSON Schema of its answer.
    pub answer: Value,
}

#[cfg(feature = "schema")]
fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// A request as a message; with `more` several answers may come.
pub fn write_request<C: Call>(call: &C, more: bool) -> Vec<u8> {
    call::write_request(&C::METHOD.full_name(), call, more)
}

/// An answer as a message; where it `continues` another one follows.
pub fn write_answer(answer: &impl Serialize, continues: bool) -> Vec<u8> {
    call::write_answer(answer, continues)
}

/// A refusal as a message, with words for people.
pub fn write_error(error: &ErrorName, message: &str) -> Vec<u8> {
    call::write_error(error.as_str(), &call::Words::message(message))
}

/// An answer, or a refusal.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<A> {
    /// The answer; where it `continues` another one follows.
    Answer {
        /// It.
        answer: A,
        /// Another one follows.
        continues: bool,
    },
    /// The manager refuses.
    Refused {
        /// Why, for programs.
        error: ErrorName,
        /// Why, for people.
        message: String,
    },
}

/// Why a message is no answer.
#[derive(Debug)]
pub enum ReplyError {
    /// It is no JSON, or something in it has another type than is meant.
    Malformed(serde_json::Error),
    /// It has neither an error nor parameters.
    NoParameters,
}

impl<A: DeserializeOwned> Reply<A> {
    /// Reads a message.
    ///
    /// # Errors
    /// Where it is no answer of this type.
    pub fn read(message: &[u8]) -> Result<Reply<A>, ReplyError> {
        let envelope = Envelope::read(message).map_err(ReplyError::Malformed)?;
        if let Some(error) = &envelope.error {
            let message = envelope.words().message.unwrap_or_else(|| error.clone());
            return Ok(Reply::Refused { error: error.as_str().into(), message });
        }
        let text = envelope.parameters.map(RawValue::get);
        let text = text.filter(|text| text.starts_with('{')).ok_or(ReplyError::NoParameters)?;
        let answer = serde_json::from_str(text).map_err(ReplyError::Malformed)?;
        Ok(Reply::Answer { answer, continues: envelope.continues })
    }
}

#[cfg(test)]
mod tests;
