use super::*;
use crate::parse::parse;

/// Loads a unit from text and compares: the load state, then one line per relation with all its
/// names, then diagnostics.
#[track_caller]
fn check_in(context: &Context, name: &str, text: &str, want: &str) {
    let name = UnitName::parse(name).expect("a valid name");
    let (file, mut diagnostics) = parse("f".into(), text.as_bytes(), name.unit_type());
    let file = Arc::new(file);
    let sources = Sources { fragment: Some(&file), ..Sources::default() };
    let (loaded, more) = load(&name, &sources, context, &Defaults::default());
    diagnostics.extend(more);
    let mut got = vec![loaded.load_state.to_string()];
    for relation in Relation::ALL {
        let of = loaded.relations.iter().filter(|(r, _)| *r == relation);
        let names: Vec<&str> = of.map(|(_, n)| n.as_str()).collect();
        if !names.is_empty() {
            got.push(format!("{relation} {}", names.join(" ")));
        }
    }
    got.extend(diagnostics.iter().map(Diagnostic::to_string));
    let want: Vec<&str> = want.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert_eq!(got, want, "{name}: {text}");
}

#[track_caller]
fn check(name: &str, text: &str, want: &str) {
    check_in(&Context::system(), name, text, want);
}

#[test]
fn a_plain_service() {
    check(
        "a.service",
        "[Service]\nExecStart=/bin/true\n",
        "loaded
         Requires sysinit.target system.slice
         Conflicts shutdown.target
         Before shutdown.target
         After basic.target sysinit.target system.slice systemd-journald.socket
         Slice system.slice",
    );
}

/// systemd.resource-control(5), "ManagedOOMSwap=".
#[test]
fn systemd_oomd_is_there_before_what_it_looks_after() {
    let none = "[Unit]\nDefaultDependencies=no\n";
    for setting in ["ManagedOOMSwap", "ManagedOOMMemoryPressure"] {
        check(
            "a.slice",
            &format!("[Slice]\n{setting}=kill\n"),
            "loaded
             Requires -.slice
             Wants systemd-oomd.service
             Conflicts shutdown.target
             Before shutdown.target
             After -.slice systemd-oomd.service
             Slice -.slice",
        );
        let alone = "loaded\nRequires -.slice\nAfter -.slice\nSlice -.slice";
        check("a.slice", &format!("{none}[Slice]\n{setting}=kill\n"), alone);
        check("a.slice", &format!("{none}[Slice]\n{setting}=auto\n"), alone);
    }
}

/// Debian's pgpool2.service, pgbouncer.socket and emergency.service, which systemd 252 loads so.
#[test]
fn old_words_for_the_log_old_paths_and_directories_that_may_be_missing() {
    let head = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/x\n";
    let check_service = |more: &str, after: &str| {
        let lines = ["loaded", "Requires system.slice", after, "Slice system.slice"];
        check("a.service", &format!("{head}{more}\n"), &lines.join("\n"));
    };
    let logged = "After system.slice systemd-journald.socket";
    check_service("StandardOutput=syslog", logged);
    check_service("StandardOutput=null\nStandardError=syslog+console", logged);
    check_service("StandardOutput=file:/journal", "After system.slice");
    check_service("StandardOutput=null\nWorkingDirectory=-/root", "After system.slice");
    check(
        "a.socket",
        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/var/run/x/y\n",
        "loaded
         Requires system.slice
         Before a.service
         After system.slice
         Triggers a.service
         Slice system.slice
         RequiresMountsFor -.mount run-x-y.mount run-x.mount run.mount",
    );
}

#[test]
fn an_instance_has_a_slice_of_its_template() {
    check(
        "a-b@x.service",
        "[Unit]\nDefaultDependencies=no\nAfter=c@.service d@%i.service\n[Service]\nType=dbus\n\
         BusName=a.b\nStandardOutput=null\nExecStart=/bin/true\nWorkingDirectory=/srv/x\nSockets=q.socket\n",
        "loaded
         Requires dbus.socket system-a\\x2db.slice
         Wants q.socket
         After c@x.service d@x.service dbus.socket q.socket system-a\\x2db.slice
         Slice system-a\\x2db.slice
         RequiresMountsFor -.mount srv-x.mount srv.mount
         TriggeredBy q.socket",
    );
}

