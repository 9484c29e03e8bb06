//! org.freedesktop.systemd1.Mount and .Automount, without the groups that they share.

use super::property::properties;
use super::values::*;

properties! {
    /// The table of mounts.
    MOUNT:
    Where "s" Const => |s, w| w.str(&s.mount().where_);
    What "s" Value => |s, w| w.str(s.mounted_what());
    Options "s" Value => |s, w| w.str(s.mounted_options());
    Type "s" Value => |s, w| w.str(s.mounted_type());
    TimeoutUSec "t" Const => |s, w| w.u64(usec(s.mount().timeout));
    ControlPID "u" Value => |s, w| w.u32(s.run().control_pid().unwrap_or(0));
    DirectoryMode "u" Const => |s, w| w.u32(s.mount().directory_mode);
    SloppyOptions "b" Const => |s, w| w.bool(s.mount().sloppy_options);
    LazyUnmount "b" Const => |s, w| w.bool(s.mount().lazy_unmount);
    ForceUnmount "b" Const => |s, w| w.bool(s.mount().force_unmount);
    ReadWriteOnly "b" Const => |s, w| w.bool(s.mount().read_write_only);
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    UID "u" Value => |s, w| w.u32(s.identity().0);
    GID "u" Value => |s, w| w.u32(s.identity().1);
    ExecMount "a(sasbttttuii)" Invalidates = "0";
    ExecUnmount "a(sasbttttuii)" Invalidates = "0";
    ExecRemount "a(sasbttttuii)" Invalidates = "0";
}

properties! {
    /// The table of automounts.
    AUTOMOUNT:
    Where "s" Const => |s, w| w.str(&s.automount().where_);
    ExtraOptions "s" Const => |s, w| w.str(text(&s.automount().extra_options));
    DirectoryMode "u" Const => |s, w| w.u32(s.automount().directory_mode);
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    TimeoutIdleUSec "t" Const => |s, w| w.u64(idle_limit(s.automount()));
}
