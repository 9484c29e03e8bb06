use super::*;
use crate::config::*;
use crate::context::Scope;
use crate::parse::parse;
use std::sync::Arc;
use std::time::Duration;
use warren_sandbox::bpf::pinned::Pinned;

/// Compiles a unit from the text of its fragment and of drop-ins, and hands it to `f`.
fn with<T>(name: &str, texts: &[&str], f: impl Fn(&Compiler<'_>) -> T) -> T {
    let name = UnitName::parse(name).expect("a valid name");
    let files: Vec<_> = texts
        .iter()
        .map(|text| Arc::new(parse("f".into(), text.as_bytes(), name.unit_type()).0))
        .collect();
    let (fragment, dropins) = files.split_first().expect("at least one text");
    let sources = Sources { fragment: Some(fragment), dropins, ..Sources::default() };
    let (context, defaults) = (Context::system(), Defaults::default());
    f(&Compiler { name: &name, sources: &sources, context: &context, defaults: &defaults })
}

fn service(lines: &str) -> (ServiceConfig, Vec<String>) {
    let text = format!("[Service]\nExecStart=/bin/x\n{lines}");
    let (config, diagnostics) = with("a.service", &[&text], |c| c.service());
    (config, diagnostics.iter().map(Diagnostic::to_string).collect())
}

/// Compares one field of a service, shown, with what it should be; there must be no diagnostic.
#[track_caller]
fn check<T: std::fmt::Debug>(lines: &str, field: fn(ServiceConfig) -> T, want: &str) {
    let (config, diagnostics) = service(lines);
    assert_eq!(diagnostics, Vec::<String>::new(), "{lines}");
    assert_eq!(format!("{:?}", field(config)), want, "{lines}");
}

#[test]
fn defaults_are_the_manual_s() {
    check("", |s| s.service_type, "Simple");
    check("BusName=a.b", |s| s.service_type, "Dbus");
    check("", |s| (s.timeout_start, s.timeout_stop), "(Some(90s), Some(90s))");
    check("Type=oneshot", |s| s.timeout_start, "None");
    check("Type=oneshot\nTimeoutStartSec=3", |s| s.timeout_start, "Some(3s)");
    check("Type=notify", |s| s.notify_access, "Main");
    let store = |lines: &str| service(lines).0.notify_access;
    assert_eq!(store("FileDescriptorStoreMax=1\nFileDescriptorStoreMax=x"), NotifyAccess::Main);
    assert_eq!(store("FileDescriptorStoreMax=1\nFileDescriptorStoreMax=0"), NotifyAccess::None);
    assert_eq!(store("FileDescriptorStoreMax=x"), NotifyAccess::None);
    check("", |s| s.exec.standard_output, "Journal");
    let by_default = "Some(Scale { numerator: 15, denominator: 100 })";
    check("TasksMax=7\nTasksMax=", |s| s.cgroup.tasks_max, by_default);
    check("TasksMax=infinity", |s| s.cgroup.tasks_max, "Some(Infinity)");
    check("StandardInput=socket", |s| s.exec.standard_output, "Inherit");
    check("Delegate=yes", |s| s.oom_policy, "Continue");
    check("", |s| s.restart_delay, "100ms");
}

/// Unlike that of other timeouts it is a time: systemd 252 shows 0.
#[test]
fn no_time_for_an_abort_is_no_time() {
    check("TimeoutAbortSec=0", |s| s.timeout_abort, "Some(0ns)");
    check("TimeoutAbortSec=infinity", |s| s.timeout_abort, "None");
    check("TimeoutStopSec=0", |s| (s.timeout_stop, s.timeout_abort), "(None, None)");
    check("TimeoutAbortSec=5\nTimeoutAbortSec=", |s| s.timeout_abort, "Some(90s)");
}

/// What systemd 252 shows and applies for each.
#[test]
fn scheduling_depends_on_what_was_assigned_before() {
    let cpu = |lines: &str, want: &str| {
        let lines =
            lines.replace("P=", "CPUSchedulingPolicy=").replace("N=", "CPUSchedulingPriority=");
        let field = |s: ServiceConfig| {
            (s.exec.cpu_scheduling_policy, s.exec.cpu_scheduling_priority.unwrap_or(0))
        };
        check(&lines, field, want);
    };
    cpu("P=rr\nN=50\nP=batch", "(Some(Batch), 0)");
    cpu("P=rr\nN=50\nP=batch\nP=rr", "(Some(Rr), 1)");
    cpu("P=rr\nN=50\nP=", "(None, 0)");
    cpu("P=rr\nN=50\nP=\nP=fifo", "(Some(Fifo), 1)");
    cpu("P=fifo", "(Some(Fifo), 1)");
    cpu("N=50\nP=rr", "(Some(Rr), 50)");
    cpu("P=batch\nN=50", "(Some(Batch), 50)");
    let io = |lines: &str, want: &str| {
        let lines =
            lines.replace("C=", "IOSchedulingClass=").replace("N=", "IOSchedulingPriority=");
        check(&lines, |s| (s.exec.io_scheduling_class, s.exec.io_scheduling_priority), want);
    };
    io("C=none", "(Some(BestEffort), None)");
    io("C=0\nN=2", "(Some(BestEffort), Some(2))");
    io("C=realtime\nN=0\nC=none", "(Some(BestEffort), None)");
    io("C=realtime\nN=0\nC=", "(None, None)");
    io("C=realtime\nN=0\nN=", "(None, None)");
    io("C=realtime\nN=0\nN=\nC=idle", "(Some(Idle), None)");
    io("N=7\nC=idle", "(Some(Idle), Some(7))");
}

/// Also of one that is written to be infinite; 252 shows it so.
#[test]
fn the_time_of_a_job_bounds_the_time_that_it_runs() {
    let check = |lines: &str, want: &str| {
        let text = format!("[Unit]\n{lines}\n[Service]\nExecStart=/x\n");
        let (section, _) = with("a.service", &[&text], |c| c.unit());
        assert_eq!(format!("{:?}", section.job_running_timeout), want, "{lines}");
    };
    check("", "None");
    check("JobTimeoutSec=30", "Some(30s)");
    check("JobTimeoutSec=30\nJobRunningTimeoutSec=10", "Some(10s)");
    check("JobTimeoutSec=30\nJobRunningTimeoutSec=50", "Some(50s)");
    check("JobTimeoutSec=30\nJobRunningTimeoutSec=infinity", "None");
}

/// What systemd 262 says in RestartUSecNext of a service that fails again and again.
#[test]
fn restarts_come_later_and_later() {
    let delays = |lines: &str| -> Vec<u128> {
        let (config, _) = service(lines);
        (0..6).map(|n| config.restart_delay_after(n).as_micros()).collect()
    };
    let same = |us| vec![us; 6];
    assert_eq!(
        delays("RestartSec=100ms\nRestartMaxDelaySec=900ms\nRestartSteps=2"),
        [100_000, 300_000, 900_000, 900_000, 900_000, 900_000]
    );
    assert_eq!(
        delays("RestartSec=100ms\nRestartMaxDelaySec=3s\nRestartSteps=3")[..2],
        [100_000, 310_723]
    );
    assert_eq!(delays("RestartSec=0\nRestartMaxDelaySec=900ms\nRestartSteps=2"), same(0));
    assert_eq!(delays("RestartSec=900ms\nRestartMaxDelaySec=100ms\nRestartSteps=3"), same(900_000));
    assert_eq!(
        delays("RestartSec=200ms\nRestartMaxDelaySec=infinity\nRestartSteps=3"),
        same(200_000)
    );
    assert_eq!(delays("RestartSec=200ms\nRestartMaxDelaySec=1s"), same(200_000));
    assert_eq!(delays("RestartSec=200ms\nRestartSteps=3"), same(200_000));
}

#[test]
fn logging() {
    let limits = |s: ServiceConfig| (s.exec.log_rate_limit_interval, s.exec.log_rate_limit_burst);
    let patterns = |s: ServiceConfig| s.exec.log_filter_patterns;
    let extra = |s: ServiceConfig| s.exec.log_extra_fields;
    assert_eq!(limits(service("").0), (None, None));
    assert_eq!(
        limits(service("LogRateLimitIntervalSec=0\nLogRateLimitBurst=7").0),
        (Some(Duration::ZERO), Some(7))
    );
    assert_eq!(limits(service("LogRateLimitIntervalSec=infinity").0), (Some(Duration::MAX), None));
    let lines =
        "LogFilterPatterns=old\nLogFilterPatterns=\nLogFilterPatterns=a\\d\nLogFilterPatterns=~ %b";
    assert_eq!(patterns(service(lines).0), ["a\\d".into(), "~ %b".into()] as [Box<str>; 2]);
    let lines = "LogExtraFields=UNIT_NAME=%n \"B=two words\"\nLogExtraFields=C=";
    let want: [Box<str>; 3] = ["UNIT_NAME=a.service".into(), "B=two words".into(), "C=".into()];
    assert_eq!(extra(service(lines).0), want);
    for bad in ["A", "_A=1", "a=1", "=1", "9=1"] {
        let (config, said) = service(&format!("LogExtraFields={bad}"));
        assert!(config.exec.log_extra_fields.is_empty(), "{bad}");
        assert!(said.iter().any(|line| line.contains("is not FIELD=value")), "{bad}: {said:?}");
    }
}

#[test]
fn timeouts() {
    check(
        "TimeoutSec=5\nTimeoutStopSec=7",
        |s| (s.timeout_start, s.timeout_stop),
        "(Some(5s), Some(7s))",
    );
    check("TimeoutStopSec=7\nTimeoutSec=5", |s| s.timeout_stop, "Some(5s)");
    check("TimeoutStopSec=infinity", |s| (s.timeout_stop, s.timeout_abort), "(None, None)");
    check("TimeoutStartSec=0", |s| s.timeout_start, "None");
    check("WatchdogSec=0", |s| s.watchdog, "None");
    check("TimeoutAbortSec=1min 2s", |s| s.timeout_abort, "Some(62s)");
}

#[test]
fn a_wrong_timeout_is_told_once() {
    let of = |lines: &str| {
        let (config, diagnostics) = service(lines);
        (config.timeout_start.map(|t| t.as_secs()), diagnostics.len())
    };
    assert_eq!(of("TimeoutSec=10 minuts"), (Some(90), 1));
    assert_eq!(of("TimeoutSec=5\nTimeoutStartSec=10 minuts"), (Some(5), 1));
    assert_eq!(of("TimeoutSec=10 minuts\nTimeoutStartSec=5"), (Some(5), 1));
    assert_eq!(of("TimeoutStartSec=10 minuts\nTimeoutSec=5"), (Some(5), 1));
}

#[test]
fn lists_append_and_reset() {
    check(
        "SupplementaryGroups=a b\nSupplementaryGroups=c",
        |s| s.exec.supplementary_groups.join(","),
        "\"a,b,c\"",
    );
    check(
        "SupplementaryGroups=a\nSupplementaryGroups=",
        |s| s.exec.supplementary_groups.len(),
        "0",
    );
    check(
        "Environment=A=1 \"B=x y\"\nEnvironment=A=%n",
        |s| {
            s.exec.environment.iter().map(|v| format!("{}={}", v.name, v.value)).collect::<Vec<_>>()
        },
        r#"["A=a.service", "B=x y"]"#,
    );
    check("UMask=0077\nNice=5\nNice=", |s| (s.exec.umask, s.exec.nice), "(63, None)");
    check(
        "CapabilityBoundingSet=CAP_CHOWN\nCapabilityBoundingSet=CAP_KILL",
        |s| s.exec.capability_bounding_set.0,
        "33",
    );
    check("CapabilityBoundingSet=~CAP_CHOWN", |s| s.exec.capability_bounding_set.0 & 3, "2");
    check("CapabilityBoundingSet=", |s| s.exec.capability_bounding_set.0, "0");
    check(
        "CapabilityBoundingSet=~\nCapabilityBoundingSet=CAP_CHOWN",
        |s| s.exec.capability_bounding_set.0,
        "1",
    );
    let bounding = |lines: &str, want: &str| {
        check(lines, |s| format!("{:x}", s.exec.capability_bounding_set.0 & 0xff), want);
    };
    bounding("CapabilityBoundingSet=CAP_KILL\nCapabilityBoundingSet=~", "\"ff\"");
    bounding("CapabilityBoundingSet=~CAP_KILL\nCapabilityBoundingSet=CAP_CHOWN", "\"df\"");
    bounding("CapabilityBoundingSet=\nCapabilityBoundingSet=~CAP_CHOWN", "\"0\"");
    let (config, said) = service("CapabilityBoundingSet=CAP_KILL\nCapabilityBoundingSet=CAP_FOO");
    assert_eq!((config.exec.capability_bounding_set.0, said.len()), (0, 1));
    let ambient = |lines: &str, want: &str| {
        check(lines, |s| format!("{:x}", s.exec.ambient_capabilities.0 & 0xff), want);
    };
    ambient("AmbientCapabilities=~CAP_KILL", "\"df\"");
    ambient("AmbientCapabilities=~\nAmbientCapabilities=CAP_CHOWN", "\"ff\"");
    ambient("AmbientCapabilities=CAP_KILL\nAmbientCapabilities=~", "\"ff\"");
    ambient("AmbientCapabilities=CAP_KILL\nAmbientCapabilities=~CAP_CHOWN", "\"20\"");
    ambient("AmbientCapabilities=\nAmbientCapabilities=~CAP_CHOWN", "\"fe\"");
    ambient("AmbientCapabilities=CAP_KILL\nAmbientCapabilities=", "\"0\"");
    check("Delegate=cpu\nDelegate=memory", |s| s.cgroup.delegate, "Controllers([Cpu, Memory])");
    check(
        "AllowedCPUs=0-1\nAllowedCPUs=3",
        |s| s.cgroup.allowed_cpus.map(|c| c.to_string()),
        "Some(\"0-1,3\")",
    );
}

/// Compared with systemd 252.
#[test]
fn limits_that_leave_no_memory_are_refused() {
    let text = "[Service]\nMemoryMax=1G\nMemoryMax=0\nMemoryHigh=0%\nMemoryLimit=0\nMemoryLow=0\n";
    let (service, faults) = with("a.service", &[text], |c| c.service());
    let c = service.cgroup;
    let got =
        format!("{:?} {:?} {:?} {:?}", c.memory_max, c.memory_high, c.memory_limit, c.memory_low);
    assert_eq!(got, "Some(Bytes(1073741824)) None None Some(Bytes(0))");
    let mut lines: Vec<u32> = faults.iter().map(|fault| fault.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [3, 4, 5]);
}

#[test]
fn execution() {
    check(
        "WorkingDirectory=-/srv//x/",
        |s| (s.exec.working_directory, s.exec.working_directory_optional),
        "(Some(Path(\"/srv/x\")), true)",
    );
    check("WorkingDirectory=~", |s| s.exec.working_directory, "Some(Home)");
    check("StandardOutput=append:/x", |s| s.exec.standard_output, "Append(\"/x\")");
    check(
        "StandardInputText=a\\nb\nStandardInputData=aGk=",
        |s| (s.exec.standard_input, s.exec.standard_input_data),
        "(Data, [97, 10, 98, 10, 104, 105])",
    );
    check(
        "StateDirectory=b/c:d a b/c:e a",
        |s| {
            let paths = s.exec.state_directory.paths;
            paths
                .iter()
                .map(|one| format!("{}{:?}", one.path, one.symlinks))
                .collect::<Vec<_>>()
                .join(" ")
        },
        r#""a[] b/c[\"d\", \"e\"]""#,
    );
    check(
        "LimitNOFILE=10:20",
        |s| s.exec.rlimits.get(Resource::Nofile),
        "Some(Rlimit { soft: 10, hard: 20 })",
    );
    check(
        "LogLevelMax=debug\nSyslogLevel=4",
        |s| (s.exec.log_level_max, s.exec.syslog_level),
        "(Some(7), 4)",
    );
    check("PIDFile=x.pid", |s| s.pid_file, "Some(\"/run/x.pid\")");
    check(
        "PrivateTmp=yes\nProtectHome=no\nProtectSystem=full",
        |s| s.exec.protections.iter().map(|s| s.setting).collect::<Vec<_>>(),
        r#"["PrivateTmp", "ProtectSystem"]"#,
    );
    check("CPUQuota=150%", |s| s.cgroup.cpu_quota, "Some(1.5s)");
    check(
        "SuccessExitStatus=3 TEMPFAIL SIGKILL",
        |s| s.success_exit_status,
        "ExitStatusSet { codes: [3, 75], signals: [SIGKILL] }",
    );
}

#[test]
fn limits_of_disks_count_by_thousands() {
    let of = |lines: &str| {
        let (config, diagnostics) = service(lines);
        let list = config.cgroup.io_write_iops_max.iter();
        let list = list.map(|d| format!("{} {}", d.path, d.value)).collect::<Vec<_>>();
        (list.join(", "), diagnostics.len())
    };
    let written = |values: &[&str]| {
        of(&values.iter().map(|v| format!("IOWriteIOPSMax={v}\n")).collect::<String>())
    };
    let check = |values: &[&str], expected: &str, faults| {
        assert_eq!(written(values), (expected.to_owned(), faults), "{values:?}");
    };
    check(&["/dev/sda 5M"], "/dev/sda 5000000", 0);
    check(&["/dev/sda 1.5K", "\"dev//sdb\"  7 G"], "/dev/sda 1500, /dev/sdb 7000000000", 0);
    check(&["/dev/sda 1", "/dev/sda infinity"], "/dev/sda 18446744073709551615", 0);
    check(&["/dev/sda", "/dev/sda 0", "/dev/sda 5m", "/dev/../sda 5", "\"/dev/sda 5"], "", 5);
}

#[test]
fn wrong_values_are_ignored_and_reported() {
    let (config, diagnostics) = service(
        "Restart=always\nRestart=\nRestart=foo\nTimeoutStopSec=5 parsecs\nEnvironment=a A=1\n\
         LimitCORE=x\nDelegate=foo\nKillSignal=TERM\nKillSignal=x\nNice=30\nUser=%z\nBusName=a\n",
    );
    assert_eq!(config.restart, Restart::Always);
    assert_eq!(config.timeout_stop, Some(Duration::from_secs(90)));
    let codes: Vec<&str> = diagnostics.iter().filter_map(|d| d.split(' ').next()).collect();
    let want = [
        "f:4:9:", "f:11:12:", "f:6:18:", "f:14:9:", "f:9:10:", "f:5:9:", "f:13:6:", "f:7:13:",
        "f:8:11:", "f:12:6:",
    ];
    let (mut got, mut want) = (codes.clone(), want.to_vec());
    got.sort_unstable();
    want.sort_unstable();
    assert_eq!(got, want, "{diagnostics:#?}");
}

#[test]
fn conditions_reset_together() {
    let text = "[Unit]\nConditionPathExists=/a\nConditionHost=\nConditionPathExists=|!/b\n\
                AssertUser=x\nConditionPathExists=rel\n";
    let (unit, diagnostics) = with("a.target", &[text], |c| c.unit());
    let shown: Vec<String> = unit
        .conditions
        .iter()
        .map(|c| format!("{:?} {} {} {}", c.kind, c.trigger, c.negate, c.parameter))
        .collect();
    assert_eq!(shown, ["PathExists true true /b"]);
    assert_eq!((unit.asserts.len(), diagnostics.len()), (1, 1));
}

/// systemd.socket(5), "XAttrEntryPoint=".
#[test]
fn extended_attributes_of_sockets_are_those_that_users_may_set() {
    let check = |lines: &str, expected: &str, faults: usize| {
        let text = format!("[Socket]\nListenStream=/run/x\n{lines}\n");
        let (socket, diagnostics) = with("a@b.socket", &[&text], |c| c.socket());
        let all = socket.xattr_listen.iter().map(|one| format!("{}={}", one.name, one.value));
        assert_eq!(all.collect::<Vec<_>>().join(" "), expected, "{lines}");
        assert_eq!(diagnostics.len(), faults, "{lines}: {diagnostics:?}");
    };
    check("XAttrListen=user.a=b c\nXAttrListen=user.%i=%n", "user.a=b c user.b=a@b.socket", 0);
    check("XAttrListen=user.a=b=c\nXAttrListen=user.x=", "user.a=b=c user.x=", 0);
    check("XAttrListen=user.a=b\nXAttrListen=\nXAttrListen=user.c=d", "user.c=d", 0);
    for wrong in ["user.a", "user.=b", "trusted.a=b", "security.selinux=x", "=b", "user=b"] {
        check(&format!("XAttrListen={wrong}"), "", 1);
    }
}

/// systemd.resource-control(5).
#[test]
fn what_systemd_oomd_is_to_do_has_bounds() {
    let check = |lines: &str, expected: (Option<u32>, Option<u64>), faults: usize| {
        let text = format!("[Slice]\n{lines}\n");
        let (slice, diagnostics) = with("a.slice", &[&text], |c| c.slice());
        let duration = slice.cgroup.managed_oom_memory_pressure_duration;
        let found = (slice.cgroup.managed_oom_memory_pressure_limit, duration.map(|d| d.as_secs()));
        assert_eq!((found, diagnostics.len()), (expected, faults), "{lines}: {diagnostics:?}");
    };
    check("ManagedOOMMemoryPressureLimit=33.5%", (Some(3350), None), 0);
    check("ManagedOOMMemoryPressureLimit=100%", (Some(10_000), None), 0);
    check("ManagedOOMMemoryPressureLimit=33‰", (Some(330), None), 0);
    check("ManagedOOMMemoryPressureLimit=33‱", (Some(33), None), 0);
    check("ManagedOOMMemoryPressureLimit=7%\nManagedOOMMemoryPressureLimit=", (None, None), 0);
    for wrong in ["101%", "1001‰", "4294967295‰", "33.333%", "5", "-1‱"] {
        check(&format!("ManagedOOMMemoryPressureLimit={wrong}"), (None, None), 1);
    }
    check("ManagedOOMMemoryPressureLimit=half", (None, None), 1);
    check("ManagedOOMMemoryPressureDurationSec=20", (None, Some(20)), 0);
    check(
        "ManagedOOMMemoryPressureDurationSec=20\nManagedOOMMemoryPressureDurationSec=",
        (None, None),
        0,
    );
    check("ManagedOOMMemoryPressureDurationSec=999ms", (None, None), 1);
    check("ManagedOOMMemoryPressureDurationSec=infinity", (None, None), 1);
}

#[test]
fn sockets_mounts_automounts_slices() {
    let text = "[Socket]\nListenStream=/run/x\nListenFIFO=/y\nListenStream=80\nAccept=yes\n\
                BindIPv6Only=both\nIPTOS=low-delay\nBacklog=5\n";
    let (socket, diagnostics) = with("a.socket", &[text], |c| c.socket());
    assert_eq!(diagnostics, []);
    assert_eq!(socket.listen.len(), 3);
    assert_eq!(socket.listen[1].kind, ListenKind::Fifo);
    assert_eq!(socket.service.map(|s| s.to_string()).as_deref(), Some("a@.service"));
    assert_eq!((socket.trigger_limit.burst, socket.backlog, socket.ip_tos), (200, 5, Some(16)));

    let bounds = |value: u32| {
        let settings =
            ["MaxConnectionsPerSource", "MessageQueueMaxMessages", "MessageQueueMessageSize"];
        let text: String = settings.iter().map(|name| format!("{name}={value}\n")).collect();
        let (socket, _) = with("a.socket", &[&format!("[Socket]\n{text}")], |c| c.socket());
        let queue = (socket.message_queue_max_messages, socket.message_queue_message_size);
        (socket.max_connections_per_source, queue)
    };
    assert_eq!([bounds(0), bounds(7)], [(None, (None, None)), (Some(7), (Some(7), Some(7)))]);

    let mount = ["[Mount]\nWhat=tmpfs\nType=tmpfs\nOptions=size=1M\n", "[Mount]\nOptions=ro\n"];
    let (mount, _) = with("srv-x.mount", &mount, |c| c.mount());
    assert_eq!((&*mount.where_, mount.options.as_deref()), ("/srv/x", Some("ro")));

    let automount = ["[Automount]\nWhere=/srv/x\nTimeoutIdleSec=5min\n"];
    let (automount, _) = with("srv-x.automount", &automount, |c| c.automount());
    assert_eq!(automount.timeout_idle, Some(Duration::from_secs(300)));
    let idle = |text: &str| {
        let text = format!("[Automount]\nWhere=/srv/x\nTimeoutIdleSec={text}\n");
        let (automount, _) = with("srv-x.automount", &[&text], |c| c.automount());
        (automount.timeout_idle, automount.idles_for_ever)
    };
    assert_eq!([idle("infinity"), idle("0")], [(None, true), (None, false)]);

    let by_default = Some(TasksLimit::Scale { numerator: 15, denominator: 100 });
    assert_eq!((socket.cgroup.tasks_max, mount.cgroup.tasks_max), (by_default, by_default));
    let (slice, _) = with("a.slice", &["[Slice]\n"], |c| c.slice());
    assert_eq!(slice.cgroup.tasks_max, None);
    let (slice, _) = with("a.slice", &["[Slice]\nMemoryMax=50%\nTasksMax=10\n"], |c| c.slice());
    assert_eq!(slice.cgroup.memory_max, Some(Limit::PerMyriad(5000)));
}

#[test]
fn a_class_of_messages_has_a_name_that_fits_into_a_file_s() {
    let class = |text: &str| {
        let text = format!("[Service]\nExecStart=/bin/x\n[X-Warren]\nLogClass={text}\n");
        with("a.service", &[&text], |c| c.service()).0.exec.log_class
    };
    assert_eq!(class("web_2").as_deref(), Some("web_2"));
    for bad in ["", "Web", "a-b", "a/b", &"a".repeat(33)] {
        assert_eq!(class(bad), None, "{bad}");
    }
}

#[test]
fn names_of_journal_namespaces_are_parts_of_file_names() {
    let namespace = |text: &str| {
        let text = format!("[Service]\nExecStart=/bin/x\nLogNamespace={text}\n");
        with("a.service", &[&text], |c| c.service()).0.exec.log_namespace
    };
    assert_eq!(namespace("a-b_1.c").as_deref(), Some("a-b_1.c"));
    for bad in ["../x", ".x", "a/b", "a b", &"x".repeat(65)] {
        assert_eq!(namespace(bad), None, "{bad}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    let text = "[Service]\nExecStart=/bin/x\nRootVerity=/x\nUSBFunctionStrings=/x\nCPUShares=5\n";
    let all = with("a.service", &[text], |c| c.check());
    let codes: Vec<Code> = all.iter().map(|d| d.code).collect();
    for code in [Code::SandboxNotApplied, Code::NotActedOn, Code::Obsolete] {
        assert!(codes.contains(&code), "{all:#?}");
    }
    assert_eq!(all.len(), 3);
}

#[test]
fn processors_of_a_numa_mask_are_no_list_for_others() {
    let (config, said) = service("CPUAffinity=numa\nCPUAffinity=\"0\" 1\nAllowedCPUs=numa");
    assert!(config.exec.cpu_affinity_of_nodes);
    assert_eq!(config.exec.cpu_affinity.map(|set| set.to_string()).as_deref(), Some("0-1"));
    let want =
        ["f:5:13: warning: AllowedCPUs=: 'numa' is not a number or range, ignored [bad-value]"];
    assert_eq!(said, want);
}

#[test]
fn protection_that_is_not_applied_has_its_effect_on_privileges() {
    let dropped = |lines: &str| !service(lines).0.exec.capability_bounding_set.0;
    let bits = |numbers: &[u32]| numbers.iter().map(|n| 1 << n).sum::<u64>();
    assert_eq!(dropped("PrivateDevices=yes"), bits(&[17, 27]));
    assert_eq!(dropped("ProtectClock=yes\nProtectKernelLogs=yes"), bits(&[25, 34, 35]));
    assert_eq!(
        dropped("CapabilityBoundingSet=~CAP_CHOWN\nProtectKernelModules=yes"),
        bits(&[0, 16])
    );
    assert_eq!(dropped("ProtectKernelModules=no\nProtectSystem=strict"), 0);
    for (lines, implied) in [
        ("SystemCallFilter=@system-service", true),
        ("ProtectHostname=yes", true),
        ("RestrictNamespaces=no", false),
        ("ProtectSystem=strict\nPrivateTmp=yes", false),
    ] {
        let exec = service(lines).0.exec;
        assert_eq!(exec.has_no_new_privileges(false), implied, "{lines}");
        assert!(!exec.has_no_new_privileges(true), "{lines}");
    }
    assert!(service("NoNewPrivileges=yes").0.exec.has_no_new_privileges(true));
}

#[test]
fn what_is_off_protects_nothing_and_is_not_said() {
    let text = "[Service]\nExecStart=/bin/x\nProtectHome=no\nPrivateTmp=false\nRestrictNamespaces=no\n\
                DevicePolicy=auto\nProtectProc=default\nProcSubset=all\nReadOnlyPaths=\nProtectSystem=full\n";
    let dropin = "[Service]\nProtectSystem=no\nRemoveIPC=rubbish\nDynamicUser=yes\n";
    let all = with("a.service", &[text, dropin], |c| c.check());
    let shown: Vec<&str> = all.iter().map(|d| d.message.as_ref()).collect();
    assert_eq!(shown, ["RemoveIPC=: 'rubbish' is neither yes nor no, ignored",]);
}

#[test]
fn what_may_be_bound_and_used_is_read_from_lists() {
    let (config, said) = service(
        "SocketBindAllow=tcp:80\nSocketBindAllow=\nSocketBindAllow=ipv4:udp:1-5\nSocketBindDeny=any\n\
         SocketBindDeny=0\nRestrictNetworkInterfaces=~eth0 lo\nRestrictNetworkInterfaces=lo a/b\n",
    );
    let cgroup = &config.cgroup;
    let shown = |rules: &[warren_sandbox::bpf::bind::Rule]| {
        rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(&cgroup.socket_bind.allow), "ipv4:udp:1-5");
    assert_eq!(shown(&cgroup.socket_bind.deny), "any");
    let list = cgroup.network_interfaces.as_ref().expect("a list");
    assert_eq!((list.is_allowed, list.names.join(" ")), (false, "eth0".to_owned()));
    assert_eq!(
        said,
        [
            "f:7:16: warning: SocketBindDeny=: '0' is not a rule for sockets, ignored [bad-value]",
            "f:9:27: warning: RestrictNetworkInterfaces=: 'a/b' is not a network device, ignored [bad-value]",
        ]
    );
}

#[test]
fn dumps_nodes_and_labels_are_read() {
    let (config, said) = service(
        "CoredumpFilter=elf-headers 0x20\nCoredumpFilter=private-dax rubbish\nNUMAPolicy=bind\nNUMAMask=0-1\n\
         NUMAMask=3\nAppArmorProfile=-profile\nSELinuxContext=a:b:c\nSmackProcessLabel=\n",
    );
    let exec = config.exec;
    assert_eq!(exec.coredump_filter, Some(0x10 | 0x20 | 0x80));
    let Some(NumaNodes::Listed(nodes)) = &exec.numa_nodes else { panic!("{:?}", exec.numa_nodes) };
    assert_eq!((exec.numa_policy, nodes.ranges()), (Some(NumaPolicy::Bind), &[(0, 1), (3, 3)][..]));
    let label = |label: Option<Label>| label.map(|l| (l.label.to_string(), l.is_optional));
    assert_eq!(label(exec.apparmor_profile), Some(("profile".to_owned(), true)));
    assert_eq!(label(exec.selinux_context), Some(("a:b:c".to_owned(), false)));
    assert_eq!(label(exec.smack_label), None);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(service("CoredumpFilter=all").0.exec.coredump_filter, Some(0x1ff));
    assert_eq!(service("CoredumpFilter=all\nCoredumpFilter=").0.exec.coredump_filter, None);
    assert_eq!(service("NUMAMask=all\nNUMAMask=").0.exec.numa_nodes, None);
}

#[test]
fn a_dynamic_user_implies_what_cannot_be_turned_off() {
    let exec = |lines: &str| service(&format!("DynamicUser=yes\n{lines}")).0.exec;
    let shown = |exec: &ExecConfig| {
        let mut all: Vec<String> =
            exec.protections.iter().map(|s| format!("{}={}", s.setting, s.value)).collect();
        all.sort();
        all.join(" ")
    };
    let off = exec(
        "ProtectSystem=no\nProtectHome=no\nPrivateTmp=no\nRestrictSUIDSGID=no\nRemoveIPC=no\nNoNewPrivileges=no",
    );
    let all = "PrivateTmp=yes ProtectHome=read-only ProtectSystem=strict RestrictSUIDSGID=yes";
    assert_eq!(shown(&off), all);
    assert!(off.remove_ipc && off.no_new_privileges);
    assert_eq!((off.user.as_deref(), off.group.as_deref()), (Some("a"), Some("a")));
    let more =
        exec("ProtectSystem=full\nProtectHome=tmpfs\nPrivateTmp=disconnected\nUser=web\nGroup=adm");
    let all = "PrivateTmp=disconnected ProtectHome=tmpfs ProtectSystem=strict RestrictSUIDSGID=yes";
    assert_eq!(shown(&more), all);
    assert_eq!((more.user.as_deref(), more.group.as_deref()), (Some("web"), Some("adm")));
}

#[test]
fn lists_that_protect_are_kept_whole() {
    let text = "[Service]\nExecStart=/bin/x\nReadWritePaths=/gone\nReadWritePaths=\n\
                ReadWritePaths=/a -/b\nReadWritePaths=/c-%i\nProtectSystem=strict\n\
                ProtectSystem=full\nPIDFile=/var/run/x.pid\n";
    let (protection, pid_file) = with("a@1.service", &[text], |c| {
        let config = c.service().0;
        let shown = config.exec.protections.iter().map(|s| format!("{}={}", s.setting, s.value));
        (shown.collect::<Vec<_>>(), config.pid_file)
    });
    assert_eq!(protection, ["ProtectSystem=full", "ReadWritePaths=/a -/b\n/c-1"]);
    assert_eq!(pid_file.as_deref(), Some("/run/x.pid"));
}

#[test]
fn what_is_read_but_not_acted_on_is_said_once() {
    let text = "[Service]\nExecStart=/bin/x\nUSBFunctionStrings=/x\nOOMPolicy=rubbish\n";
    let all = with("a.service", &[text], |c| c.check());
    let mut shown: Vec<&str> = all.iter().map(|d| d.message.as_ref()).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            "OOMPolicy=: 'rubbish' is not one of: continue, stop, kill, ignored",
            "USBFunctionStrings= has no effect yet",
        ]
    );
}

#[test]
fn who_gets_what_is_logged() {
    let copies = |output: &str| {
        let (config, faults) = service(&format!("StandardOutput={output}"));
        assert!(faults.is_empty(), "{faults:?}");
        config.exec.standard_output.copies().map(|Copies { kmsg, console }| (kmsg, console))
    };
    let outputs = ["journal", "kmsg", "journal+console", "syslog+console", "kmsg+console", "tty"];
    let (no, yes) = (false, true);
    let all =
        [Some((no, no)), Some((yes, no)), Some((no, yes)), Some((no, yes)), Some((yes, yes)), None];
    assert_eq!(outputs.map(copies), all);
}

/// As with systemd 252: what a drop-in says wrong of these is as if it was not said.
#[test]
fn nobody_and_nowhere_are_ignored() {
    let text = "[Service]\nExecStart=/bin/x\nUser=daemon\nSupplementaryGroups=adm\n\
                StateDirectory=private/x private privatex ok:private/y\n";
    let dropin = "[Service]\nUser=00\nSupplementaryGroups=daemon 00\n";
    let (config, said) = with("a.service", &[text, dropin], |c| c.service());
    let paths: Vec<String> = config
        .exec
        .state_directory
        .paths
        .iter()
        .map(|p| format!("{} {:?}", p.path, p.symlinks))
        .collect();
    assert_eq!(paths, ["ok [\"private/y\"]", "privatex []"]);
    assert_eq!(config.exec.user.as_deref(), Some("daemon"));
    assert_eq!(config.exec.supplementary_groups, ["adm".into(), "daemon".into()]);
    assert_eq!(said.len(), 4, "{said:?}");
}

/// What is wrong with them is told without what is behind the name.
#[test]
fn wrong_credentials_are_said_and_left_out() {
    let text = "[Service]\nExecStart=/bin/x\nLoadCredentialEncrypted=a:/b\nSetCredential=c:d\n\
                SetCredentialEncrypted=c:hidden!\nSetCredential=a/b:hidden\n";
    let all = with("a.service", &[text], |c| c.check());
    let mut shown: Vec<String> = all.iter().map(Diagnostic::to_string).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "f:5:24: warning: SetCredentialEncrypted=: 'c' is not acted on: the value is not valid base64, \
             ignored [bad-value]",
            "f:6:15: warning: SetCredential=: 'a/b' is not acted on: 'a/b' is not the name of a credential, \
             ignored [bad-value]",
        ]
    );
    let exec = with("a.service", &[text], |c| c.service()).0.exec;
    assert!(exec.sandbox.is_empty());
    assert_eq!(exec.protections.len(), 3);
}

