//! The seam to the manager: what the console asks for, whoever carries it.

use std::process::Command;

use warren_wire::control::{JobType, OverviewAnswer, ProcessRow, TopAnswer};

use crate::questions::{Ask, Subject};

/// What a unit's page shows, texts as `warren status` and `warren why` print them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnitPage {
    /// Its state, and what there is to say of it.
    pub status: String,
    /// Why it is as it is, the root cause first; empty where there is nothing to explain.
    pub why: String,
    /// Its processes.
    pub processes: Vec<ProcessRow>,
}

/// A start or a stop that the log tells of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// When it was over, for people.
    pub when: String,
    /// How long a start took, in µs; none of a stop, and of managers that do not tell.
    pub took_us: Option<u64>,
    /// It was a stop.
    pub is_stop: bool,
    /// How its job ended, as `JOB_RESULT` has it.
    pub result: String,
}

/// Why there is no answer, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Why.
    pub text: String,
    /// Nobody listens at the socket.
    pub is_nobody: bool,
    /// The manager refused, and always will.
    pub is_refusal: bool,
}

/// A connection to a manager. Each call has a bound on its time.
pub trait Manager: Send {
    /// Counters.
    fn top(&mut self) -> Result<TopAnswer, Trouble>;
    /// All units, or those that changed since.
    fn overview(&mut self, changed_since_us: Option<u64>) -> Result<OverviewAnswer, Trouble>;
    /// What its page shows.
    fn page(&mut self, unit: &str) -> Result<UnitPage, Trouble>;
    /// Its files, one after the other.
    fn files(&mut self, unit: &str) -> Result<String, Trouble>;
    /// Queues a job for each unit; the refusals, for people.
    fn jobs(&mut self, job: JobType, units: &[String]) -> Result<Vec<String>, Trouble>;
    /// Takes the failures of a unit away.
    fn clear(&mut self, unit: &str) -> Result<(), Trouble>;
}

/// Makes connections, one for each thread that asks, and commands that read the log.
pub trait Connect: Send + Sync {
    /// A connection; waits for no manager that is not there.
    fn connect(&self) -> Result<Box<dyn Manager>, Trouble>;
    /// A command that prints the last lines of a unit's log and then each new one.
    fn follow_log(&self, unit: &str) -> Command;
    /// The last starts and stops of a unit, the newest first, from the log; or why they are not known. May take long.
    fn past_starts(&self, unit: &str) -> Result<Vec<Start>, String>;
    /// Answers a question, for people; may take long.
    ///
    /// # Errors
    /// Why there is no answer.
    fn answer(&self, ask: Ask, subject: &Subject) -> Result<String, String>;
    /// The manager's file system as it is seen from here; `/` for one beside us.
    fn root(&self) -> std::path::PathBuf;
}
