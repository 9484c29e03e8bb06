use super::*;
use warren_core::model::ids::UnitId;
use warren_unit::compile::Compiler;
use warren_unit::config::CapabilitySet;
use warren_unit::load::Sources;
use warren_unit::{Defaults, UnitName};

const LISTS: [CommandList; 7] = [
    CommandList::Condition,
    CommandList::StartPre,
    CommandList::Start,
    CommandList::StartPost,
    CommandList::Reload,
    CommandList::Stop,
    CommandList::StopPost,
];

/// A service with a command in each list.
fn compiled(lines: &str) -> Arc<Compiled> {
    let command = |list: CommandList| format!("{}=/x ${{HOME}}\n", list.setting());
    let text = format!("[Service]\n{}{lines}", LISTS.map(command).concat());
    let name = UnitName::parse("a.service").expect("a valid name");
    let file = warren_unit::parse::parse("f".into(), text.as_bytes(), name.unit_type()).0;
    let file = Arc::new(file);
    let sources = Sources { fragment: Some(&file), ..Sources::default() };
    let (context, defaults) = (Context::system(), Defaults::default());
    let compiler =
        Compiler { name: &name, sources: &sources, context: &context, defaults: &defaults };
    let (config, faults) = compiler.service();
    assert!(faults.is_empty(), "{lines}: {faults:?}");
    let own = TypeSettings::Service(Box::new(config));
    Arc::new(Compiled { section: Arc::new(compiler.unit().0), own, faults: [].into() })
}

/// The request for the command of a list, with these descriptors and this environment of the manager.
fn asked(
    lines: &str,
    list: CommandList,
    fds: &[&str],
    environment: &[(&str, &str)],
    scope: Scope,
) -> Result<ExecSpec, SpawnError> {
    asked_where(lines, list, fds, environment, (scope, false))
}

/// The same, with or without `MissingProtection=refuse`.
fn asked_where(
    lines: &str,
    list: CommandList,
    fds: &[&str],
    environment: &[(&str, &str)],
    (scope, must_hold): (Scope, bool),
) -> Result<ExecSpec, SpawnError> {
    let defaults = Defaults::default();
    asked_under(&defaults, lines, (list, fds), environment, (scope, must_hold))
}

/// The same under what the manager's own file says.
fn asked_under(
    defaults: &Defaults,
    lines: &str,
    (list, fds): (CommandList, &[&str]),
    environment: &[(&str, &str)],
    (scope, must_hold): (Scope, bool),
) -> Result<ExecSpec, SpawnError> {
    let context = Context { scope, ..Context::system() };
    let environment: Variables =
        environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let plan = Plan::default();
    let host = SpawnHost {
        nft_sets: Vec::new(),
        standard: [None; 3],
        unit: "a.service",
        context: &context,
        environment: &environment,
        file_variables: &[],
        notify_socket: "/n",
        cgroup: CgroupPlace::Inherit,
        delegated: Vec::new(),
        log: LogOutputs {
            out: LogOutput::File("/log".to_owned()),
            err: LogOutput::File("/err".to_owned()),
        },
        fd_names: fds.iter().map(|&name| name.to_owned()).collect(),
        connection_environment: Vec::new(),
        input_data: None,
        system_call_filter: &[],
        plan: &plan,
        must_hold,
        memory_pressure: Some(("g".to_owned(), "/cg/g/memory.pressure".to_owned())),
        defaults,
        architecture_filter: &[8; 8],
        namespace_store: None,
        marks: None,
    };
    let spawn = Spawn {
        unit: UnitId(0),
        list,
        index: 0,
        main: false,
        settings: compiled(lines),
        environment: Vec::new(),
        sockets: Vec::new(),
        invocation: 0,
        dynamic_user: None,
    };
    exec_spec(&spawn, &host)
}

fn streams(spec: &ExecSpec) -> String {
    let handed = if spec.listen_fds.is_empty() { "" } else { " handed over" };
    format!("{:?} {:?} {:?}{handed}", spec.stdin, spec.stdout, spec.stderr)
}