#[test]
fn what_has_no_effect_is_told_of_a_unit_that_is_used() {
    let text =
        "[Unit]\nDescription=x\n[Service]\nExecStart=/bin/x\nUSBFunctionStrings=/x\nCPUShares=5\n";
    let said = with("a.service", &[text], |c| c.unit()).1;
    let said: Vec<String> = said.iter().map(Diagnostic::to_string).collect();
    assert_eq!(said, ["f:5:20: note: USBFunctionStrings= has no effect yet [not-acted-on]"]);
}

#[test]
fn the_manager_s_file_states_defaults() {
    let texts = [
        "[Manager]\nDefaultTimeoutStopSec=5\nDefaultTimeoutStartSec=infinity\n\
         DefaultLimitNOFILE=1024:9999\nDefaultEnvironment=A=1 B\nDefaultRestartSec=2\n\
         CrashShell=maybe\nNonsense=1\nDefaultTasksMax=70%\nDefaultStandardError=null",
        "[Service]\nTimeoutStopSec=9\n[Manager]\nDefaultTimeoutStopSec=7\nDefaultEnvironment=C=3\n\
         DefaultLimitNOFILE=wrong\nDefaultOOMPolicy=kill\nDefaultStartLimitBurst=99",
    ];
    let mut said = Vec::new();
    let files: Vec<_> = texts
        .iter()
        .map(|text| {
            let (file, faults) = crate::parse::parse_manager("m".into(), text.as_bytes());
            said.extend(faults);
            Arc::new(file)
        })
        .collect();
    let (stated, more) = defaults(Some(&files[0]), &files[1..], &Context::system());
    said.extend(more);
    let mut rlimits = Rlimits::of_units();
    rlimits.set(Resource::Nofile, Some(Rlimit { soft: 1024, hard: 9999 }));
    let want = Defaults {
        timeout_start: None,
        timeout_stop: Some(Duration::from_secs(7)),
        restart_delay: Duration::from_secs(2),
        start_limit_burst: 99,
        environment: Arc::from(["A=1".into(), "C=3".into()]),
        tasks_max: TasksLimit::Scale { numerator: 7000, denominator: 10_000 },
        rlimits,
        oom_policy: OomPolicy::Kill,
        standard_error: Output::Null,
        ..Defaults::default()
    };
    assert_eq!(stated, want);
    let mut said: Vec<String> = said.iter().map(Diagnostic::to_string).collect();
    said.sort();
    let want = [
        "m:1:1: warning: the manager's file has no section [Service] [unknown-section]",
        "m:5:24: warning: DefaultEnvironment=: 'B' is not NAME=value, ignored [bad-value]",
        "m:6:20: warning: DefaultLimitNOFILE=: 'wrong' is not a limit for NOFILE, ignored [bad-value]",
        "m:7:12: warning: CrashShell=: 'maybe' is neither yes nor no, ignored [bad-value]",
        "m:8:1: warning: [Manager] has no setting Nonsense= [unknown-setting]",
    ];
    assert_eq!(said, want);
}