#[test]
fn who_has_a_name_on_the_message_bus_goes_down_before_it() {
    let after_bus = |name: &str, text: &str| {
        let name = UnitName::parse(name).expect("a valid name");
        let file = Arc::new(parse("f".into(), text.as_bytes(), name.unit_type()).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        loaded.relations.contains(&(Relation::After, known::dbus_service()))
    };
    let service = |more: &str| format!("{more}\n[Service]\nBusName=a.b\nExecStart=/bin/true\n");
    assert!(after_bus("a.service", &service("")));
    assert!(!after_bus("a.service", &service("[Unit]\nDefaultDependencies=no")));
    assert!(!after_bus("a.service", &service("[Unit]\nBefore=dbus.service")));
    assert!(!after_bus("dbus.service", &service("")));
    assert!(!after_bus("a.service", "[Service]\nExecStart=/bin/true\n"));
}

#[test]
fn the_same_in_a_user_manager() {
    let context = Context { scope: Scope::User, ..Context::system() };
    check_in(
        &context,
        "a.service",
        "[Service]\nExecStart=/bin/true\n",
        "loaded
         Requires app.slice basic.target
         Conflicts shutdown.target
         Before shutdown.target
         After app.slice basic.target
         Slice app.slice",
    );
}

#[test]
fn the_four_units_of_a_set() {
    check(
        "test-nginx-1.socket",
        "[Socket]\nListenStream=/run/test/1.sock\nService=test-nginx-1.service\n",
        "loaded
         Requires sysinit.target system.slice
         Conflicts shutdown.target
         Before shutdown.target sockets.target test-nginx-1.service
         After sysinit.target system.slice
         Triggers test-nginx-1.service
         Slice system.slice
         RequiresMountsFor -.mount run-test-1.sock.mount run-test.mount run.mount",
    );
    check(
        "srv-1.mount",
        "[Mount]\nWhat=/dev/sda1\nWhere=/srv/1\nType=ext4\nOptions=usrquota\nStandardOutput=null\n",
        "loaded
         Requires system.slice
         Wants quotaon.service systemd-quotacheck.service
         BindsTo dev-sda1.device
         Conflicts umount.target
         Before local-fs.target quotaon.service systemd-quotacheck.service umount.target
         After dev-sda1.device local-fs-pre.target system.slice
         Slice system.slice
         RequiresMountsFor -.mount srv.mount",
    );
    // What a mount does without its device is its own matter; it does not begin without.
    check(
        "srv-2.mount",
        "[Mount]\nWhat=/dev/sda1\nWhere=/srv/2\nOptions=x-systemd.device-bound=no\n",
        "loaded
         Requires dev-sda1.device system.slice
         Conflicts umount.target
         Before local-fs.target umount.target
         After dev-sda1.device local-fs-pre.target system.slice systemd-journald.socket
         Slice system.slice
         RequiresMountsFor -.mount srv.mount",
    );
    check(
        "srv-1.automount",
        "[Automount]\nWhere=/srv/1\n",
        "loaded
         Conflicts umount.target
         Before local-fs.target srv-1.mount umount.target
         After local-fs-pre.target
         Triggers srv-1.mount
         RequiresMountsFor -.mount srv.mount",
    );
    check(
        "test-1.slice",
        "[Slice]\n",
        "loaded
         Requires test.slice
         Conflicts shutdown.target
         Before shutdown.target
         After test.slice
         Slice test.slice",
    );
}

#[test]
fn mounts_that_are_wished_for_are_not_required() {
    check(
        "a.target",
        "[Unit]\nDefaultDependencies=no\nWantsMountsFor=/srv/a\nRequiresMountsFor=/x\n",
        "loaded
         Wants -.mount srv-a.mount srv.mount
         After -.mount srv-a.mount srv.mount
         RequiresMountsFor -.mount x.mount",
    );
}

#[test]
fn an_empty_assignment_of_any_kind_of_address_drops_all_before_it() {
    let head = "[Socket]\nListenStream=/a/x\nListenDatagram=\n";
    let nothing = "bad-setting\nf: error: a.socket: no Listen*= setting [missing-setting]";
    check("a.socket", head, nothing);
    let mounts = |text: &str| {
        let (file, _) = parse("f".into(), text.as_bytes(), UnitType::Socket);
        let (file, name) = (Arc::new(file), UnitName::parse("a.socket").expect("a valid name"));
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        let of = loaded.relations.iter().filter(|(r, _)| *r == Relation::MountsFor);
        of.map(|(_, name)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(mounts(&format!("{head}ListenFIFO=/b/x\n")), "-.mount b-x.mount b.mount");
}

#[test]
fn a_network_mount_that_may_fail() {
    check(
        "mnt.mount",
        "[Mount]\nWhat=srv:/x\nType=nfs\nOptions=ro,nofail\nWhere=/mnt\n",
        "loaded
         Requires system.slice
         Wants network-online.target
         Conflicts umount.target
         Before umount.target
         After network-online.target network.target remote-fs-pre.target system.slice systemd-journald.socket
         Slice system.slice
         RequiresMountsFor -.mount",
    );
}

/// Compared with systemd 252.
#[test]
fn the_root_mount_comes_before_the_socket_of_the_log() {
    check(
        "-.mount",
        "[Mount]\nWhat=x\nWhere=/\n",
        "loaded
         Requires -.slice
         After -.slice
         Slice -.slice",
    );
}

#[test]
fn a_mount_below_a_file_system_of_the_kernel() {
    check(
        "sys-fs-abc.mount",
        "[Mount]\nWhat=x\nType=tmpfs\nWhere=/sys/fs/abc\n",
        "loaded
         Requires -.slice
         After -.slice systemd-journald.socket
         Slice -.slice
         RequiresMountsFor -.mount sys-fs.mount sys.mount",
    );
}

/// Compared with systemd 252.
#[test]
fn a_mount_that_the_next_steps_of_the_end_need_is_not_taken_away_before() {
    let mounts = [
        ("usr.mount", "ro"),
        ("etc.mount", "ro"),
        ("run-initramfs-a.mount", "ro"),
        ("var.mount", "ro,x-initrd.mount"),
    ];
    for (name, options) in mounts {
        let (file, _) = parse(
            "f".into(),
            format!("[Mount]\nWhat=x\nOptions={options}\n").as_bytes(),
            UnitType::Mount,
        );
        let (file, name) = (Arc::new(file), UnitName::parse(name).expect("a valid name"));
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        let targets = loaded.relations.iter().filter(|(_, n)| n.unit_type() == UnitType::Target);
        assert_eq!(targets.count(), 0, "{name}: {:?}", loaded.relations);
        assert_eq!(loaded.slice.map(|slice| slice.to_string()).as_deref(), Some("-.slice"));
    }
}

/// Compared with systemd 252.
#[test]
fn a_mount_of_a_file_needs_what_the_file_lies_on() {
    let check_mount = |what: &str, options: &str, want: &str| {
        let text = format!(
            "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat={what}\n{options}\nStandardOutput=null\n"
        );
        let head = "loaded\nRequires system.slice\nAfter system.slice\nSlice system.slice";
        check("snap-a.mount", &text, &format!("{head}\nRequiresMountsFor {want}"));
    };
    let image = "/var/lib/a.snap";
    let below = "-.mount snap.mount var-lib-a.snap.mount var-lib.mount var.mount";
    check_mount(image, "Type=squashfs", below);
    check_mount(image, "Options=_netdev", "-.mount snap.mount");
    check_mount(image, "Type=nfs", "-.mount snap.mount");
    check_mount("srv:/a", "Type=nfs", "-.mount snap.mount");
}

#[test]
fn a_mount_by_label_waits_for_the_link_that_udev_makes() {
    check(
        "srv.mount",
        "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=LABEL=my disk\nStandardOutput=null\n",
        r"loaded
         Requires system.slice
         BindsTo dev-disk-by\x2dlabel-my\x5cx20disk.device
         After dev-disk-by\x2dlabel-my\x5cx20disk.device system.slice
         Slice system.slice
         RequiresMountsFor -.mount",
    );
}

#[test]
fn timers_paths_swaps_targets() {
    check(
        "a.timer",
        "[Timer]\nOnCalendar=daily\n",
        "loaded
         Requires sysinit.target
         Conflicts shutdown.target
         Before a.service shutdown.target timers.target
         After sysinit.target time-set.target time-sync.target
         Triggers a.service",
    );
    check(
        "a.timer",
        "[Unit]\nDefaultDependencies=no\n[Timer]\nOnActiveSec=1\nOnCalendar=nonsense\nPersistent=yes\n",
        "loaded
         Before a.service
         Triggers a.service
         RequiresMountsFor -.mount var-lib-systemd-timers.mount var-lib-systemd.mount var-lib.mount var.mount
         f:5:12: warning: OnCalendar=: 'nonsense' is not a calendar expression: 'nonsense' is not a day of the week or a word like daily, ignored [bad-value]",
    );
    check(
        "a.path",
        "[Unit]\nDefaultDependencies=no\n[Path]\nPathExists=/x\nUnit=b.service\n",
        "loaded
         Before b.service
         Triggers b.service
         RequiresMountsFor -.mount x.mount",
    );
    check(
        "dev-sdb.swap",
        "[Swap]\nWhat=/dev/sdb\nStandardOutput=null\n",
        "loaded
         Requires dev-sdb.device system.slice
         Conflicts umount.target
         Before swap.target umount.target
         After dev-sdb.device system.slice
         Slice system.slice",
    );
    check("a.target", "", "masked");
    check(
        "a.target",
        "[Unit]\nWants=a.target b.service\nRequiresMountsFor=rel\nAfter=x %z.service\n",
        "loaded
         Wants b.service
         Conflicts shutdown.target
         Before shutdown.target
         f:2:7: note: Wants= on itself, ignored [self-dependency]
         f:4:7: warning: After=: 'x': 'x' does not end in a unit type, ignored [bad-unit-name]
         f:4:9: warning: After=: there is no specifier %z, ignored [bad-unit-name]
         f:3:19: warning: RequiresMountsFor=: 'rel' is not an absolute path, ignored [bad-value]",
    );
    check(
        "a.target",
        "[Unit]\nDefaultDependencies=no\nWants=dev-disk-by-label-x.device\n",
        "loaded
         Wants dev-disk-by-label-x.device
         f:3:7: warning: no device has the name 'dev-disk-by-label-x.device'; did you mean \
         'dev-disk-by\\x2dlabel-x.device'? [bad-unit-name]",
    );
}

/// Names and texts that make units unusable, and those that nearly do.
#[test]
fn bad_settings_are_those_of_systemd() {
    let start = "[Service]\nExecStart=/bin/true\n";
    let table = [
        ("t.service", "[Service]\nType=oneshot\n", "bad-setting"),
        ("t.service", "[Service]\nExecStop=/bin/true\n", "bad-setting"),
        ("t.service", "[Service]\nRemainAfterExit=yes\n", "bad-setting"),
        ("t.service", "[Service]\nRemainAfterExit=yes\nExecStop=/bin/true\n", "loaded"),
        ("t.service", "[Service]\nType=oneshot\nExecStop=/bin/true\n", "bad-setting"),
        ("t.service", "[Service]\nType=simple\nRemainAfterExit=yes\nExecStop=/b\n", "bad-setting"),
        ("t.service", "[Service]\nBusName=a.b\nRemainAfterExit=yes\nExecStop=/b\n", "bad-setting"),
        ("t.service", "[Service]\nType=oneshot\n[Unit]\nSuccessAction=reboot\n", "loaded"),
        ("t.service", "[Unit]\nDescription=x\n", "bad-setting"),
        ("t.service", &format!("{start}ExecStart=/bin/true\n"), "bad-setting"),
        ("t.service", &format!("{start}ExecStart=/bin/true\nType=oneshot\n"), "loaded"),
        ("t.service", &format!("{start}ExecStart=\n"), "bad-setting"),
        ("t.service", &format!("{start}ExecStart=\nExecStart=/bin/false\n"), "loaded"),
        ("t.service", &format!("{start}Type=dbus\n"), "bad-setting"),
        ("t.service", &format!("{start}Type=oneshot\nRestart=always\n"), "bad-setting"),
        ("t.service", &format!("{start}Type=oneshot\nRestart=on-failure\n"), "loaded"),
        ("t.service", &format!("{start}Type=oneshot\nRestart=always\nRestart=x\n"), "bad-setting"),
        ("t.service", &format!("{start}Type=dbus\nType=x\n"), "bad-setting"),
        ("t.service", &format!("{start}Type=oneshot\nExitType=cgroup\n"), "bad-setting"),
        ("t.service", &format!("{start}PAMName=x\nKillMode=none\n"), "bad-setting"),
        ("t.service", &format!("{start}WorkingDirectory=rel\n"), "bad-setting"),
        ("t.service", &format!("{start}WorkingDirectory=~\n"), "loaded"),
        ("t.service", &format!("{start}WorkingDirectory=-rel\n"), "loaded"),
        ("t.service", &format!("{start}WorkingDirectory=--/srv\n"), "loaded"),
        ("t.service", &format!("{start}RootDirectory=-/srv/jail\n"), "bad-setting"),
        ("t.service", &format!("{start}RootImage=-/srv/jail\n"), "bad-setting"),
        ("t.service", &format!("{start}User=a/b\n"), "bad-setting"),
        ("t.service", &format!("{start}User=00\n"), "bad-setting"),
        ("t.service", &format!("{start}Group=65535\n"), "bad-setting"),
        ("t.service", &format!("{start}User=a:b\n"), "bad-setting"),
        ("t.service", &format!("{start}User=123abc\nGroup=0\n"), "loaded"),
        ("t.service", &format!("{start}SupplementaryGroups=adm ..\n"), "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=/x\nSocketUser=00\n", "bad-setting"),
        ("t.service", &format!("{start}User=%z\n"), "bad-setting"),
        ("t.service", &format!("{start}ExecStartPre=a/b\n"), "bad-setting"),
        ("t.service", &format!("{start}ExecStartPre=-a/b\n"), "loaded"),
        ("t.service", &format!("{start}[broken\n"), "error"),
        ("a.socket", "[Socket]\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=80\nAccept=yes\nMaxConnections=0\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=80\nAccept=yes\nService=b.service\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenDatagram=80\nAccept=yes\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=0\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=/x\nSymlinks=/a\nListenStream=/y\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=/x\nSymlinks=/a\n", "loaded"),
        ("foo.mount", "[Mount]\nWhat=/dev/sda\n", "loaded"),
        ("foo.mount", "[Mount]\nWhat=/dev/sda\nWhere=/bar\n", "bad-setting"),
        ("foo.mount", "[Mount]\nWhere=/foo\n", "bad-setting"),
        ("foo.mount", "[Mount]\nWhat=/dev/sda\nUser=00\n", "bad-setting"),
        ("foo.mount", "[Mount]\nWhat=/dev/sda\nWorkingDirectory=x\n", "bad-setting"),
        ("foo.swap", "[Swap]\nWhat=/foo\nGroup=-1\n", "bad-setting"),
        ("a.socket", "[Socket]\nListenStream=/x\nRootDirectory=x\n", "bad-setting"),
        ("proc.mount", "[Mount]\nWhere=/proc\nWhat=proc\n", "bad-setting"),
        ("foo@a.mount", "[Mount]\nWhere=/foo@a\nWhat=x\n", "error"),
        ("foo.automount", "[Automount]\n", "loaded"),
        ("foo.automount", "[Automount]\nWhere=/bar\n", "bad-setting"),
        ("foo.automount", "[Automount]\nWhere=/foo/\n", "loaded"),
        ("foo--bar.slice", "[Slice]\n", "error"),
        ("foo@bar.slice", "[Slice]\n", "error"),
        ("foo.path", "[Path]\nPathExists=x\n", "bad-setting"),
        ("foo.timer", "[Timer]\n", "bad-setting"),
        ("foo.timer", "[Timer]\nOnCalendar=nonsense\n", "bad-setting"),
        ("foo.timer", "[Timer]\nOnBootSec=5\nOnCalendar=\n", "bad-setting"),
        ("foo.timer", "[Timer]\nOnClockChange=yes\n", "loaded"),
        ("foo.swap", "[Swap]\nWhat=/bar\n", "bad-setting"),
        ("foo@.service", start, "error"),
    ];
    let directory = std::env::temp_dir().join(format!("warren-verify-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let mut is_peer_there = true;
    for (name, text, want) in table {
        let name = UnitName::parse(name).expect("a valid name");
        let file = Arc::new(parse("f".into(), text.as_bytes(), name.unit_type()).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        assert_eq!(loaded.load_state.as_str(), want, "{name}: {text}");
        match peer_state(&directory, &name, text) {
            // It does not verify a template, and takes an instance of it instead.
            Some(state) if !name.is_template() => {
                assert_eq!(state, want, "systemd: {name}: {text}")
            }
            Some(_) => {}
            None => is_peer_there = false,
        }
    }
    std::fs::remove_dir_all(&directory).expect("our own directory can be removed");
    if !is_peer_there {
        warren_testkit::not_run("the comparison, systemd-analyze verify does not work here");
    }
}

/// systemd 252 does not know the setting.
#[test]
fn a_pid_namespace_excludes_what_its_end_would_end() {
    let name = UnitName::parse("t.service").expect("a valid name");
    for (more, want) in [
        ("PrivatePIDs=yes\nType=forking", "bad-setting"),
        ("PrivatePIDs=yes\nPAMName=x", "bad-setting"),
        ("PrivatePIDs=no\nPAMName=x\nType=forking", "loaded"),
        ("PrivatePIDs=yes\nType=notify", "loaded"),
    ] {
        let text = format!("[Service]\nExecStart=/bin/true\n{more}\n");
        let file = Arc::new(parse("f".into(), text.as_bytes(), name.unit_type()).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        assert_eq!(loaded.load_state.as_str(), want, "{more}");
    }
}

/// The load state that `systemd-analyze verify` reports for a unit, by what it prints.
fn peer_state(directory: &std::path::Path, name: &UnitName, text: &str) -> Option<&'static str> {
    let path = directory.join(name.as_str());
    std::fs::write(&path, text).expect("a file can be written");
    let mut command = std::process::Command::new("systemd-analyze");
    let out =
        command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&path).output().ok()?;
    std::fs::remove_file(&path).expect("our own file can be removed");
    let text = String::from_utf8_lossy(&out.stderr);
    Some(if text.contains("has a bad unit file setting") {
        "bad-setting"
    } else if text.contains("failed to load properly") || text.contains("Failed to load unit file")
    {
        "error"
    } else {
        "loaded"
    })
}

#[test]
fn units_without_a_file() {
    for (name, want) in [
        ("a.service", "not-found"),
        ("a.slice", "loaded"),
        ("dev-sda.device", "loaded"),
        ("-.mount", "loaded"),
        ("-.slice", "loaded"),
        ("init.scope", "loaded"),
        ("a.scope", "not-found"),
    ] {
        let name = UnitName::parse(name).expect("a valid name");
        let sources = Sources::default();
        let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
        assert_eq!(loaded.load_state.as_str(), want, "{name}");
    }
}

#[test]
fn dropins_and_links_add_up() {
    let name = UnitName::parse("a@x.service").expect("a valid name");
    let parse =
        |path: &str, text: &str| Arc::new(parse(path.into(), text.as_bytes(), UnitType::Service).0);
    let fragment = parse("f", "[Unit]\nWants=b.service\n[Service]\nExecStart=/bin/a\n");
    let dropins = [
        parse("1", "[Unit]\nWants=\nDescription=one\n[Service]\nExecStart=\nExecStart=/bin/b\n"),
        parse("2", "[Unit]\nDescription=two %i\n[broken\n"),
        parse("3", "[Unit]\nDescription=three %i\n[Service]\nUser=a/b\n"),
    ];
    let links = [(Relation::Wants, UnitName::parse("c@.service").expect("a valid name"))];
    let sources =
        Sources { fragment: Some(&fragment), dropins: &dropins, links: &links, masked: false };
    let (loaded, _) = load(&name, &sources, &Context::system(), &Defaults::default());
    assert_eq!(loaded.load_state, LoadState::Loaded);
    assert_eq!(&*loaded.description, "three x");
    let wants = loaded.relations.iter().filter(|(r, _)| *r == Relation::Wants);
    assert_eq!(wants.map(|(_, n)| n.as_str()).collect::<Vec<_>>(), ["b.service", "c@x.service"]);
}

#[test]
fn groups_and_rules_of_the_own_section_are_edges() {
    check(
        "a.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/true\nStandardOutput=null\n\
         [X-Warren]\nRequireAny=b.service c@.service\nOptionalAll=d.service\nExcludeAll=e.service\n\
         RestartOn=error b.service d.service\nRestartOn= none  e.service\nRestartOn=often b.service\n\
         RestartOn=refresh\n",
        "loaded
         Requires system.slice
         After system.slice
         RequireAny b.service c@a.service
         OptionalAll d.service
         ExcludeAll e.service
         RestartOnNone e.service
         RestartOnError b.service d.service
         Slice system.slice
         f:12:11: warning: RestartOn=: 'often' is not one of none, error, restart, refresh, ignored [bad-value]
         f:13:11: warning: RestartOn=: unit names are missing after the action, ignored [bad-value]",
    );
}
