//! Swaps, and scopes, which this version loads but does not run. Of those, and of devices, settings are shown with
//! their defaults.

use super::properties;
use super::values::*;

properties! {
    /// Swaps.
    SWAP:
    What "s" Value => |s, w| w.str(&s.mount().what);
    Priority "i" Value => |s, w| w.i32(s.swap_priority());
    Options "s" Value => |s, w| w.str(text(&s.mount().options));
    TimeoutUSec "t" Const => |s, w| w.u64(usec(s.mount().timeout));
    ControlPID "u" Value => |s, w| w.u32(s.run().control_pid().unwrap_or(0));
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    UID "u" Value => |s, w| w.u32(s.identity().0);
    GID "u" Value => |s, w| w.u32(s.identity().1);
    ExecActivate "a(sasbttttuii)" Invalidates = "0";
    ExecDeactivate "a(sasbttttuii)" Invalidates = "0";
}

properties! {
    /// Scopes.
    SCOPE:
    Controller "s" Value = "\"\"";
    TimeoutStopUSec "t" Const = "90000000";
    Result "s" Value = "success";
    RuntimeMaxUSec "t" Const = "18446744073709551615";
    RuntimeRandomizedExtraUSec "t" Const = "0";
    OOMPolicy "s" Const = "stop";
}

properties! {
    /// Devices.
    DEVICE:
    SysFSPath "s" Value => |s, w| w.str(&s.device().sysfs_path);
}