fn stated(text: &str, scope: Scope) -> (Defaults, Vec<String>) {
    let text = format!("[Manager]\n{text}");
    let (file, faults) = crate::parse::parse_manager("m".into(), text.as_bytes());
    let context = Context { scope, ..Context::system() };
    let (stated, more) = defaults(Some(&Arc::new(file)), &[], &context);
    let said = faults.iter().chain(&more).map(Diagnostic::to_string).collect();
    (stated, said)
}

#[test]
fn the_manager_s_file_states_what_processes_inherit() {
    let (got, said) = stated(
        "CPUAffinity=0 2\nCPUAffinity=4-5\nNUMAPolicy=bind\nNUMAMask=1\nTimerSlackNSec=1ms\n\
         DefaultSmackProcessLabel=lab\nManagerEnvironment=A=1\nLogLevel=warning\nLogTarget=journal-or-kmsg",
        Scope::System,
    );
    assert_eq!(said, Vec::<String>::new());
    let set = |text: &str| value::indexes(text).expect("numbers");
    let inherited = crate::context::Inherited {
        cpu_affinity: Some(set("0,2,4-5")),
        numa_policy: Some(NumaPolicy::Bind),
        numa_nodes: Some(NumaNodes::Listed(set("1"))),
        timer_slack_nsec: Some(1_000_000),
        smack_label: Some("lab".into()),
    };
    let manager_environment = Arc::from(["A=1".into()]);
    let (log_level, log_target) = (Some(4), Some("auto"));
    let want =
        Defaults { inherited, manager_environment, log_level, log_target, ..Defaults::default() };
    assert_eq!(got, want);
    let (none, said) = stated("DefaultSmackProcessLabel=/\nLogTarget=kmsg", Scope::System);
    assert_eq!(none, Defaults::default());
    assert!(said[0].starts_with("m:3:11: warning: LogTarget=: 'kmsg' is not one of:"), "{said:?}");
}

