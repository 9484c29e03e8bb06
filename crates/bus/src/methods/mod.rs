//! The one table of methods: names, arguments, who may call, and what does it.
//!
//! A method looks at the view and at its arguments and says what follows: a reply, a question to
//! the manager, a unit to be loaded first. It does nothing itself. The introspection text comes
//! from the same tables.

mod files;
mod filter;
mod listing;
mod manager;
mod method;
mod unit;

pub use manager::{MANAGER_METHODS, unit_of_invocation};
pub use method::{Access, Invocation, Method, Methods, Progress, Refusal, Step, Then, arguments};
pub use unit::{JOB_METHODS, PROCESS_METHODS, SCOPE_METHODS, SERVICE_METHODS, UNIT_METHODS};

use crate::backend::{Answer, FileChange, StoredFd};
use crate::error::BusError;
use crate::path;
use crate::wire::Writer;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::JobKind;
use warren_core::view::View;
use warren_unit::install::Remark;

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
        (Then::Jobs, Answer::Jobs(jobs)) => {
            let paths: Vec<String> = jobs.into_iter().map(|job| path::job(job.0)).collect();
            w.strs(paths.iter().map(|path| &**path));
        }
        (Then::JobsOf, Answer::JobsOf(jobs)) => {
            w.array(b'(', |w| {
                for made in jobs {
                    w.structure();
                    job_fields(w, view, made);
                }
            });
        }
        (Then::JobsOf, Answer::Job { job, unit, kind, .. }) => {
            w.array(b'(', |w| job_fields(w.structure(), view, (job, unit, kind)));
        }
        (Then::StoredFds, Answer::StoredFds(stored)) => {
            w.array(b'(', |w| stored.iter().for_each(|fd| stored_fd(w, fd)));
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

/// `suuutuusu`.
fn stored_fd(w: &mut Writer, fd: &StoredFd) {
    let (device, is_device) = (fd.device, fd.is_device);
    w.structure().str(&fd.name).u32(fd.mode).u32(device.0).u32(device.1).u64(fd.inode);
    w.u32(is_device.0).u32(is_device.1).str(&fd.path).u32(fd.flags);
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
