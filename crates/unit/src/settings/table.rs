//! The rows. Each block says: group, status, list rule, kind, then the names.

use super::Kind::*;
use super::{Alias, Group, List, Setting, Status};
use crate::config::*;
use crate::relation::Relation;

macro_rules! rows {
    ($( @ $group:ident $status:ident $list:ident ($kind:expr): $($name:ident)+; )*
     conditions: $($cond:ident $word:ident)+;
     limits: $($limit:ident $resource:ident)+; ) => {
        /// Every setting of systemd 252's manual pages, and the later ones that are in use.
        pub const SETTINGS: &[Setting] = &[
            $($( Setting {
                group: Group::$group,
                name: stringify!($name),
                kind: $kind,
                list: List::$list,
                status: Status::$status,
            }, )+)*
            $( Setting {
                group: Group::Unit,
                name: concat!("Condition", stringify!($word)),
                kind: Condition(ConditionKind::$cond),
                list: List::Append,
                status: Status::Acted,
            }, Setting {
                group: Group::Unit,
                name: concat!("Assert", stringify!($word)),
                kind: Assert(ConditionKind::$cond),
                list: List::Append,
                status: Status::Acted,
            }, )+
            $( Setting {
                group: Group::Exec,
                name: concat!("Limit", stringify!($resource)),
                kind: Rlimit(Resource::$limit),
                list: List::Last,
                status: Status::Acted,
            }, Setting {
                group: Group::Manager,
                name: concat!("DefaultLimit", stringify!($resource)),
                kind: Rlimit(Resource::$limit),
                list: List::Last,
                status: Status::Acted,
            }, )+
        ];
    };
}

const COUNT: super::Kind = Number(0, u32::MAX as i64);
const SIZE: super::Kind = Number(0, i64::MAX);
const WEIGHT: super::Kind = Number(1, 10_000);
const ACTION: super::Kind = Word(EmergencyAction::WORDS);