/// Of what processes inherit and cannot lift, only the timer slack shows in the settings of a unit, as with systemd 252.
#[test]
fn units_have_the_timer_slack_of_the_manager() {
    let (defaults, said) = stated(
        "TimerSlackNSec=7\nNoNewPrivileges=yes\nCapabilityBoundingSet=CAP_KILL CAP_CHOWN\n\
         SystemCallArchitectures=native nonsense",
        Scope::System,
    );
    let told =
        "m:5:32: warning: SystemCallArchitectures=: 'nonsense' is not known, ignored [bad-value]";
    assert_eq!(said, [told]);
    assert_eq!(&*defaults.bounds.architectures, "native nonsense");
    assert_eq!(defaults.bounds.capabilities, CapabilitySet(0x21));
    assert!(defaults.bounds.no_new_privileges);
    let exec = |lines: &str| {
        let text = format!("[Service]\nExecStart=/bin/x\n{lines}");
        let file = Arc::new(parse("f".into(), text.as_bytes(), crate::name::UnitType::Service).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let name = UnitName::parse("a.service").expect("a valid name");
        let context = Context::system();
        let compiler =
            Compiler { name: &name, sources: &sources, context: &context, defaults: &defaults };
        compiler.service().0.exec
    };
    assert_eq!(exec("").timer_slack_nsec, Some(7));
    assert_eq!(exec("TimerSlackNSec=9").timer_slack_nsec, Some(9));
    assert!(!exec("").no_new_privileges);
}

#[test]
fn the_manager_s_file_says_how_long_the_watchdog_waits() {
    let (got, said) = stated(
        "RuntimeWatchdogSec=20\nRebootWatchdogSec=off\nKExecWatchdogSec=default\nRuntimeWatchdogPreSec=1min\n\
         RuntimeWatchdogPreGovernor=panic\nWatchdogDevice=/dev/watchdog1\nRuntimeWatchdogSec=soon",
        Scope::System,
    );
    let want = Watchdog {
        device: Some("/dev/watchdog1".into()),
        runtime: WatchdogTime::For(Duration::from_secs(20)),
        reboot: WatchdogTime::Off,
        kexec: WatchdogTime::OfDevice,
        pre: WatchdogTime::For(Duration::from_secs(60)),
        governor: Some("panic".into()),
    };
    assert_eq!(*got.watchdog, want);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("m:8:20: warning: RuntimeWatchdogSec=: "), "{said:?}");
    let (got, _) = stated("RuntimeWatchdogSec=0\nRebootWatchdogSec=infinity", Scope::System);
    assert_eq!(got.watchdog.runtime, WatchdogTime::Off);
    assert_eq!(got.watchdog.reboot.usec(), u64::MAX);
    assert_eq!(Watchdog::default().reboot.usec(), 600_000_000);
}

