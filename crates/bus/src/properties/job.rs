//! org.freedesktop.systemd1.Job.

use super::property::{Interface, properties};
use warren_core::model::job::Job;

/// The interface of jobs. Its subject is the job's unit.
pub static JOB_INTERFACE: Interface =
    Interface { name: "org.freedesktop.systemd1.Job", tables: &[JOB] };

properties! {
    /// The table of the interface.
    JOB:
    Id "u" Const => |s, w| w.u32(s.installed_job().map_or(0, |job| job.id.0));
    Unit "(so)" Const => |s, w| w.structure().str(s.name()).str(&crate::path::unit(s.name()));
    JobType "s" Const => |s, w| w.str(s.installed_job().map_or("", |job| job.kind.as_str()));
    State "s" Value => |s, w| w.str(s.installed_job().map_or("", job_state));
    ActivationDetails "a(ss)" Const = "0";
}

/// The word of the STATE column of `systemctl list-jobs`.
pub fn job_state(job: &Job) -> &'static str {
    if job.running { "running" } else { "waiting" }
}