/// What each list's command has as its standard streams, as systemd 252 has it.
#[test]
fn streams_of_commands_by_list() {
    use CommandList::{Condition, Reload, Start, StartPost, StartPre, Stop, StopPost};
    let check = |lines: &str, fds: &[&str], lists: &[CommandList], want: &str| {
        for &list in lists {
            let spec = asked(lines, list, fds, &[], Scope::System);
            let got = spec.map_or_else(|error| error, |spec| streams(&spec));
            assert_eq!(got, want, "{lines} {list:?}");
        }
    };
    let socket = "StandardInput=socket";
    check(socket, &["connection"], &LISTS, "Fd(0) Inherit Inherit");
    check("StandardOutput=socket", &["a.socket"], &LISTS, "Null Fd(0) Inherit");
    let logged = "StandardInput=socket\nStandardOutput=journal";
    check(logged, &["connection"], &LISTS, "Fd(0) Log(\"/log\") Inherit");
    check(socket, &[], &LISTS, "a socket as standard stream, and there is none");
    check(socket, &["a", "b"], &LISTS, "a socket as standard stream, and there are 2");
    check("", &["a", "b"], &[Start], "Null Log(\"/log\") Inherit handed over");
    let tty = "StandardInput=tty-force";
    let taken = "Tty(Force) Inherit Inherit";
    check(tty, &[], &[Condition, StartPre, Start, StopPost], taken);
    check(tty, &[], &[StartPost, Reload, Stop], "Null Tty Inherit");
    let parted = "StandardOutput=kmsg+console\nStandardError=journal";
    let kmsg =
        if std::path::Path::new(KMSG).exists() { "File(\"/dev/kmsg\")" } else { "Log(\"/log\")" };
    check(parted, &[], &[Start], &format!("Null {kmsg} Log(\"/err\")"));
    check("StandardInput=tty\nStandardOutput=null", &[], &[Stop], "Null Null Inherit");
}

/// Variables of one command of the system, then those that have the number of the process, then what login
/// variables are that the user has none of.
#[track_caller]
fn check_environment(lines: &str, list: CommandList, manager: &[(&str, &str)], want: &str) {
    let spec = asked(lines, list, &["s"], manager, Scope::System).expect("it can be asked for");
    let mut got = spec.env.clone();
    let flags = [
        (spec.set_listen_pid, "LISTEN_PID"),
        (spec.set_exec_pid, "SYSTEMD_EXEC_PID"),
        (spec.set_watchdog_pid, "WATCHDOG_PID"),
    ];
    got.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned()));
    if !spec.login_defaults.is_empty() {
        got.push(format!("else {}", spec.login_defaults.join(" ")));
    }
    assert_eq!(got.join(" "), want, "{lines}");
}

#[test]
fn what_the_manager_sets_itself_comes_after_what_it_was_told() {
    use CommandList::{Start, StartPre};
    let check = check_environment;
    let fds = "LISTEN_FDNAMES=s LISTEN_FDS=1";
    check("", Start, &[], &format!("{fds} LISTEN_PID SYSTEMD_EXEC_PID"));
    let told = [("HOME", "/other"), ("SHELL", "/s"), ("SYSTEMD_EXEC_PID", "7"), ("X", "1")];
    let want = format!("HOME=/other {fds} SHELL=/s X=1 LISTEN_PID SYSTEMD_EXEC_PID");
    check("", Start, &told, &want);
    let want = format!("{fds} X=1 LISTEN_PID SYSTEMD_EXEC_PID else HOME=/other SHELL=/s");
    check("User=daemon", Start, &told, &want);
    // Also of what makes the main process.
    let watched = "Type=forking\nWatchdogSec=1\nLogNamespace=n";
    let want = format!(
        "{fds} LOG_NAMESPACE=n NOTIFY_SOCKET=/n WATCHDOG_USEC=1000000 \
         LISTEN_PID SYSTEMD_EXEC_PID WATCHDOG_PID"
    );
    check(watched, Start, &[], &want);
    let own = "StandardInput=socket\nWatchdogSec=1";
    check(own, StartPre, &[], "SYSTEMD_EXEC_PID");
}

/// As with systemd 252.
#[test]
fn a_process_whose_output_is_shown_knows_a_kind_of_terminal() {
    let has = |lines: &str| {
        let spec = asked(lines, CommandList::Start, &[], &[], Scope::System);
        let env = spec.expect("it can be asked for").env;
        env.iter().any(|entry| entry.starts_with("TERM="))
    };
    for shown in ["Output=tty", "Output=journal+console", "Error=kmsg+console"] {
        assert!(has(&format!("Standard{shown}")), "{shown}");
    }
    assert!(!has("StandardOutput=kmsg") && !has("StandardError=null"));
}

#[test]
fn the_number_of_the_process_gives_way_and_can_be_unset() {
    use CommandList::{Start, StartPre};
    let check = |lines: &str, list, want: &str| check_environment(lines, list, &[], want);
    let socket = "StandardInput=socket\n";
    check(&format!("{socket}UnsetEnvironment=SYSTEMD_EXEC_PID"), StartPre, "");
    check(&format!("{socket}UnsetEnvironment=SYSTEMD_EXEC_PID=1"), StartPre, "SYSTEMD_EXEC_PID");
    let given = format!("{socket}Environment=SYSTEMD_EXEC_PID=1");
    check(&given, StartPre, "SYSTEMD_EXEC_PID=1");
    check(&format!("{given}\nUnsetEnvironment=SYSTEMD_EXEC_PID=1"), StartPre, "");
    let lines = "Environment=LISTEN_PID=4 WATCHDOG_PID=3\nWatchdogSec=1";
    let want = "LISTEN_FDNAMES=s LISTEN_FDS=1 LISTEN_PID=4 NOTIFY_SOCKET=/n WATCHDOG_PID=3 \
                WATCHDOG_USEC=1000000 SYSTEMD_EXEC_PID";
    check(lines, Start, want);
}