#[test]
fn sets_of_nf_tables_are_named_by_source_family_and_table() {
    let text = "NFTSet=cgroup:inet:filter:a user:ip6:t/1:b\n\
                NFTSet=cgroup:inet:filter:a group:netdev:t:c_.d nobody:inet:t:a user:inet:t\n\
                NFTSet=user:inet:1t:a user:inet:t:a-b user:inet:t:a:b";
    let (config, said) = service(text);
    let sets = config.cgroup.nft_sets.iter().map(|set| {
        let (source, family) = (set.source.as_str(), set.family.as_str());
        format!("{source}:{family}:{}:{}", set.table, set.name)
    });
    let expected = ["cgroup:inet:filter:a", "user:ip6:t/1:b", "group:netdev:t:c_.d"];
    assert_eq!(sets.collect::<Vec<_>>(), expected);
    assert_eq!(said.len(), 5, "{said:#?}");
    assert!(
        said[0].contains("f:4:49: warning: NFTSet=: 'nobody:inet:t:a' is not a source"),
        "{said:#?}"
    );
}

#[test]
fn the_manager_s_file_says_how_its_lines_look() {
    let (got, said) =
        stated("LogColor=yes\nLogLocation=on\nLogTime=no\nLogTime=sometimes", Scope::System);
    let (color, location, time) = (Some(true), Some(true), Some(false));
    assert_eq!(got.line_style, LineStyle { color, location, time });
    assert_eq!(
        said,
        ["m:5:9: warning: LogTime=: 'sometimes' is neither yes nor no, ignored [bad-value]"]
    );
    let (got, said) = stated("LogColor=yes\nLogColor=", Scope::User);
    let colored = LineStyle { color, ..LineStyle::default() };
    assert_eq!((got.line_style, said.len()), (colored, 1), "an empty value is none");
    let style = LineStyle { time: Some(true), ..LineStyle::default() };
    let both = style.or(LineStyle { color, location, time });
    assert_eq!(both, LineStyle { color, location, time: Some(true) });
}

