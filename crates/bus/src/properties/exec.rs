//! The group of properties of all units that run processes (systemd.exec(5)), and how those are
//! stopped (systemd.kill(5)).
//!
//! A value after `~` is the default of a setting that protects the host; what the file asks for is shown in its place.
//! What it gives of credentials is not shown: everybody may read properties.

use super::filters;
use super::property::properties;
use super::protections;
use super::values::*;
use crate::wire::Writer;
use warren_unit::UnitType;
use warren_unit::config::{ExecConfig, IndexSet, Label, NumaNodes, Resource};

properties! {
    /// The execution environment.
    EXEC:
    Environment "as" Const => |s, w| environment(w, &s.exec().environment);
    EnvironmentFiles "a(sb)" Const => |s, w| environment_files(w, &s.exec().environment_files);
    PassEnvironment "as" Const => |s, w| w.strs(s.exec().pass_environment.iter().map(|name| &**name));
    UnsetEnvironment "as" Const => |s, w| unset_environment(w, &s.exec().unset_environment);
    UMask "u" Const => |s, w| w.u32(s.exec().umask);
    LimitCPU "t" Const => |s, w| s.rlimit(w, Resource::Cpu, true);
    LimitCPUSoft "t" Const => |s, w| s.rlimit(w, Resource::Cpu, false);
    LimitFSIZE "t" Const => |s, w| s.rlimit(w, Resource::Fsize, true);
    LimitFSIZESoft "t" Const => |s, w| s.rlimit(w, Resource::Fsize, false);
    LimitDATA "t" Const => |s, w| s.rlimit(w, Resource::Data, true);
    LimitDATASoft "t" Const => |s, w| s.rlimit(w, Resource::Data, false);
    LimitSTACK "t" Const => |s, w| s.rlimit(w, Resource::Stack, true);
    LimitSTACKSoft "t" Const => |s, w| s.rlimit(w, Resource::Stack, false);
    LimitCORE "t" Const => |s, w| s.rlimit(w, Resource::Core, true);
    LimitCORESoft "t" Const => |s, w| s.rlimit(w, Resource::Core, false);
    LimitRSS "t" Const => |s, w| s.rlimit(w, Resource::Rss, true);
    LimitRSSSoft "t" Const => |s, w| s.rlimit(w, Resource::Rss, false);
    LimitNOFILE "t" Const => |s, w| s.rlimit(w, Resource::Nofile, true);
    LimitNOFILESoft "t" Const => |s, w| s.rlimit(w, Resource::Nofile, false);
    LimitAS "t" Const => |s, w| s.rlimit(w, Resource::As, true);
    LimitASSoft "t" Const => |s, w| s.rlimit(w, Resource::As, false);
    LimitNPROC "t" Const => |s, w| s.rlimit(w, Resource::Nproc, true);
    LimitNPROCSoft "t" Const => |s, w| s.rlimit(w, Resource::Nproc, false);
    LimitMEMLOCK "t" Const => |s, w| s.rlimit(w, Resource::Memlock, true);
    LimitMEMLOCKSoft "t" Const => |s, w| s.rlimit(w, Resource::Memlock, false);
    LimitLOCKS "t" Const => |s, w| s.rlimit(w, Resource::Locks, true);
    LimitLOCKSSoft "t" Const => |s, w| s.rlimit(w, Resource::Locks, false);
    LimitSIGPENDING "t" Const => |s, w| s.rlimit(w, Resource::Sigpending, true);
    LimitSIGPENDINGSoft "t" Const => |s, w| s.rlimit(w, Resource::Sigpending, false);
    LimitMSGQUEUE "t" Const => |s, w| s.rlimit(w, Resource::Msgqueue, true);
    LimitMSGQUEUESoft "t" Const => |s, w| s.rlimit(w, Resource::Msgqueue, false);
    LimitNICE "t" Const => |s, w| s.rlimit(w, Resource::Nice, true);
    LimitNICESoft "t" Const => |s, w| s.rlimit(w, Resource::Nice, false);
    LimitRTPRIO "t" Const => |s, w| s.rlimit(w, Resource::Rtprio, true);
    LimitRTPRIOSoft "t" Const => |s, w| s.rlimit(w, Resource::Rtprio, false);
    LimitRTTIME "t" Const => |s, w| s.rlimit(w, Resource::Rttime, true);
    LimitRTTIMESoft "t" Const => |s, w| s.rlimit(w, Resource::Rttime, false);
    WorkingDirectory "s" Const => |s, w| w.str(&working_directory(s.exec()));
    RootDirectory "s" Const => |s, w| w.str(text(&s.exec().root_directory));
    RootImage "s" Const => |s, w| protections::root_image(s.exec(), w);
    RootImageOptions "a(ss)" Const => |s, w| protections::root_image_options(s.exec(), w);
    RootHash "ay" Const => |s, w| protections::hash(s.exec(), "RootHash", w);
    RootHashPath "s" Const => |s, w| protections::hash_path(s.exec(), "RootHash", w);
    RootHashSignature "ay" Const => |s, w| protections::hash(s.exec(), "RootHashSignature", w);
    RootHashSignaturePath "s" Const => |s, w| protections::hash_path(s.exec(), "RootHashSignature", w);
    RootVerity "s" Const => |s, w| protections::text(s.exec(), "RootVerity", w);
    ExtensionDirectories "as" Const => |s, w| protections::directories(s.exec(), w);
    ExtensionImages "a(sba(ss))" Const => |s, w| protections::extension_images(s.exec(), w);
    MountImages "a(ssba(ss))" Const => |s, w| protections::mounted_images(s.exec(), w);
    OOMScoreAdjust "i" Const => |s, w| w.i32(s.exec().oom_score_adjust.map_or(0, i32::from));
    CoredumpFilter "t" Const => |s, w| w.u64(u64::from(s.exec().coredump_filter.unwrap_or(0x33)));
    Nice "i" Const => |s, w| w.i32(s.exec().nice.map_or(0, i32::from));
    IOSchedulingClass "i" Const => |s, w| w.i32(io_class(s.exec()));
    IOSchedulingPriority "i" Const => |s, w| w.i32(s.exec().io_scheduling_priority.map_or(4, i32::from));
    CPUSchedulingPolicy "i" Const => |s, w| w.i32(cpu_policy(s.exec()));
    CPUSchedulingPriority "i" Const => |s, w| w.i32(s.exec().cpu_scheduling_priority.map_or(0, i32::from));
    CPUAffinity "ay" Const => |s, w| index_set(w, s.exec().cpu_affinity.as_ref());
    CPUAffinityFromNUMA "b" Const => |s, w| w.bool(s.exec().cpu_affinity_of_nodes);
    NUMAPolicy "i" Const => |s, w| w.i32(s.exec().numa_policy.map_or(-1, |policy| policy as i32));
    NUMAMask "ay" Const => |s, w| index_set(w, numa_nodes(s.exec()));
    TimerSlackNSec "t" Const => |s, w| w.u64(s.exec().timer_slack_nsec.unwrap_or(50_000));
    CPUSchedulingResetOnFork "b" Const => |s, w| w.bool(s.exec().cpu_scheduling_reset_on_fork);
    NonBlocking "b" Const => |s, w| w.bool(s.non_blocking());
    StandardInput "s" Const => |s, w| w.str(input_word(&s.exec().standard_input));
    StandardInputFileDescriptorName "s" Const => |s, w| w.str(input_fd(&s.exec().standard_input));
    StandardInputData "ay" Const => |s, w| w.bytes(&s.exec().standard_input_data);
    StandardOutput "s" Const => |s, w| w.str(s.standard_output());
    StandardOutputFileDescriptorName "s" Const => |s, w| w.str(output_fd(&s.exec().standard_output));
    StandardError "s" Const => |s, w| w.str(output_word(&s.exec().standard_error));
    StandardErrorFileDescriptorName "s" Const => |s, w| w.str(output_fd(&s.exec().standard_error));
    TTYPath "s" Const => |s, w| w.str(text(&s.exec().tty_path));
    TTYReset "b" Const => |s, w| w.bool(s.exec().tty_reset);
    TTYVHangup "b" Const => |s, w| w.bool(s.exec().tty_vhangup);
    TTYVTDisallocate "b" Const => |s, w| w.bool(s.exec().tty_vt_disallocate);
    TTYRows "q" Const => |s, w| w.u16(s.exec().tty_size.0.unwrap_or(u16::MAX));
    TTYColumns "q" Const => |s, w| w.u16(s.exec().tty_size.1.unwrap_or(u16::MAX));
    SyslogPriority "i" Const => |s, w| w.i32(i32::from(s.exec().syslog_facility) << 3 | i32::from(s.exec().syslog_level));
    SyslogIdentifier "s" Const => |s, w| w.str(text(&s.exec().syslog_identifier));
    SyslogLevelPrefix "b" Const => |s, w| w.bool(s.exec().syslog_level_prefix);
    SyslogLevel "i" Const => |s, w| w.i32(i32::from(s.exec().syslog_level));
    SyslogFacility "i" Const => |s, w| w.i32(i32::from(s.exec().syslog_facility));
    LogLevelMax "i" Const => |s, w| w.i32(s.exec().log_level_max.map_or(-1, i32::from));
    LogRateLimitIntervalUSec "t" Const => |s, w| w.u64(s.exec().log_rate_limit_interval.map_or(0, micros));
    LogRateLimitBurst "u" Const => |s, w| w.u32(s.exec().log_rate_limit_burst.unwrap_or(0));
    LogExtraFields "aay" Const => |s, w| byte_arrays(w, &s.exec().log_extra_fields);
    LogNamespace "s" Const => |s, w| w.str(s.exec().log_namespace.as_deref().unwrap_or(""));
    SecureBits "i" Const => |s, w| w.i32(s.exec().secure_bits.cast_signed());
    CapabilityBoundingSet "t" Const => |s, w| w.u64(known_capabilities(s.exec().capability_bounding_set));
    AmbientCapabilities "t" Const => |s, w| w.u64(known_capabilities(s.exec().ambient_capabilities));
    User "s" Const => |s, w| w.str(text(&s.exec().user));
    Group "s" Const => |s, w| w.str(text(&s.exec().group));
    DynamicUser "b" Const => |s, w| w.bool(s.exec().dynamic_user);
    RemoveIPC "b" Const => |s, w| w.bool(s.exec().remove_ipc);
    SetCredential "a(say)" Const ~ "0";
    SetCredentialEncrypted "a(say)" Const ~ "0";
    LoadCredential "a(ss)" Const => |s, w| protections::loaded_credentials(s.exec(), "LoadCredential", w);
    LoadCredentialEncrypted "a(ss)" Const => |s, w| protections::loaded_credentials(s.exec(), "LoadCredentialEncrypted", w);
    SupplementaryGroups "as" Const => |s, w| w.strs(s.exec().supplementary_groups.iter().map(|group| &**group));
    PAMName "s" Const => |s, w| w.str(text(&s.exec().pam_name));
    ReadWritePaths "as" Const => |s, w| protections::paths(s.exec(), "ReadWritePaths", w);
    ReadOnlyPaths "as" Const => |s, w| protections::paths(s.exec(), "ReadOnlyPaths", w);
    InaccessiblePaths "as" Const => |s, w| protections::paths(s.exec(), "InaccessiblePaths", w);
    ExecPaths "as" Const => |s, w| protections::paths(s.exec(), "ExecPaths", w);
    NoExecPaths "as" Const => |s, w| protections::paths(s.exec(), "NoExecPaths", w);
    ExecSearchPath "as" Const => |s, w| w.strs(s.exec().exec_search_path.iter().map(|path| &**path));
    MountFlags "t" Const => |s, w| w.u64(protections::propagation(s.exec()));
    PrivateTmp "b" Const ~ "false";
    PrivateDevices "b" Const ~ "false";
    ProtectClock "b" Const ~ "false";
    ProtectKernelTunables "b" Const ~ "false";
    ProtectKernelModules "b" Const ~ "false";
    ProtectKernelLogs "b" Const ~ "false";
    ProtectControlGroups "b" Const ~ "false";
    PrivateNetwork "b" Const ~ "false";
    PrivateUsers "b" Const ~ "false";
    PrivateMounts "b" Const ~ "false";
    PrivateIPC "b" Const ~ "false";
    ProtectHome "s" Const ~ "no";
    ProtectSystem "s" Const ~ "no";
    SameProcessGroup "b" Const => |s, w| w.bool(s.unit_type() == UnitType::Mount);
    UtmpIdentifier "s" Const => |s, w| w.str(text(&s.exec().utmp_identifier));
    UtmpMode "s" Const => |s, w| w.str(s.exec().utmp_mode.as_str());
    SELinuxContext "(bs)" Const => |s, w| label(w, s.exec().selinux_context.as_ref());
    AppArmorProfile "(bs)" Const => |s, w| label(w, s.exec().apparmor_profile.as_ref());
    SmackProcessLabel "(bs)" Const => |s, w| label(w, s.exec().smack_label.as_ref());
    IgnoreSIGPIPE "b" Const => |s, w| w.bool(s.exec().ignore_sigpipe);
    NoNewPrivileges "b" Const => |s, w| w.bool(s.exec().no_new_privileges);
    SystemCallFilter "(bas)" Const => |s, w| filters::calls(s.exec(), "SystemCallFilter", w);
    SystemCallArchitectures "as" Const => |s, w| filters::architectures(s.exec(), w);
    SystemCallErrorNumber "i" Const => |s, w| w.i32(filters::error_number(s.exec()));
    SystemCallLog "(bas)" Const => |s, w| filters::calls(s.exec(), "SystemCallLog", w);
    Personality "s" Const => |s, w| w.str(s.exec().personality.map_or("", |p| p.as_str()));
    LockPersonality "b" Const ~ "false";
    RestrictAddressFamilies "(bas)" Const => |s, w| filters::families(s.exec(), w);
    RuntimeDirectorySymlink "a(sst)" Const => |s, w| directory_links(w, &s.exec().runtime_directory);
    RuntimeDirectoryPreserve "s" Const => |s, w| w.str(s.exec().runtime_directory_preserve.as_str());
    RuntimeDirectoryMode "u" Const => |s, w| w.u32(s.exec().runtime_directory.mode);
    RuntimeDirectory "as" Const => |s, w| directories(w, &s.exec().runtime_directory);
    StateDirectorySymlink "a(sst)" Const => |s, w| directory_links(w, &s.exec().state_directory);
    StateDirectoryMode "u" Const => |s, w| w.u32(s.exec().state_directory.mode);
    StateDirectory "as" Const => |s, w| directories(w, &s.exec().state_directory);
    CacheDirectorySymlink "a(sst)" Const => |s, w| directory_links(w, &s.exec().cache_directory);
    CacheDirectoryMode "u" Const => |s, w| w.u32(s.exec().cache_directory.mode);
    CacheDirectory "as" Const => |s, w| directories(w, &s.exec().cache_directory);
    LogsDirectorySymlink "a(sst)" Const => |s, w| directory_links(w, &s.exec().logs_directory);
    LogsDirectoryMode "u" Const => |s, w| w.u32(s.exec().logs_directory.mode);
    LogsDirectory "as" Const => |s, w| directories(w, &s.exec().logs_directory);
    ConfigurationDirectoryMode "u" Const => |s, w| w.u32(s.exec().configuration_directory.mode);
    ConfigurationDirectory "as" Const => |s, w| directories(w, &s.exec().configuration_directory);
    TimeoutCleanUSec "t" Const => |s, w| w.u64(s.exec().timeout_clean.map_or(u64::MAX, micros));
    MemoryDenyWriteExecute "b" Const ~ "false";
    RestrictRealtime "b" Const ~ "false";
    RestrictSUIDSGID "b" Const ~ "false";
    RestrictNamespaces "t" Const => |s, w| w.u64(filters::namespaces(s.exec()));
    RestrictFileSystems "(bas)" Const => |s, w| filters::file_systems(s.exec(), w);
    BindPaths "a(ssbt)" Const => |s, w| protections::binds(s.exec(), "BindPaths", w);
    BindReadOnlyPaths "a(ssbt)" Const => |s, w| protections::binds(s.exec(), "BindReadOnlyPaths", w);
    TemporaryFileSystem "a(ss)" Const => |s, w| protections::temporary(s.exec(), w);
    MountAPIVFS "b" Const => |s, w| w.bool(protections::has_api_file_systems(s.exec()));
    KeyringMode "s" Const => |s, w| w.str(s.keyring_mode());
    ProtectProc "s" Const ~ "default";
    ProcSubset "s" Const ~ "all";
    ProtectHostname "b" Const ~ "false";
    NetworkNamespacePath "s" Const ~ "\"\"";
    IPCNamespacePath "s" Const ~ "\"\"";
}

