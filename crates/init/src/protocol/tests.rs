use super::control::{InitMessage, InitRequest, pack_name, unpack_names};
use super::exec::*;
use super::*;
use warren_sandbox::credentials::{Credential, Source};
use warren_sandbox::images::{Image, Place, Role};
use warren_sandbox::mounts::{
    Access, Content, Entry, Namespaces, Plan, Propagation, Shared, UserMap,
};

#[test]
fn packets_come_back_as_they_went() {
    let request = SpawnRequest { id: 7, exec: Box::default() };
    let packet = encode(&request).expect("small");
    assert_eq!(packet.first(), Some(&SpawnRequest::VERSION));
    assert_eq!(decode(&packet), Ok(request));

    let store = InitRequest::StoreFd { name: "state" };
    let mut buffer = [0; 64];
    let packet = encode_into(&store, &mut buffer).expect("small");
    assert_eq!(decode(packet), Ok(store));
}

#[track_caller]
fn check_refused(packet: &[u8], expected: WireError) {
    assert_eq!(decode::<HelperReply>(packet), Err(expected.clone()));
    assert_eq!(decode::<InitMessage<'_>>(packet).map(|_| ()), Err(expected));
}

#[test]
fn damaged_packets_are_refused() {
    check_refused(&[], WireError::Empty);
    check_refused(&[9, 1, 2], WireError::Version(9));
    for rest in [&[][..], &[99, 0, 0]] {
        let (of_helper, of_init) =
            ([&[HelperReply::VERSION], rest].concat(), [&[InitMessage::VERSION], rest].concat());
        assert_eq!(decode::<HelperReply>(&of_helper), Err(WireError::Malformed));
        assert_eq!(decode::<InitMessage<'_>>(&of_init).map(|_| ()), Err(WireError::Malformed));
    }
    let mut packet = encode(&HelperReply::Refused { message: String::new() }).expect("small");
    packet.push(0);
    assert_eq!(decode::<HelperReply>(&packet), Err(WireError::Malformed));
    assert_eq!(encode_into(&InitRequest::Hello, &mut [0; 1]), Err(WireError::TooLarge));
}

#[test]
fn no_cut_of_a_packet_is_understood() {
    let request = SpawnRequest { id: 300, exec: Box::default() };
    let packet = encode(&request).expect("small");
    for end in 0..packet.len() {
        assert!(decode::<SpawnRequest>(&packet[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn names_are_packed_until_the_buffer_is_full() {
    let mut buffer = [0; 12];
    let mut used = 0;
    assert!(pack_name(&mut buffer, &mut used, "abc"));
    assert!(pack_name(&mut buffer, &mut used, "ä"));
    assert!(!pack_name(&mut buffer, &mut used, "xy"));
    assert_eq!(unpack_names(&buffer[..used]).collect::<Vec<_>>(), ["abc", "ä"]);
    assert_eq!(unpack_names(&[5, 0, b'a']).count(), 0);
}

#[test]
fn exit_codes_are_those_of_the_manual() {
    assert_eq!(ExecStep::Exec.exit_code(), 203);
    assert_eq!(ExecStep::ConfigurationDirectory.exit_code(), 241);
    let codes: Vec<i32> = ExecStep::ALL.iter().map(|step| step.exit_code()).collect();
    assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
}

/// A request with something in every field, the last choice where there is one.
fn full_request() -> SpawnRequest {
    let text = || "t".to_owned();
    let exec = ExecSpec {
        required_features: vec![text()],
        path: text(),
        search_path: text(),
        argv: vec![text()],
        env: vec![text()],
        unset_env: vec![text()],
        login_defaults: vec![text()],
        cgroup: CgroupPlace::Fd(1),
        marks: Some(1),
        keep_session: true,
        listen_fds: vec![2],
        open_files: vec![FileToOpen {
            path: text(),
            name: text(),
            how: HowToOpen::Truncate,
            is_optional: true,
            non_blocking: true,
        }],
        listen_names: vec![text()],
        set_listen_fds: true,
        set_listen_names: true,
        set_listen_pid: true,
        set_exec_pid: true,
        set_watchdog_pid: true,
        stdin: StdInput::Tty(TtyMode::Force),
        stdout: StdOutput::Log(text()),
        stderr: StdOutput::Truncate(text()),
        tty_path: text(),
        working_directory: WorkingDirectory {
            place: DirectoryPlace::Path(text()),
            ignore_missing: true,
        },
        root_directory: Some(text()),
        user: Some(text()),
        group: Some(text()),
        supplementary_groups: vec![text()],
        keeps_ids: true,
        login_user: Some(text()),
        session: Some(text()),
        login_record: Some(LoginRecord { id: text(), until: LoginKind::User }),
        rlimits: vec![Rlimit { resource: 1, soft: 2, hard: 3 }],
        nice: Some(1),
        oom_score_adjust: Some(1),
        umask: Some(1),
        ignore_sigpipe: true,
        scheduling: Some(Scheduling { policy: 1, priority: 2, reset_on_fork: true }),
        cpu_affinity: Some(vec![1]),
        io_priority: Some(IoPriority { class: 1, level: 2 }),
        timer_slack_ns: Some(1),
        coredump_filter: Some(1),
        memory_ksm: Some(true),
        nft_sets: vec![NftSet {
            source: NftSource::Cgroup(1),
            family: 2,
            table: text(),
            name: text(),
        }],
        numa: Some(Numa { policy: Some(1), nodes: Some(vec![(1, 2)]) }),
        cpu_affinity_of_nodes: true,
        labels: vec![Label { module: SecurityModule::Smack, label: text(), is_optional: true }],
        capability_bounding_set: Some(1),
        ambient_capabilities: 2,
        secure_bits: Some(3),
        no_new_privileges: true,
        system_call_filter: vec![4, 5],
        architecture_filter: vec![6],
        personality: Some(1),
        keyring: Keyring::Shared,
        directories: vec![Directories {
            kind: DirectoryKind::Configuration,
            base: text(),
            names: vec![text()],
            mode: 1,
            links: vec![(text(), text())],
            private: true,
        }],
        terminal: Some(TerminalUse {
            hangup: true,
            reset: true,
            disallocate: true,
            rows: Some(1),
            columns: Some(2),
        }),
        view: View {
            plan: Plan {
                entries: vec![
                    Entry {
                        path: text(),
                        in_root: true,
                        optional: true,
                        content: Content::Bind { source: text(), recursive: true, read_only: true },
                    },
                    Entry {
                        path: text(),
                        in_root: false,
                        optional: false,
                        content: Content::Access(Access { write: Some(true), execute: None }),
                    },
                ],
                images: vec![Image {
                    path: text(),
                    optional: true,
                    place: Place::Path(text()),
                    options: vec![(Role::Usr, text())],
                }],
                root_options: vec![(Role::Root, text())],
                private_tmp: true,
                private_mounts: true,
                propagation: Propagation::Private,
                namespaces: Namespaces {
                    host_name: true,
                    host_name_is: Some(text()),
                    control_groups: true,
                    network: Shared::Private,
                    ipc: Shared::Path(text()),
                    processes: true,
                    users: Some(UserMap::Full),
                },
                bare_root: true,
            },
            private_tmp: text(),
            must_hold: true,
            credentials: vec![Credential {
                id: text(),
                source: Source::Value(vec![7]),
                is_sealed: true,
            }],
            unit: text(),
            store: Some([8, 9]),
            ephemeral_root: text(),
        },
        watches_memory_of: Some(text()),
        delegated: vec![text()],
        served: Served {
            users: vec![ServedUser { name: text(), entry: Some(text()), groups: vec![1] }],
            groups: vec![ServedGroup { name: text(), entry: Some(text()) }],
        },
    };
    SpawnRequest { id: 300, exec: Box::new(exec) }
}

fn hex(packet: &[u8]) -> String {
    packet.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails when a type of a language was changed. Helpers: raise the version, then change the bytes
/// here. Init: an older one must understand what is said to it, so these bytes never change.
#[track_caller]
fn check_bytes<T: Serialize + Packet>(message: &T, expected: &str) {
    assert_eq!(hex(&encode(message).expect("small")), expected);
}

#[test]
fn the_language_of_helpers_is_the_one_of_its_version() {
    check_bytes(
        &full_request(),
        "0eac02010174017401740101740101740101740101740201010101010201017401740301010101740101010101030107017405017401740101010101010102020174010101740101740101740101740101017401017401017402010102030101010201010101010201010101010102010101010101010001020174017401010101010102010102017401010102010301020405010601010201040174010174010101017401740201740101020174010101740000000101000101740101017401010174010001740101020101017401010201740101020101740101017400010701017401080901740101740101740101740101740101010174010174",
    );
    let spawned = Spawned {
        pid: 1,
        started_ns: 2,
        moved_to_cgroup: true,
        missing: Missing {
            mounts: true,
            host_name: true,
            network: true,
            ipc: true,
            labels: true,
            processes: true,
            page_merging: true,
            nft_sets: true,
        },
    };
    check_bytes(
        &HelperReply::Spawned(SpawnReply { id: 3, result: Ok(spawned) }),
        "080003000202010101010101010101",
    );
    let error =
        SpawnError { step: ExecStep::Exec, errno: 2, message: "t".to_owned(), pid: Some(7) };
    check_bytes(
        &HelperReply::Spawned(SpawnReply { id: 3, result: Err(error) }),
        "0800030105040174010e",
    );
    let error = SpawnError { step: ExecStep::Pam, errno: 0, message: "t".to_owned(), pid: None };
    check_bytes(
        &HelperReply::Spawned(SpawnReply { id: 3, result: Err(error) }),
        "080003011900017400",
    );
    check_bytes(&HelperReply::Refused { message: "t".to_owned() }, "08010174");
}

#[test]
fn the_first_question_and_its_answer_never_change() {
    assert_eq!(hex(&Sync(0x0102).packet()), "fe0201000000000000");
    let answer = Synced { number: 0x0102, requests: 3, replies: 4 };
    assert_eq!(hex(&answer.packet()), "fe02010000000000000304");
    assert_eq!(Synced::parse(&answer.packet()), Some(answer));
    assert_eq!(Synced::parse(&Sync(1).packet()), None);
    assert_eq!(Sync::parse(&answer.packet()), None);
    const { assert!(SpawnRequest::VERSION < SYNC && HelperReply::VERSION < SYNC) }
}

#[test]
fn the_language_of_init_never_changes() {
    use super::control::{
        CrashEnd, InitMessage::*, InitRequest, OnCrash, PowerAction, Refusal, StartReason,
    };
    let on_crash = |terminal, end| OnCrash { dumps_core: true, starts_shell: false, terminal, end };
    for (request, bytes) in [
        (InitRequest::Hello, "0100"),
        (InitRequest::StoreFd { name: "n" }, "0101016e"),
        (InitRequest::DropFd { name: "n" }, "0102016e"),
        (InitRequest::Accept { token: 1, listener: "l", name: "n" }, "010301016c016e"),
        (InitRequest::ListFds, "0104"),
        (InitRequest::Power(PowerAction::Reboot), "010500"),
        (InitRequest::Power(PowerAction::PowerOff), "010501"),
        (InitRequest::Power(PowerAction::Halt), "010502"),
        (InitRequest::Power(PowerAction::Kexec), "010503"),
        (InitRequest::Power(PowerAction::Exit(9)), "01050409"),
        (InitRequest::Power(PowerAction::SoftReboot), "010505"),
        (InitRequest::Ping { n: 1 }, "010601"),
        (InitRequest::EndHelper { index: 1 }, "010701"),
        (InitRequest::OnCrash(on_crash(None, CrashEnd::Freeze)), "010801000000"),
        (InitRequest::OnCrash(on_crash(Some(7), CrashEnd::PowerOff)), "01080100010702"),
        (InitRequest::OnCrash(on_crash(None, CrashEnd::Reboot)), "010801000001"),
    ] {
        check_bytes(&request, bytes);
    }
    let welcome = |reason| {
        Welcome(super::control::Welcome {
            incarnation: 1,
            instance: [2; 16],
            reason,
            init_pid: 3,
            helpers: 4,
            stored_fds: 5,
            heartbeat_ms: 6,
            init_started_ns: 7,
        })
    };
    for (message, bytes) in [
        (welcome(StartReason::First), "01000102020202020202020202020202020202000604050607"),
        (welcome(StartReason::Asked), "01000102020202020202020202020202020202010604050607"),
        (welcome(StartReason::Exited(8)), "0100010202020202020202020202020202020202100604050607"),
        (welcome(StartReason::Killed(9)), "0100010202020202020202020202020202020203120604050607"),
        (welcome(StartReason::Hung), "01000102020202020202020202020202020202040604050607"),
        (welcome(StartReason::SoftReboot), "01000102020202020202020202020202020202050604050607"),
        (Fds { names: b"\x01\0n", last: true }, "01010301006e01"),
        (Helper { index: 1 }, "010201"),
        (Signal { signo: 1 }, "010301"),
        (Pong { n: 1 }, "010401"),
        (Accepted { token: 1, errno: 2 }, "01050104"),
        (Refused { why: Refusal::Malformed, name: "n" }, "010600016e"),
        (Refused { why: Refusal::BadName, name: "n" }, "010601016e"),
        (Refused { why: Refusal::NoFd, name: "n" }, "010602016e"),
        (Refused { why: Refusal::StoreFull, name: "n" }, "010603016e"),
    ] {
        check_bytes(&message, bytes);
    }
}