#[test]
fn the_manager_s_file_says_what_follows_a_crash() {
    let check = |text: &str, expected: &str, faults: usize| {
        let (got, said) = stated(text, Scope::System);
        let Crash { dumps_core, starts_shell, terminal, action } = got.crash;
        let found = format!("{dumps_core:?} {starts_shell:?} {terminal:?} {action:?}");
        assert_eq!((found.as_str(), said.len()), (expected, faults), "{text}: {said:?}");
    };
    check("", "None None None None", 0);
    check(
        "DumpCore=yes\nCrashShell=no\nCrashReboot=1",
        "Some(true) Some(false) None Some(Reboot)",
        0,
    );
    check("CrashChangeVT=yes\nCrashReboot=no", "None None Some(Some(0)) Some(Freeze)", 0);
    check(
        "CrashChangeVT=1\nCrashAction=poweroff\nCrashReboot=yes",
        "None None Some(Some(1)) Some(Poweroff)",
        0,
    );
    check("CrashChangeVT=63\nCrashChangeVT=64", "None None Some(Some(63)) None", 1);
    check("CrashChangeVT=0\nCrashAction=panic", "None None Some(None) None", 1);
}

/// Only root can bind processes so; who may not is told.
#[test]
fn a_user_s_manager_binds_with_what_it_may_set() {
    let text =
        "NoNewPrivileges=yes\nCapabilityBoundingSet=CAP_KILL\nSystemCallArchitectures=native";
    let (got, said) = stated(text, Scope::User);
    let bounds = crate::context::Bounds { no_new_privileges: true, ..Default::default() };
    assert_eq!(got.bounds, bounds);
    let told = said.iter().filter(|said| said.contains("only the manager of the system can"));
    assert_eq!(told.count(), 2, "{said:?}");
}

