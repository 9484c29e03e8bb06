//! In which order the settings of systemd.exec(5) are applied to a process.

/// What is done, in order, and the settings that ask for it. `warren-exec` has the order in `prepare` and `apply`.
pub const PHASES: [(&str, &[&str]); 15] = [
    (
        "before there is a process: environment files, users, directories, terminal",
        &[
            "EnvironmentFile",
            "Environment",
            "PassEnvironment",
            "UnsetEnvironment",
            "SetLoginEnvironment",
            "ExecSearchPath",
            "User",
            "Group",
            "DynamicUser",
            "RuntimeDirectory",
            "RuntimeDirectoryMode",
            "StateDirectory",
            "StateDirectoryMode",
            "CacheDirectory",
            "CacheDirectoryMode",
            "LogsDirectory",
            "LogsDirectoryMode",
            "ConfigurationDirectory",
            "ConfigurationDirectoryMode",
            "TTYVHangup",
            "TTYReset",
            "TTYVTDisallocate",
            "TTYRows",
            "TTYColumns",
        ],
    ),
    ("signals and session", &["IgnoreSIGPIPE"]),
    (
        "standard streams; the log daemon is told the rest",
        &[
            "StandardInput",
            "StandardInputText",
            "StandardInputData",
            "StandardOutput",
            "StandardError",
            "TTYPath",
            "SyslogIdentifier",
            "SyslogFacility",
            "SyslogLevel",
            "SyslogLevelPrefix",
            "LogLevelMax",
            "LogExtraFields",
            "LogFilterPatterns",
            "LogRateLimitIntervalSec",
            "LogRateLimitBurst",
        ],
    ),
    (
        "namespaces of the run",
        &[
            "PrivatePIDs",
            "PrivateNetwork",
            "NetworkNamespacePath",
            "PrivateIPC",
            "IPCNamespacePath",
        ],
    ),
    (
        "mounts, from outer paths to inner ones",
        &[
            "RootDirectory",
            "RootImage",
            "RootImageOptions",
            "RootEphemeral",
            "MountImages",
            "ExtensionImages",
            "ExtensionDirectories",
            "MountAPIVFS",
            "MountFlags",
            "PrivateMounts",
            "BindPaths",
            "BindReadOnlyPaths",
            "TemporaryFileSystem",
            "PrivateTmp",
            "PrivateDevices",
            "ProtectSystem",
            "ProtectHome",
            "ProtectProc",
            "ProcSubset",
            "ProtectControlGroups",
            "ProtectKernelTunables",
            "ProtectKernelModules",
            "ProtectKernelLogs",
            "ReadWritePaths",
            "ReadOnlyPaths",
            "InaccessiblePaths",
            "ExecPaths",
            "NoExecPaths",
            "LogNamespace",
            "LoadCredential",
            "LoadCredentialEncrypted",
            "SetCredential",
            "SetCredentialEncrypted",
            "ImportCredential",
        ],
    ),
    ("host name and users of its own", &["ProtectHostname", "PrivateUsers"]),
    (
        "scheduling",
        &[
            "OOMScoreAdjust",
            "Nice",
            "CPUSchedulingPolicy",
            "CPUSchedulingPriority",
            "CPUSchedulingResetOnFork",
            "CPUAffinity",
            "IOSchedulingClass",
            "IOSchedulingPriority",
            "NUMAPolicy",
            "NUMAMask",
            "CoredumpFilter",
            "MemoryKSM",
            "TimerSlackNSec",
            "Personality",
        ],
    ),
    (
        "limits",
        &[
            "LimitCPU",
            "LimitFSIZE",
            "LimitDATA",
            "LimitSTACK",
            "LimitCORE",
            "LimitRSS",
            "LimitNOFILE",
            "LimitAS",
            "LimitNPROC",
            "LimitMEMLOCK",
            "LimitLOCKS",
            "LimitSIGPENDING",
            "LimitMSGQUEUE",
            "LimitNICE",
            "LimitRTPRIO",
            "LimitRTTIME",
            "UMask",
        ],
    ),
    ("records of logins, before what may change the user", &["UtmpIdentifier", "UtmpMode"]),
    (
        "a session of PAM, whose modules may change limits, mask, groups and keyring; with one, the namespaces and \
         mounts above come after it",
        &["PAMName"],
    ),
    (
        "privileges: bounding set, labels, the user, keyring, ambient set, no new ones",
        &[
            "CapabilityBoundingSet",
            "ProtectClock",
            "SecureBits",
            "SmackProcessLabel",
            "SELinuxContext",
            "AppArmorProfile",
            "SupplementaryGroups",
            "KeyringMode",
            "AmbientCapabilities",
            "NoNewPrivileges",
        ],
    ),
    ("as the user: the working directory", &["WorkingDirectory"]),
    ("the last file that may be opened anywhere is open", &["RestrictFileSystems"]),
    (
        "the filter of system calls, the last step before the program",
        &[
            "SystemCallFilter",
            "SystemCallErrorNumber",
            "SystemCallArchitectures",
            "SystemCallLog",
            "RestrictAddressFamilies",
            "RestrictNamespaces",
            "RestrictRealtime",
            "RestrictSUIDSGID",
            "LockPersonality",
            "MemoryDenyWriteExecute",
        ],
    ),
    ("when the run is over", &["RuntimeDirectoryPreserve", "RemoveIPC", "TimeoutCleanSec"]),
];

/// The number of the phase of a setting, from 1 on.
pub fn phase(setting: &str) -> Option<usize> {
    PHASES.iter().position(|(_, settings)| settings.contains(&setting)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Group, SETTINGS, Status};

    #[test]
    fn each_setting_that_is_acted_on_has_one_phase() {
        let acted = SETTINGS.iter().filter(|s| s.group == Group::Exec);
        let acted = acted.filter(|s| matches!(s.status, Status::Acted | Status::Applied));
        let mut acted: Vec<&str> = acted.map(|s| s.name).collect();
        let mut listed: Vec<&str> =
            PHASES.iter().flat_map(|(_, settings)| *settings).copied().collect();
        acted.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, acted);
    }
}