properties! {
    /// Stopping.
    KILL:
    KillMode "s" Const => |s, w| w.str(s.kill().mode.as_str());
    KillSignal "i" Const => |s, w| w.i32(s.kill().signal.number());
    RestartKillSignal "i" Const => |s, w| w.i32(s.kill().restart_signal.unwrap_or(s.kill().signal).number());
    FinalKillSignal "i" Const => |s, w| w.i32(s.kill().final_signal.number());
    SendSIGKILL "b" Const => |s, w| w.bool(s.kill().send_sigkill);
    SendSIGHUP "b" Const => |s, w| w.bool(s.kill().send_sighup);
    WatchdogSignal "i" Const => |s, w| w.i32(s.kill().watchdog_signal.number());
}

/// Whether the process runs without it where it cannot be set, and the label.
fn label<'w>(w: &'w mut Writer, label: Option<&Label>) -> &'w mut Writer {
    let optional = label.is_some_and(|label| label.is_optional);
    w.structure().bool(optional).str(label.map_or("", |label| &label.label))
}

/// The nodes that are listed.
fn numa_nodes(exec: &ExecConfig) -> Option<&IndexSet> {
    match &exec.numa_nodes {
        Some(NumaNodes::Listed(set)) => Some(set),
        _ => None,
    }
}