#[test]
fn the_manager_s_file_may_say_infinity() {
    let text = b"[Manager]\nDefaultStartLimitIntervalSec=infinity\nDefaultRestartSec=infinity\n";
    let (file, _) = crate::parse::parse_manager("f".into(), text);
    let (stated, faults) = defaults(Some(&Arc::new(file)), &[], &Context::system());
    assert_eq!(faults, []);
    let spans = [stated.start_limit_interval, stated.restart_delay];
    assert_eq!(spans, [std::time::Duration::MAX; 2]);
}

/// What is no filter is said at its place; the rest of a list counts, and a wrong switch leaves what was before.
#[test]
fn wrong_words_of_filters_are_told_and_left_out() {
    let text = "[Service]\nExecStart=/bin/x\nSystemCallFilter=read nonsense @nothing\n\
                RestrictRealtime=yes\nRestrictRealtime=perhaps\nLockPersonality=perhaps\n";
    let (config, said) = with("a.service", &[text], |c| c.service());
    let kept = config.exec.protections.iter().map(|s| format!("{}={}", s.setting, s.value));
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept, ["RestrictRealtime=yes", "SystemCallFilter=read nonsense @nothing"]);
    let told = said.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for word in ["'nonsense' is not known", "'@nothing' is not known", "3:23", "5:18", "6:17"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// As with systemd 252: a drop-in that leaves the value out does not take a protection away.
#[test]
fn a_switch_that_says_nothing_stays_as_it_was() {
    let text = "[Service]\nExecStart=/bin/x\nPrivateTmp=yes\nPrivateTmp=\nProtectSystem=full\nProtectSystem=\n\
                ProtectHome=\nProtectHostname=yes\nProtectHostname=\nReadOnlyPaths=/a\nReadOnlyPaths=\n";
    let (config, said) = with("a.service", &[text], |c| c.service());
    let kept = config.exec.protections.iter().map(|s| format!("{}={}", s.setting, s.value));
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept, ["PrivateTmp=yes", "ProtectHostname=yes", "ProtectSystem=full"]);
    assert_eq!(
        said.iter().filter(|d| d.message.contains("a value is needed")).count(),
        4,
        "{said:?}"
    );
}