#[test]
fn services_of_users_know_their_manager() {
    let spec = asked("", CommandList::Start, &[], &[("MANAGERPID", "7")], Scope::User);
    let wanted = format!("MANAGERPID={}", std::os::unix::process::parent_id());
    assert!(spec.expect("it can be asked for").env.contains(&wanted));
    let spec = asked("", CommandList::Start, &[], &[], Scope::System);
    let env = spec.expect("it can be asked for").env;
    assert!(!env.iter().any(|entry| entry.starts_with("MANAGERPID=")), "{env:?}");
}

/// What the environment of the helper knows stands by its name in the arguments, too.
#[test]
fn login_variables_are_left_to_the_helper() {
    let told = [("HOME", "/other")];
    let argv = |lines: &str| {
        asked(lines, CommandList::Start, &[], &told, Scope::System)
            .expect("it can be asked for")
            .argv
    };
    assert_eq!(argv(""), ["/x", "/other"]);
    assert_eq!(argv("User=daemon"), ["/x", "\0HOME\0"]);
    assert_eq!(argv("User=daemon\nEnvironment=HOME=/mine"), ["/x", "/mine"]);
    assert_eq!(argv("User=daemon\nSetLoginEnvironment=no"), ["/x", "/other"]);
}

#[test]
fn what_would_run_in_another_place_is_refused() {
    let refused = |lines: &str| {
        let spec = asked(lines, CommandList::Start, &[], &[], Scope::System).expect("a request");
        spec.required_features
    };
    assert_eq!(refused("RootImage=/none.raw"), [""; 0]);
    assert_eq!(refused("RootImage=/none.raw\nRootVerity=/x"), ["RootVerity="]);
    assert_eq!(refused("RootImage=/none.raw\nRootImagePolicy=root=verity"), ["RootImagePolicy="]);
    assert_eq!(refused("RootImage=/none.raw\nRootImagePolicy=*"), [""; 0]);
    assert_eq!(refused("PAMName=login"), [""; 0]);
    assert_eq!(refused("LoadCredentialEncrypted=a:/b"), [""; 0]);
    assert_eq!(refused("RemoveIPC=yes\nPrivateTmp=yes"), [""; 0]);
}

#[test]
fn a_session_is_opened_for_users_of_the_systems_manager() {
    let session = |lines: &str, list, scope| {
        asked(lines, list, &[], &[], scope).expect("a request").session.unwrap_or_default()
    };
    let (start, system) = (CommandList::Start, Scope::System);
    assert_eq!(session("PAMName=login\nUser=daemon", start, system), "login");
    assert_eq!(session("PAMName=login\nUser=root", start, system), "login");
    assert_eq!(session("PAMName=%N\nUser=daemon", start, system), "a");
    assert_eq!(session("PAMName=login", start, system), "");
    assert_eq!(session("User=daemon", start, system), "");
    assert_eq!(session("PAMName=login\nUser=daemon", start, Scope::User), "");
    let spared = "PAMName=login\nUser=daemon\nPermissionsStartOnly=yes";
    assert_eq!(session(spared, CommandList::StartPre, system), "");
}

#[test]
fn what_is_not_in_force_is_refused_where_protection_must_hold() {
    let refused = |lines: &str, list: CommandList| {
        let spec = asked_where(lines, list, &[], &[], (Scope::System, true)).expect("a request");
        spec.required_features
    };
    let asked = "BindLogSockets=yes\nPrivateTmp=yes";
    assert_eq!(refused(asked, CommandList::Start), ["BindLogSockets="]);
    assert_eq!(refused("PrivateTmp=yes", CommandList::Start), [""; 0]);
    assert_eq!(refused("BindLogSockets=no", CommandList::Start), [""; 0]);
    assert_eq!(refused("", CommandList::Start), [""; 0]);
    let spared = "BindLogSockets=yes\nPermissionsStartOnly=yes";
    assert_eq!(refused(spared, CommandList::StartPre), [""; 0]);
}

