//! Errors as clients see them: a name and a text. Both are systemd 252's where it has one, taken
//! from its answers.

use warren_core::protocol::request::Refusal;

const SYSTEMD: &str = "org.freedesktop.systemd1.";
const DBUS: &str = "org.freedesktop.DBus.Error.";

/// An error reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BusError {
    /// The error's name, in full.
    pub name: String,
    /// One sentence for people; systemctl shows it.
    pub text: String,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $prefix:ident $make:ident $name:literal;)*) => {
        impl BusError {$(
            $(#[$doc])*
            pub fn $make(text: impl Into<String>) -> BusError {
                BusError { name: format!("{}{}", $prefix, $name), text: text.into() }
            }
        )*}
    };
}

constructors! {
    /// Nothing more exact is known.
    DBUS failed "Failed";
    /// An argument makes no sense.
    DBUS invalid_args "InvalidArgs";
    /// The client may not do this.
    DBUS access_denied "AccessDenied";
    /// The client may do this once somebody has given a password.
    DBUS needs_interaction "InteractiveAuthorizationRequired";
    /// Whoever was asked has not answered.
    DBUS timed_out "Timeout";
    /// This version does not do this.
    DBUS not_supported "NotSupported";
    /// There is no such method.
    DBUS unknown_method "UnknownMethod";
    /// There is no such object.
    DBUS unknown_object "UnknownObject";
    /// The object has no such interface.
    DBUS unknown_interface "UnknownInterface";
    /// The object has no such property.
    DBUS unknown_property "UnknownProperty";
    /// The property cannot be written.
    DBUS read_only "PropertyReadOnly";
    /// There is no such file.
    DBUS file_not_found "FileNotFound";
    /// Too much at once.
    DBUS limits_exceeded "LimitsExceeded";
    /// The unit is not loaded, or has no file.
    SYSTEMD no_such_unit "NoSuchUnit";
    /// No unit has this process.
    SYSTEMD no_unit_for_pid "NoUnitForPID";
    /// No unit has this run.
    SYSTEMD no_unit_for_invocation "NoUnitForInvocationID";
    /// The unit is down.
    SYSTEMD unit_inactive "UnitInactive";
    /// The scope has no processes.
    SYSTEMD scope_not_running "ScopeNotRunning";
    /// The unit has a job, or something else is done with it.
    SYSTEMD unit_busy "UnitBusy";
    /// There is nothing of the kind to be removed.
    SYSTEMD nothing_to_clean "NothingToClean";
    /// There is no such job.
    SYSTEMD no_such_job "NoSuchJob";
    /// The unit has no such process.
    SYSTEMD no_such_process "NoSuchProcess";
    /// Unsubscribe without a subscription.
    SYSTEMD not_subscribed "NotSubscribed";
    /// Unref without a reference.
    SYSTEMD not_referenced "NotReferenced";
    /// There is no such dynamic user.
    SYSTEMD no_such_dynamic_user "NoSuchDynamicUser";
    /// The unit is masked.
    SYSTEMD masked "UnitMasked";
    /// The unit's file has an error.
    SYSTEMD bad_setting "BadUnitSetting";
    /// The unit's file cannot be read.
    SYSTEMD load_failed "LoadFailed";
    /// RefuseManualStart= or RefuseManualStop=.
    SYSTEMD only_by_dependency "OnlyByDependency";
    /// The unit may not be isolated.
    SYSTEMD no_isolation "NoIsolation";
    /// Two required jobs contradict each other.
    SYSTEMD jobs_conflicting "TransactionJobsConflicting";
    /// The transaction contradicts installed jobs.
    SYSTEMD destructive "TransactionIsDestructive";
    /// The order of required jobs goes in a circle.
    SYSTEMD order_is_cyclic "TransactionOrderIsCyclic";
    /// Units of this type cannot do this.
    SYSTEMD not_applicable "JobTypeNotApplicable";
    /// The system is shutting down.
    SYSTEMD shutting_down "ShuttingDown";
    /// The name is a link to the unit.
    SYSTEMD linked "UnitLinked";
    /// Another file is in the way.
    SYSTEMD unit_exists "UnitExists";
}

impl From<Refusal> for BusError {
    fn from(refusal: Refusal) -> BusError {
        let text = refusal.to_string();
        match refusal {
            Refusal::NoSuchUnit(_) => BusError::no_such_unit(text),
            Refusal::Masked(_) => BusError::masked(text),
            Refusal::BadSetting(_) => BusError::bad_setting(text),
            Refusal::LoadError(_) => BusError::load_failed(text),
            Refusal::OnlyByDependency(_, "isolate") => {
                BusError::no_isolation("Operation refused, unit may not be isolated.")
            }
            Refusal::OnlyByDependency(unit, _) => BusError::only_by_dependency(format!(
                "Operation refused, unit {unit} may be requested by dependency only (it is \
                 configured to refuse manual start/stop)."
            )),
            Refusal::JobsConflict(_) | Refusal::Outdone { .. } => BusError::jobs_conflicting(text),
            Refusal::Destructive { .. } | Refusal::WouldStop(_) => BusError::destructive(text),
            Refusal::Cycle(_) => BusError::order_is_cyclic(text),
            Refusal::Maintenance(_) => BusError::masked(text),
            Refusal::NotStopping(_)
            | Refusal::NotApplicable(_)
            | Refusal::NotActive(_)
            | Refusal::NothingToClear(_) => BusError::not_applicable(text),
            Refusal::BadMode(_) | Refusal::BadSignal(_) => BusError::invalid_args(text),
            Refusal::NoSuchJob(_) => BusError::no_such_job(text),
            Refusal::NoSuchProcess(_) => BusError::no_such_process(text),
            Refusal::CannotFreeze(_) => BusError::not_supported(text),
            Refusal::ScopeNotRunning(_) => BusError::scope_not_running(text),
            Refusal::ScopeExists(_) => BusError::unit_exists(text),
            Refusal::Inactive => BusError::unit_inactive(text),
            Refusal::HasJob(_) | Refusal::FreezerBusy(_) | Refusal::NotAtRest => {
                BusError::unit_busy(text)
            }
            Refusal::NothingToClean => BusError::nothing_to_clean(text),
            Refusal::Kernel(_) => BusError::failed(text),
            Refusal::ShuttingDown => BusError::shutting_down(text),
        }
    }
}

impl std::fmt::Display for BusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl std::error::Error for BusError {}