#[test]
fn programs_of_others_have_a_place_and_a_path() {
    let text = "[Slice]\nBPFProgram=egress:/a\nBPFProgram=egress:/a\nBPFProgram=nowhere:/a\nBPFProgram=bind4:rel\n\
                IPIngressFilterPath=/x\nIPIngressFilterPath=\nIPIngressFilterPath=/y//z\nIPEgressFilterPath=e\n";
    let (slice, said) = with("a.slice", &[text], |c| c.slice());
    let shown = |all: &[Pinned]| {
        all.iter().map(|one| format!("{}:{}", one.name(), one.path)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&slice.cgroup.bpf_programs), ["egress:/a"]);
    assert_eq!(shown(&slice.cgroup.ingress_filters), ["ingress:/y/z"]);
    assert!(slice.cgroup.egress_filters.is_empty());
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn what_slices_say_for_the_units_in_them_is_compiled() {
    let text = "[Slice]\nDefaultMemoryMin=1M\nDefaultMemoryLow=infinity\nDefaultStartupMemoryLow=2M\n\
                DisableControllers=cpu pids\nMemoryZSwapWriteback=no\n";
    let (slice, said) = with("a.slice", &[text], |c| c.slice());
    let config = slice.cgroup;
    assert_eq!(said, []);
    assert_eq!(config.default_memory_min, Some(Limit::Bytes(1 << 20)));
    assert_eq!(config.default_memory_low, Some(Limit::Infinity));
    assert_eq!(config.default_startup_memory_low, Some(Limit::Bytes(2 << 20)));
    assert_eq!(*config.disable_controllers, [Controller::Cpu, Controller::Pids]);
    assert_eq!(config.memory_zswap_writeback, Some(false));
}

/// No filter is applied to the tools of a mount: its unit is told so.
#[test]
fn filters_of_mounts_are_not_applied() {
    let text = "[Mount]\nWhat=tmpfs\nWhere=/a\nSystemCallFilter=@mount\n";
    let exec = with("a.mount", &[text], |c| c.mount()).0.exec;
    assert!(exec.protections.is_empty());
    assert_eq!(exec.sandbox.iter().map(|s| s.setting).collect::<Vec<_>>(), ["SystemCallFilter"]);
}