/// What holds for all holds for commands with all privileges too.
#[test]
fn nothing_escapes_the_bounds_of_the_manager() {
    let bounds =
        Bounds { capabilities: CapabilitySet(0x2f), no_new_privileges: true, ..Bounds::default() };
    let manager_environment = Arc::from(["PASSED=of the manager".into()]);
    let defaults = Defaults { bounds, manager_environment, ..Defaults::default() };
    for (lines, capabilities) in [
        ("", 0x2f),
        ("CapabilityBoundingSet=CAP_KILL CAP_SYS_TIME\nPassEnvironment=PASSED", 0x20),
        ("ExecStart=\nExecStart=+/bin/x\nCapabilityBoundingSet=CAP_KILL", 0x2f),
        ("ExecStart=\nExecStart=+/bin/x\nNoNewPrivileges=no\nPassEnvironment=PASSED", 0x2f),
    ] {
        let spec =
            asked_under(&defaults, lines, (CommandList::Start, &[]), &[], (Scope::System, false));
        let spec = spec.expect("a request");
        assert_eq!(spec.capability_bounding_set, Some(capabilities), "{lines}");
        assert!(spec.no_new_privileges && spec.architecture_filter == [8; 8], "{lines}");
        let is_passed = spec.env.contains(&"PASSED=of the manager".to_owned());
        assert_eq!(is_passed, lines.contains("PassEnvironment"), "{lines}");
    }
}

/// What a unit says itself goes before what it inherits.
#[test]
fn processes_inherit_of_the_manager() {
    use warren_unit::config::NumaPolicy;
    let cpus = warren_unit::value::indexes("3,5").expect("numbers");
    let inherited = Inherited {
        cpu_affinity: Some(cpus.clone()),
        numa_policy: Some(NumaPolicy::Bind),
        numa_nodes: Some(NumaNodes::Listed(cpus)),
        smack_label: Some("lab".into()),
        ..Inherited::default()
    };
    let defaults = Defaults { inherited, ..Defaults::default() };
    let shown = |lines: &str| {
        let spec =
            asked_under(&defaults, lines, (CommandList::Start, &[]), &[], (Scope::System, false));
        let spec = spec.expect("a request");
        let labels: Vec<&str> = spec.labels.iter().map(|label| &*label.label).collect();
        let numa = spec.numa.map(|numa| (numa.policy, numa.nodes));
        format!("{:?} {numa:?} {labels:?}", spec.cpu_affinity)
    };
    assert_eq!(shown(""), "Some([3, 5]) Some((Some(2), Some([(3, 3), (5, 5)]))) [\"lab\"]");
    assert_eq!(
        shown("CPUAffinity=1\nNUMAPolicy=local\nSmackProcessLabel=own"),
        "Some([1]) Some((Some(4), Some([]))) [\"own\"]"
    );
    assert_eq!(
        shown("CPUAffinity=numa\nNUMAMask=1"),
        "None Some((Some(2), Some([(1, 1)]))) [\"lab\"]"
    );
}

#[test]
fn services_are_told_how_to_watch_pressure_on_memory() {
    let check = |lines: &str, want: &str| {
        let spec = asked(lines, CommandList::Start, &[], &[], Scope::System).expect("a request");
        let told = spec.env.iter().filter(|text| text.starts_with("MEMORY_PRESSURE_"));
        let told: Vec<&str> = told.map(|text| &text["MEMORY_PRESSURE_".len()..]).collect();
        let got = format!("{} {:?}", told.join(" "), spec.watches_memory_of.as_deref());
        assert_eq!(got, want, "{lines}");
    };
    // "some 200000 2000000" and a zero byte, in base64.
    let usual = "WRITE=c29tZSAyMDAwMDAgMjAwMDAwMAA=";
    let watched = format!("WATCH=/cg/g/memory.pressure {usual} Some(\"g\")");
    check("", " None");
    check("MemoryPressureWatch=skip", " None");
    check("MemoryPressureWatch=on", &watched);
    check("MemoryPressureWatch=yes\nMemoryAccounting=no", &watched);
    check("MemoryPressureWatch=auto", &watched);
    check("MemoryPressureWatch=auto\nMemoryAccounting=no", "WATCH=/dev/null None");
    check("MemoryPressureWatch=off", "WATCH=/dev/null None");
    let own = "MemoryPressureWatch=on\nMemoryPressureThresholdSec=1s\nProtectControlGroups=private";
    let told =
        "WATCH=/sys/fs/cgroup/memory.pressure WRITE=c29tZSAxMDAwMDAwIDIwMDAwMDAA Some(\"g\")";
    check(own, told);
}

/// With `RootDirectoryStartOnly=` other commands have the root of the host.
#[test]
fn a_root_may_be_for_the_main_command_alone() {
    for (lines, list, want) in [
        ("RootDirectory=/r", CommandList::StartPre, Some("/r")),
        ("RootDirectory=/r\nRootDirectoryStartOnly=yes", CommandList::StartPre, None),
        ("RootDirectory=/r\nRootDirectoryStartOnly=yes", CommandList::Start, Some("/r")),
    ] {
        let spec = asked(lines, list, &[], &[], Scope::System).expect("a request");
        assert_eq!(spec.root_directory.as_deref(), want, "{lines} {list:?}");
    }
}