rows! {
    @Unit Acted Last (Text): Description SourcePath;
    @Unit Acted Append (Words): Documentation;
    @Unit Acted Keep (Units(Relation::Requires)): Requires;
    @Unit Acted Keep (Units(Relation::Requisite)): Requisite;
    @Unit Acted Keep (Units(Relation::Wants)): Wants;
    @Unit Acted Keep (Units(Relation::BindsTo)): BindsTo;
    @Unit Acted Keep (Units(Relation::PartOf)): PartOf;
    @Unit Acted Keep (Units(Relation::Upholds)): Upholds;
    @Unit Acted Keep (Units(Relation::Conflicts)): Conflicts;
    @Unit Acted Keep (Units(Relation::Before)): Before;
    @Unit Acted Keep (Units(Relation::After)): After;
    @Unit Acted Keep (Units(Relation::OnSuccess)): OnSuccess;
    @Unit Acted Keep (Units(Relation::OnFailure)): OnFailure;
    @Unit Acted Keep (Units(Relation::PropagatesReloadTo)): PropagatesReloadTo;
    @Unit Acted Keep (Units(Relation::ReloadPropagatedFrom)): ReloadPropagatedFrom;
    @Unit Acted Keep (Units(Relation::PropagatesStopTo)): PropagatesStopTo;
    @Unit Acted Keep (Units(Relation::StopPropagatedFrom)): StopPropagatedFrom;
    @Unit Acted Keep (Units(Relation::JoinsNamespaceOf)): JoinsNamespaceOf;
    @Unit Acted Keep (MountsFor): RequiresMountsFor WantsMountsFor;
    @Unit Acted Last (Bool): IgnoreOnIsolate StopWhenUnneeded RefuseManualStart RefuseManualStop
        AllowIsolate DefaultDependencies SurviveFinalKillSignal;
    @Unit Obsolete Last (Bool): IgnoreOnSnapshot OnFailureIsolate;
    @Unit Acted Last (Word(JobMode::WORDS)): OnSuccessJobMode OnFailureJobMode;
    @Unit Acted Last (Word(CollectMode::WORDS)): CollectMode;
    @Unit Acted Last (ACTION): FailureAction SuccessAction JobTimeoutAction StartLimitAction;
    @Unit Acted Last (Number(0, 255)): FailureActionExitStatus SuccessActionExitStatus;
    @Unit Acted Last (Span): JobTimeoutSec JobRunningTimeoutSec StartLimitIntervalSec;
    @Unit Acted Last (COUNT): StartLimitBurst;
    @Unit Acted Last (Text): JobTimeoutRebootArgument RebootArgument;

    @Install Acted Keep (Names): Alias WantedBy RequiredBy UpheldBy Also;
    @Install Acted Last (Text): DefaultInstance;

    @Service Acted Last (Word(ServiceType::WORDS)): Type;
    @Service Acted Last (Word(ExitType::WORDS)): ExitType;
    @Service Acted Last (Bool): RemainAfterExit GuessMainPID NonBlocking PermissionsStartOnly;
    @Service Acted Last (Path): PIDFile;
    @Service Acted Last (Text): BusName;
    @Service Acted Append (Command): ExecCondition ExecStartPre ExecStart ExecStartPost ExecReload
        ExecStop ExecStopPost;
    @Service Acted Last (Span): RestartSec TimeoutStartSec TimeoutStopSec TimeoutAbortSec TimeoutSec
        RuntimeMaxSec WatchdogSec RestartMaxDelaySec;
    @Service Acted Last (Span): RuntimeRandomizedExtraSec;
    @Service Acted Last (COUNT): RestartSteps;
    @Service Acted Last (Word(RestartMode::WORDS)): RestartMode;
    @Service Acted Last (Word(TimeoutFailureMode::WORDS)): TimeoutStartFailureMode
        TimeoutStopFailureMode;
    @Service Acted Last (Word(Restart::WORDS)): Restart;
    @Service Acted Append (ExitStatus): SuccessExitStatus RestartPreventExitStatus
        RestartForceExitStatus;
    @Service Acted Last (Word(NotifyAccess::WORDS)): NotifyAccess;
    @Service Acted Keep (Names): Sockets;
    @Service Acted Last (COUNT): FileDescriptorStoreMax;
    @Service Acted Last (Word(OomPolicy::WORDS)): OOMPolicy;
    @Service Acted Last (Signal): ReloadSignal;
    @Service Acted Last (Bool): RootDirectoryStartOnly;
    @Service Acted Last (BoolOr(Preserve::WORDS)): FileDescriptorStorePreserve;
    @Service Parsed Last (Path): USBFunctionDescriptors USBFunctionStrings;
    @Service Acted Append (OpenFile): OpenFile;
    @Service Obsolete Last (Raw): SysVStartPriority;

    @Socket Acted Append (Listen(ListenKind::Stream)): ListenStream;
    @Socket Acted Append (Listen(ListenKind::Datagram)): ListenDatagram;
    @Socket Acted Append (Listen(ListenKind::SequentialPacket)): ListenSequentialPacket;
    @Socket Acted Append (Listen(ListenKind::Fifo)): ListenFIFO;
    @Socket Acted Append (Listen(ListenKind::Special)): ListenSpecial;
    @Socket Acted Append (Listen(ListenKind::Netlink)): ListenNetlink;
    @Socket Acted Append (Listen(ListenKind::MessageQueue)): ListenMessageQueue;
    @Socket Parsed Append (Listen(ListenKind::UsbFunction)): ListenUSBFunction;
    @Socket Acted Last (Word(SocketProtocol::WORDS)): SocketProtocol;
    @Socket Acted Last (BoolOr(BindIpv6Only::WORDS)): BindIPv6Only;
    @Socket Acted Last (COUNT): Backlog MaxConnections MaxConnectionsPerSource KeepAliveProbes
        TriggerLimitBurst;
    @Socket Acted Last (COUNT): PollLimitBurst;
    @Socket Acted Last (Text): BindToDevice TCPCongestion;
    @Socket Sandbox Last (Text): SmackLabel SmackLabelIPIn SmackLabelIPOut;
    @Socket Sandbox Last (Bool): SELinuxContextFromNet;
    @Socket Acted Last (Text): SocketUser SocketGroup FileDescriptorName;
    @Socket Acted Last (Mode): SocketMode DirectoryMode;
    @Socket Acted Last (Bool): Accept FlushPending KeepAlive NoDelay ReusePort FreeBind
        Transparent Broadcast PassCredentials PassSecurity RemoveOnStop Writable PassPacketInfo
        AcceptFileDescriptors PassPIDFD PassFileDescriptorsToExec;
    @Socket Parsed Last (BoolOr(&["patient"])): DeferTrigger;
    @Socket Parsed Last (Span): DeferTriggerMaxSec;
    @Socket Acted Last (Span): KeepAliveTimeSec KeepAliveIntervalSec DeferAcceptSec TimeoutSec
        TriggerLimitIntervalSec PollLimitIntervalSec;
    @Socket Acted Last (Number(i32::MIN as i64, i32::MAX as i64)): Priority;
    @Socket Acted Last (COUNT): Mark;
    @Socket Acted Last (Bytes): ReceiveBuffer SendBuffer PipeSize;
    @Socket Acted Last (SIZE): MessageQueueMaxMessages MessageQueueMessageSize;
    @Socket Acted Last (Number(0, 255)): IPTTL;
    @Socket Acted Last (Raw): IPTOS;
    @Socket Acted Last (Word(&["off", "us", "usec", "µs", "μs", "ns", "nsec"])): Timestamping;
    @Socket Acted Append (Raw): XAttrEntryPoint XAttrListen XAttrAccept;
    @Socket Acted Append (Command): ExecStartPre ExecStartPost ExecStopPre ExecStopPost;
    @Socket Acted Last (Names): Service;
    @Socket Acted Append (Words): Symlinks;

    @Mount Acted Last (Text): What Type Options;
    @Mount Acted Last (Path): Where;
    @Mount Acted Last (Span): TimeoutSec;
    @Mount Acted Last (Mode): DirectoryMode;
    @Mount Acted Last (Bool): SloppyOptions LazyUnmount ForceUnmount ReadWriteOnly;

    @Automount Acted Last (Path): Where;
    @Automount Acted Last (Text): ExtraOptions;
    @Automount Acted Last (Mode): DirectoryMode;
    @Automount Acted Last (Span): TimeoutIdleSec;

    @Swap Acted Last (Path): What;
    @Swap Acted Last (Number(-1, 32767)): Priority;
    @Swap Acted Last (Text): Options;
    @Swap Acted Last (Span): TimeoutSec;

    @Timer Acted Append (Span): OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec
        OnUnitInactiveSec;
    @Timer Acted Append (Calendar): OnCalendar;
    @Timer Acted Last (Span): AccuracySec RandomizedDelaySec RandomizedOffsetSec;
    @Timer Acted Last (Bool): FixedRandomDelay DeferReactivation OnClockChange OnTimezoneChange
        Persistent WakeSystem RemainAfterElapse;
    @Timer Acted Last (Names): Unit;

    @Path Acted Append (Path): PathExists PathExistsGlob PathChanged PathModified
        DirectoryNotEmpty;
    @Path Acted Last (Names): Unit;
    @Path Acted Last (Bool): MakeDirectory;
    @Path Acted Last (Mode): DirectoryMode;
    @Path Acted Last (Span): TriggerLimitIntervalSec;
    @Path Acted Last (COUNT): TriggerLimitBurst;

    @Slice Acted Last (CountOrInfinity): ConcurrencyHardMax ConcurrencySoftMax;

    @Scope Acted Last (Word(OomPolicy::WORDS)): OOMPolicy;
    @Scope Acted Last (Span): RuntimeMaxSec RuntimeRandomizedExtraSec TimeoutStopSec;

    @Kill Acted Last (Word(KillMode::WORDS)): KillMode;
    @Kill Acted Last (Signal): KillSignal RestartKillSignal FinalKillSignal WatchdogSignal;
    @Kill Acted Last (Bool): SendSIGHUP SendSIGKILL;

    @Exec Acted Last (Text): User Group;
    @Exec Acted Last (Text): SyslogIdentifier;
    @Exec Acted Append (Words): SupplementaryGroups PassEnvironment UnsetEnvironment;
    @Exec Acted Append (Environment): Environment;
    @Exec Acted Append (Text): EnvironmentFile;
    @Exec Acted Append (Text): StandardInputText StandardInputData;
    @Exec Acted Last (Text): WorkingDirectory StandardInput StandardOutput StandardError;
    @Exec Acted Last (Path): RootDirectory TTYPath;
    @Exec Acted Append (Words): ExecSearchPath RuntimeDirectory StateDirectory CacheDirectory
        LogsDirectory ConfigurationDirectory;
    @Exec Acted Last (Mode): RuntimeDirectoryMode StateDirectoryMode CacheDirectoryMode
        LogsDirectoryMode ConfigurationDirectoryMode UMask;
    @Exec Acted Last (BoolOr(Preserve::WORDS)): RuntimeDirectoryPreserve;
    @Exec Acted Last (Number(-20, 19)): Nice;
    @Exec Acted Last (Number(-1000, 1000)): OOMScoreAdjust;
    @Exec Acted Last (Bool): IgnoreSIGPIPE CPUSchedulingResetOnFork NoNewPrivileges;
    @Exec Acted Last (Word(CpuSchedulingPolicy::WORDS)): CPUSchedulingPolicy;
    @Exec Acted Last (Number(0, 99)): CPUSchedulingPriority;
    @Exec Acted Last (Word(&["0", "none", "1", "realtime", "2", "best-effort", "3", "idle"])):
        IOSchedulingClass;
    @Exec Acted Last (Number(0, 7)): IOSchedulingPriority;
    @Exec Acted Append (Capabilities): CapabilityBoundingSet AmbientCapabilities;
    @Exec Acted Append (Indexes): CPUAffinity;
    @Exec Acted Last (Word(Personality::WORDS)): Personality;
    @Exec Acted Last (Raw): LogLevelMax SyslogFacility SyslogLevel;
    @Exec Acted Last (Word(KeyringMode::WORDS)): KeyringMode;
    @Exec Acted Last (Word(NumaPolicy::WORDS)): NUMAPolicy;
    @Exec Acted Append (Raw): NUMAMask;
    @Exec Acted Append (Words): CoredumpFilter;
    @Exec Acted Last (Raw): TimerSlackNSec;
    @Exec Acted Append (Words): SecureBits;
    @Exec Acted Last (Bool): SyslogLevelPrefix;
    @Exec Acted Last (Bool): TTYReset TTYVHangup TTYVTDisallocate;
    @Exec Acted Last (Number(0, 65535)): TTYRows TTYColumns;
    @Exec Acted Last (COUNT): LogRateLimitBurst;
    @Exec Acted Last (Span): LogRateLimitIntervalSec TimeoutCleanSec;
    @Exec Acted Append (Words): LogExtraFields;
    @Exec Acted Append (Raw): LogFilterPatterns;
    @Exec Acted Last (Text): LogNamespace;
    @Exec Acted Last (Text): PAMName UtmpIdentifier;
    @Exec Acted Last (Word(UtmpMode::WORDS)): UtmpMode;
    @Exec Applied Append (Raw): LoadCredential LoadCredentialEncrypted SetCredential SetCredentialEncrypted
        ImportCredential;
    @Exec Acted Last (Bool): SetLoginEnvironment;
    @Exec Acted Last (Bool): MemoryKSM;
    @Exec Sandbox Last (Raw): MountImagePolicy RootImagePolicy ExtensionImagePolicy;
    @Exec Acted Last (Bool): DynamicUser RemoveIPC;
    @Exec Sandbox Last (Bool): BindLogSockets;
    @Exec Applied Last (Bool): ProtectClock PrivateNetwork PrivateIPC PrivatePIDs PrivateDevices LockPersonality MemoryDenyWriteExecute
        RestrictRealtime RestrictSUIDSGID ProtectKernelTunables ProtectKernelModules ProtectKernelLogs
        PrivateMounts MountAPIVFS RootEphemeral;
    @Exec Applied Last (BoolOr(&["disconnected"])): PrivateTmp;
    @Exec Applied Last (BoolOr(&["self", "identity", "full"])): PrivateUsers;
    @Exec Applied Last (BoolOr(&["private", "strict"])): ProtectControlGroups;
    @Exec Applied Last (Raw): ProtectHostname;
    @Exec Applied Append (Raw): RestrictNamespaces RestrictFileSystems;
    @Exec Applied Last (BoolOr(&["full", "strict"])): ProtectSystem;
    @Exec Applied Last (BoolOr(&["read-only", "tmpfs"])): ProtectHome;
    @Exec Applied Last (Word(&["noaccess", "invisible", "ptraceable", "default"])): ProtectProc;
    @Exec Applied Last (Word(&["all", "pid"])): ProcSubset;
    @Exec Sandbox Last (Raw): RootHash RootHashSignature RootVerity UserNamespacePath;
    @Exec Applied Last (Raw): RootImage;
    @Exec Applied Append (Raw): RootImageOptions MountImages ExtensionImages ExtensionDirectories;
    @Exec Acted Last (Text): SELinuxContext AppArmorProfile SmackProcessLabel;
    @Exec Applied Last (Raw): NetworkNamespacePath IPCNamespacePath;
    @Exec Applied Last (Raw): SystemCallErrorNumber MountFlags;
    @Exec Applied Append (Raw): BindPaths BindReadOnlyPaths ReadWritePaths ReadOnlyPaths
        InaccessiblePaths ExecPaths NoExecPaths TemporaryFileSystem;
    @Exec Applied Append (Raw): RestrictAddressFamilies SystemCallFilter SystemCallArchitectures
        SystemCallLog;

    @Cgroup Acted Last (Names): Slice;
    @Cgroup Acted Last (Raw): Delegate;
    @Cgroup Acted Last (Text): DelegateSubgroup;
    @Cgroup Acted Append (Words): DisableControllers;
    @Cgroup Acted Last (Bool): CPUAccounting MemoryAccounting TasksAccounting IOAccounting IPAccounting
        MemoryZSwapWriteback CoredumpReceive;
    @Cgroup Acted Last (CpuWeight): CPUWeight;
    @Cgroup Acted Last (CpuWeight): StartupCPUWeight;
    @Cgroup Acted Last (Percent): CPUQuota;
    @Cgroup Acted Last (Span): CPUQuotaPeriodSec;
    @Cgroup Acted Append (Indexes): AllowedCPUs AllowedMemoryNodes;
    @Cgroup Acted Append (Indexes): StartupAllowedCPUs StartupAllowedMemoryNodes;
    @Cgroup Acted Last (Memory): MemoryMin MemoryLow MemoryHigh MemoryMax MemoryLimit MemorySwapMax
        MemoryZSwapMax;
    @Cgroup Acted Last (Memory): StartupMemoryLow StartupMemoryHigh StartupMemoryMax
        StartupMemorySwapMax StartupMemoryZSwapMax;
    @Cgroup Acted Last (Memory): DefaultMemoryMin DefaultMemoryLow DefaultStartupMemoryLow;
    @Cgroup Acted Last (Tasks): TasksMax;
    @Cgroup Acted Last (WEIGHT): IOWeight;
    @Cgroup Acted Last (WEIGHT): StartupIOWeight;
    @Cgroup Acted Append (Raw): IODeviceWeight IOReadBandwidthMax IOWriteBandwidthMax
        IOReadIOPSMax IOWriteIOPSMax IODeviceLatencyTargetSec;
    @Cgroup Acted Append (Words): IPAddressAllow IPAddressDeny;
    @Cgroup Acted Append (Raw): DeviceAllow;
    @Cgroup Acted Append (Raw): SocketBindAllow SocketBindDeny RestrictNetworkInterfaces;
    @Cgroup Acted Append (Raw): IPIngressFilterPath IPEgressFilterPath BPFProgram;
    @Cgroup Acted Append (Words): NFTSet;
    @Cgroup Acted Last (Word(DevicePolicy::WORDS)): DevicePolicy;
    @Cgroup Acted Last (Word(ManagedOom::WORDS)): ManagedOOMSwap ManagedOOMMemoryPressure;
    @Cgroup Acted Last (Percent): ManagedOOMMemoryPressureLimit;
    @Cgroup Acted Last (Span): ManagedOOMMemoryPressureDurationSec;
    @Cgroup Acted Last (Span): MemoryPressureThresholdSec;
    @Cgroup Acted Last (Word(ManagedOomPreference::WORDS)): ManagedOOMPreference;
    @Cgroup Acted Last (BoolOr(PressureWatch::WORDS)): MemoryPressureWatch;
    @Cgroup Obsolete Last (Bool): BlockIOAccounting;
    @Cgroup Obsolete Last (Raw): CPUShares StartupCPUShares BlockIOWeight
        StartupBlockIOWeight;
    @Cgroup Obsolete Append (Raw): BlockIODeviceWeight BlockIOReadBandwidth BlockIOWriteBandwidth;

    @Manager Acted Last (Span): DefaultTimeoutStartSec DefaultTimeoutStopSec DefaultTimeoutAbortSec
        DefaultRestartSec DefaultDeviceTimeoutSec DefaultStartLimitIntervalSec
        DefaultTimerAccuracySec;
    @Manager Acted Last (COUNT): DefaultStartLimitBurst;
    @Manager Acted Append (Environment): DefaultEnvironment;
    @Manager Acted Last (Bool): DefaultCPUAccounting DefaultMemoryAccounting DefaultTasksAccounting
        DefaultIOAccounting DefaultIPAccounting;
    @Manager Acted Last (Tasks): DefaultTasksMax;
    @Manager Acted Last (Word(OomPolicy::WORDS)): DefaultOOMPolicy;
    @Manager Acted Last (Word(EmergencyAction::WORDS)): CtrlAltDelBurstAction;
    @Manager Acted Last (Word(&["warn", "refuse"])): MissingProtection;
    @Manager Acted Last (Number(-1000, 1000)): DefaultOOMScoreAdjust;
    @Manager Acted Last (Text): DefaultStandardOutput DefaultStandardError;
    @Manager Acted Append (Capabilities): CapabilityBoundingSet;
    @Manager Acted Append (Indexes): CPUAffinity;
    @Manager Acted Last (Word(NumaPolicy::WORDS)): NUMAPolicy;
    @Manager Acted Append (Raw): NUMAMask;
    @Manager Acted Last (Raw): TimerSlackNSec LogLevel;
    @Manager Acted Last (Text): DefaultSmackProcessLabel LogTarget;
    @Manager Acted Append (Environment): ManagerEnvironment;
    @Manager Acted Last (Bool): NoNewPrivileges;
    @Manager Acted Append (Raw): SystemCallArchitectures;
    @Manager Acted Last (Raw): KExecWatchdogSec RebootWatchdogSec RuntimeWatchdogPreSec RuntimeWatchdogSec;
    @Manager Acted Last (Text): RuntimeWatchdogPreGovernor;
    @Manager Acted Last (Path): WatchdogDevice;
    @Manager Acted Last (BoolOr(&["error", "auto"])): ShowStatus;
    @Manager Acted Last (Word(StatusUnitFormat::WORDS)): StatusUnitFormat;
    @Manager Acted Last (Bool): LogColor LogLocation LogTime;
    @Manager Acted Last (Bool): CrashReboot CrashShell DumpCore;
    @Manager Acted Last (Raw): CrashChangeVT;
    @Manager Acted Last (Word(CrashAction::WORDS)): CrashAction;

    @Warren Acted Last (Word(StopPolicy::WORDS)): StopPolicy;
    @Warren Acted Last (Word(StopBudget::WORDS)): StopBudget;
    @Warren Acted Last (Word(GivenUp::WORDS)): Maintenance;
    @Warren Acted Keep (Units(Relation::RequireAny)): RequireAny;
    @Warren Acted Keep (Units(Relation::OptionalAll)): OptionalAll;
    @Warren Acted Keep (Units(Relation::ExcludeAll)): ExcludeAll;
    @Warren Acted Keep (RestartOn): RestartOn;
    @Warren Acted Last (Text): LogClass Controller;

    conditions: Architecture Architecture Firmware Firmware Virtualization Virtualization Host Host
        KernelCommandLine KernelCommandLine KernelVersion KernelVersion Credential Credential
        Environment Environment Security Security Capability Capability AcPower ACPower
        NeedsUpdate NeedsUpdate FirstBoot FirstBoot PathExists PathExists
        PathExistsGlob PathExistsGlob PathIsDirectory PathIsDirectory
        PathIsSymbolicLink PathIsSymbolicLink PathIsMountPoint PathIsMountPoint
        PathIsReadWrite PathIsReadWrite PathIsEncrypted PathIsEncrypted
        DirectoryNotEmpty DirectoryNotEmpty FileNotEmpty FileNotEmpty
        FileIsExecutable FileIsExecutable User User Group Group
        ControlGroupController ControlGroupController Memory Memory Cpus CPUs
        CpuFeature CPUFeature OsRelease OSRelease MemoryPressure MemoryPressure
        CpuPressure CPUPressure IoPressure IOPressure;
    limits: Cpu CPU Fsize FSIZE Data DATA Stack STACK Core CORE Rss RSS Nofile NOFILE As AS
        Nproc NPROC Memlock MEMLOCK Locks LOCKS Sigpending SIGPENDING Msgqueue MSGQUEUE Nice NICE
        Rtprio RTPRIO Rttime RTTIME;
}

