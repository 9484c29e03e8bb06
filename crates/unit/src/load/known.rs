//! Names that thousands of units refer to, made once and shared.

use std::sync::LazyLock;

use crate::name::UnitName;

macro_rules! known {
    ($($name:ident = $text:literal;)*) => {
        $(pub(super) fn $name() -> UnitName {
            static NAME: LazyLock<UnitName> =
                LazyLock::new(|| UnitName::parse($text).expect("a valid name"));
            NAME.clone()
        })*
    };
}

known! {
    app_slice = "app.slice";
    basic_target = "basic.target";
    dbus_service = "dbus.service";
    dbus_socket = "dbus.socket";
    journald_socket = "systemd-journald.socket";
    local_fs_pre_target = "local-fs-pre.target";
    local_fs_target = "local-fs.target";
    network_online_target = "network-online.target";
    network_target = "network.target";
    oomd_service = "systemd-oomd.service";
    paths_target = "paths.target";
    quotacheck_service = "systemd-quotacheck.service";
    quotaon_service = "quotaon.service";
    remote_fs_pre_target = "remote-fs-pre.target";
    remote_fs_target = "remote-fs.target";
    remount_fs_service = "systemd-remount-fs.service";
    root_mount = "-.mount";
    root_slice = "-.slice";
    shutdown_target = "shutdown.target";
    sockets_target = "sockets.target";
    swap_target = "swap.target";
    sysinit_target = "sysinit.target";
    system_slice = "system.slice";
    time_set_target = "time-set.target";
    time_sync_target = "time-sync.target";
    timers_target = "timers.target";
    tmp_mount = "tmp.mount";
    tmpfiles_setup_service = "systemd-tmpfiles-setup.service";
    udevd_service = "systemd-udevd.service";
    umount_target = "umount.target";
}
