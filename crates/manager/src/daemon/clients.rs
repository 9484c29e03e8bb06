//! Clients that wait for a reply of the core, or for the end of a job.

use crate::base::answers::AnswerTo;
use crate::daemon::servers::Servers;
use crate::published::orders::JobOutcome;
use std::collections::BTreeMap;
use warren_bus::backend::ReplySender;
use warren_core::model::ids::{ClientId, JobId, UnitId};
use warren_core::model::job::JobResult;

/// Whom a reply of the core is for.
pub(crate) enum Client {
    /// A client of the bus, which is answered at once.
    Bus(ReplySender),
    /// A client that waits for the end of the job.
    Waiter(AnswerTo<JobOutcome>),
    /// Both.
    BusAndWaiter(ReplySender, AnswerTo<JobOutcome>),
}

/// The clients that wait for the end of one job.
struct JobWaiters {
    unit: UnitId,
    answers: Vec<AnswerTo<JobOutcome>>,
}

/// All clients that wait.
#[derive(Default)]
pub(crate) struct Clients {
    awaiting_reply: BTreeMap<ClientId, Client>,
    /// The id that was given last.
    last: u64,
    job_waiters: BTreeMap<JobId, JobWaiters>,
    /// Jobs that a client began to wait for in this turn.
    new_waits: Vec<JobId>,
    /// Where clients connect.
    pub(crate) servers: Servers,
}

impl Clients {
    /// No client waits; these servers will have clients.
    pub(crate) fn new(servers: Servers) -> Clients {
        Clients { servers, ..Clients::default() }
    }

    /// Keeps a client until the core replies to it.
    pub(crate) fn add(&mut self, client: Client) -> ClientId {
        self.last += 1;
        let id = ClientId(self.last);
        self.awaiting_reply.insert(id, client);
        id
    }

    /// The client that a reply is for; it waits for it no longer.
    pub(crate) fn take(&mut self, client: ClientId) -> Option<Client> {
        self.awaiting_reply.remove(&client)
    }

    /// The client waits for the end of the job.
    pub(crate) fn wait_for_job(&mut self, job: JobId, unit: UnitId, waiter: AnswerTo<JobOutcome>) {
        let none = || JobWaiters { unit, answers: Vec::new() };
        let answers = &mut self.job_waiters.entry(job).or_insert_with(none).answers;
        answers.retain(|waiter| !waiter.is_in_vain());
        answers.push(waiter);
        self.new_waits.push(job);
    }

    /// Answers those who wait for a job that has ended.
    pub(crate) fn job_ended(&mut self, job: JobId, result: JobResult) {
        self.answer_waiters(job, || JobOutcome::Job(result));
    }

    /// Whether a client waits for a job.
    pub(crate) fn wait_for_jobs(&self) -> bool {
        !self.job_waiters.is_empty()
    }

    /// Forgets which jobs clients began to wait for: none of them is waited for any more.
    pub(crate) fn forget_new_waits(&mut self) {
        self.new_waits.clear();
    }

    /// Jobs that clients wait for: all of them, or those that a client began to wait for since the last call.
    pub(crate) fn take_waited_for(&mut self, all: bool) -> Vec<JobId> {
        let new = std::mem::take(&mut self.new_waits);
        match all {
            true => self.job_waiters.keys().copied().collect(),
            false => new.into_iter().filter(|job| self.job_waiters.contains_key(job)).collect(),
        }
    }

    /// The unit of a job that a client waits for.
    pub(crate) fn unit_of(&self, job: JobId) -> Option<UnitId> {
        self.job_waiters.get(&job).map(|waiters| waiters.unit)
    }

    /// Answers those who wait for a job; they wait no longer.
    pub(crate) fn answer_waiters(&mut self, job: JobId, answer: impl Fn() -> JobOutcome) {
        for waiter in self.job_waiters.remove(&job).into_iter().flat_map(|w| w.answers) {
            waiter.send(answer());
        }
    }
}