macro_rules! aliases {
    ($( $group:ident $name:ident => $to:ident $of:ident; )*) => {
        /// Old names that still work, and settings that moved to another section.
        pub const ALIASES: &[Alias] = &[$( Alias {
            group: Group::$group,
            name: stringify!($name),
            of: (Group::$to, stringify!($of)),
        }, )*];
    };
}

aliases! {
    Unit StartLimitInterval => Unit StartLimitIntervalSec;
    Unit BindTo => Unit BindsTo;
    Unit PropagateReloadTo => Unit PropagatesReloadTo;
    Unit PropagateReloadFrom => Unit ReloadPropagatedFrom;
    Unit RequiresOverridable => Unit Requires;
    Unit RequisiteOverridable => Unit Requisite;
    Service StartLimitInterval => Unit StartLimitIntervalSec;
    Service StartLimitIntervalSec => Unit StartLimitIntervalSec;
    Service StartLimitBurst => Unit StartLimitBurst;
    Service StartLimitAction => Unit StartLimitAction;
    Service FailureAction => Unit FailureAction;
    Service SuccessAction => Unit SuccessAction;
    Service RebootArgument => Unit RebootArgument;
    Exec ReadWriteDirectories => Exec ReadWritePaths;
    Exec ReadOnlyDirectories => Exec ReadOnlyPaths;
    Exec InaccessibleDirectories => Exec InaccessiblePaths;
}
