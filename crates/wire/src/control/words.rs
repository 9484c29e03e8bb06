//! Words in requests and answers.
//!
//! - Owns: the vocabularies that programs decide by. What only people read is a text.
//! - Must not: refuse a word of a newer program.
//! - Runs on the thread of its caller.

words! {
    /// State of a unit, as systemctl's column ACTIVE.
    ActiveState {
        Active = "active",
        Reloading = "reloading",
        Inactive = "inactive",
        Failed = "failed",
        Activating = "activating",
        Deactivating = "deactivating",
    }

    /// Whether a unit's files can be used, as systemctl's column LOAD.
    LoadState {
        Loaded = "loaded",
        NotFound = "not-found",
        BadSetting = "bad-setting",
        Error = "error",
        Masked = "masked",
        Stub = "stub",
    }

    /// What a job does.
    JobKind {
        Start = "start",
        VerifyActive = "verify-active",
        Stop = "stop",
        Reload = "reload",
        Restart = "restart",
        Nop = "nop",
    }

    /// What a job is asked for as; it becomes a [`JobKind`] by the state of its unit.
    JobType {
        Start = "start",
        VerifyActive = "verify-active",
        Stop = "stop",
        Reload = "reload",
        Restart = "restart",
        Nop = "nop",
        TryRestart = "try-restart",
        TryReload = "try-reload",
        ReloadOrStart = "reload-or-start",
    }

    /// How a job ended; `queued` is no end.
    JobResult {
        Done = "done",
        Canceled = "canceled",
        Timeout = "timeout",
        Failed = "failed",
        Dependency = "dependency",
        Skipped = "skipped",
        Invalid = "invalid",
        Assert = "assert",
        Unsupported = "unsupported",
        Collected = "collected",
        Once = "once",
    }

    /// Who or what set something off.
    CauseKind {
        Request = "request",
        Dependency = "dependency",
        Trigger = "trigger",
        Outcome = "outcome",
        Restart = "restart",
        Kernel = "kernel",
        Manager = "manager",
    }

    /// How bad a fault in a file is.
    Severity {
        Error = "error",
        Warning = "warning",
        Note = "note",
    }

    /// Which of a unit's processes get a signal.
    KillWhom {
        Main = "main",
        Control = "control",
        All = "all",
    }

    /// How everything ends.
    LeaveHow {
        Poweroff = "poweroff",
        Reboot = "reboot",
        Halt = "halt",
        Kexec = "kexec",
        SoftReboot = "soft-reboot",
        Exit = "exit",
    }

    /// What an administrator says that a unit is in.
    MarkAs {
        Maintenance = "maintenance",
        Degraded = "degraded",
    }

    /// What is done with unit files, in systemctl's words.
    UnitFileVerb {
        Enable = "enable",
        Disable = "disable",
        Reenable = "reenable",
        Link = "link",
        Mask = "mask",
        Unmask = "unmask",
        Revert = "revert",
        SetDefault = "set-default",
        Preset = "preset",
        PresetAll = "preset-all",
    }

    /// Why a request is refused.
    ErrorName {
        AccessDenied = "io.warrener.AccessDenied",
        Busy = "io.warrener.Busy",
        DependencyRefused = "io.warrener.DependencyRefused",
        LimitsExceeded = "io.warrener.LimitsExceeded",
        Malformed = "io.warrener.Malformed",
        NoSuchProcess = "io.warrener.NoSuchProcess",
        NoSuchUnit = "io.warrener.NoSuchUnit",
        Refused = "io.warrener.Refused",
        UnitRefused = "io.warrener.UnitRefused",
        ExpectedMore = "org.varlink.service.ExpectedMore",
        InvalidParameter = "org.varlink.service.InvalidParameter",
        MethodNotFound = "org.varlink.service.MethodNotFound",
    }
}
