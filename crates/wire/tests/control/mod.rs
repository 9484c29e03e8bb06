//! Messages of the control socket: a request and an answer of each method.

use std::collections::BTreeMap;

use warren_wire::call::Received;
use warren_wire::control::*;

use super::{check_message, check_read_back};

/// Names of the golden files.
pub fn names() -> Vec<String> {
    let of = |method: &Method| {
        ["request", "answer"].map(|what| format!("{}-{what}.json", method.name()))
    };
    let one = ["error.json", "Why-answer-one.json", "JobsRow-refused.json"].map(str::to_owned);
    Method::ALL.iter().flat_map(of).chain(one).collect()
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A request as it is sent, and how the manager reads it.
#[track_caller]
fn request<C: Call + PartialEq + std::fmt::Debug>(call: C, read: impl Fn(C) -> Request) {
    let name = format!("control-{VERSION}/{}-request.json", C::METHOD.name());
    let message = check_message(&name, &write_request(&call, C::METHOD == Method::Jobs));
    let received = Received::read(&message).expect("it is JSON");
    let method = Method::from_full_name(&received.method).expect("it has a method");
    assert_eq!(Request::read(method, received.parameters), Ok(read(call)));
}

/// An answer as it is sent, and how `warren` reads it.
#[track_caller]
fn answer<C: Call>(answer: C::Answer)
where
    C::Answer: PartialEq + std::fmt::Debug,
{
    answer_called::<C::Answer>(
        &format!("{}-answer", C::METHOD.name()),
        answer,
        C::METHOD == Method::Jobs,
    );
}

#[track_caller]
fn answer_called<A>(name: &str, answer: A, continues: bool)
where
    A: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    check_read_back(&answer);
    let name = format!("control-{VERSION}/{name}.json");
    let message = check_message(&name, &write_answer(&answer, continues));
    let read = Reply::<A>::read(&message).expect("it is an answer");
    assert_eq!(read, Reply::Answer { answer, continues });
}

#[test]
fn requests() {
    let unit = || some("web.service");
    let texts = |texts: &[&str]| Texts(texts.iter().map(|&one| text(one)).collect());
    let list = List {
        patterns: texts(&["web*", "db.service"]),
        state: texts(&["failed"]),
        unit_type: texts(&["service", "socket"]),
    };
    request(list, Request::List);
    request(Status { unit: unit(), pid: None }, Request::Status);
    request(FileState { unit: unit() }, Request::FileState);
    request(Why { unit: unit() }, Request::Why);
    request(Devices {}, Request::Devices);
    request(Timers {}, Request::Timers);
    request(Cat { unit: unit(), pid: Some(7) }, Request::Cat);
    request(Records {}, Request::Records);
    let record = Record {
        name: some("boot-1.record"),
        since_us: Some(1),
        until_us: Some(2),
        subject: some("boot"),
    };
    request(record, Request::Record);
    request(Top {}, Request::Top);
    let metrics = Metrics { units: Texts(vec![text("web-*")]), units_max: 100, timers_max: 20 };
    request(metrics, Request::Metrics);
    request(Overview { changed_since_us: Some(5) }, Request::Overview);
    request(Totals {}, Request::Totals);
    request(Verify { unit: unit() }, Request::Verify);
    request(Shutdown {}, Request::Shutdown);
    request(StopPlan { unit: unit() }, Request::StopPlan);
    request(Reloads {}, Request::Reloads);
    request(Unprotected {}, Request::Unprotected);
    let job = Job {
        unit: unit(),
        job_type: Some(JobType::Restart),
        mode: some("replace"),
        reload_if_possible: true,
        wait: Some(true),
        comment: some("new disks"),
    };
    request(job, Request::Job);
    let jobs = Jobs {
        units: vec![text("a.service"), text("b.service")],
        job_type: Some(JobType::Stop),
        mode: some("fail"),
        reload_if_possible: false,
        wait: Some(false),
        comment: some("new disks"),
    };
    request(jobs, Request::Jobs);
    let reload = ReloadConfiguration {
        full: true,
        dry_run: false,
        rules_only: true,
        texts: false,
        unit: unit(),
        rollback: Some(3),
    };
    request(reload, Request::ReloadConfiguration);
    let files = UnitFiles {
        verb: UnitFileVerb::PresetAll,
        files: vec![text("web.service"), text("/srv/db.service")],
        mode: some("enable-only"),
        runtime: true,
        force: false,
        comment: some("moved"),
    };
    request(files, Request::UnitFiles);
    let kill = Kill { unit: unit(), whom: Some(KillWhom::Main), signal: Some(15) };
    request(kill, Request::Kill);
    request(ResetFailed { unit: unit() }, Request::ResetFailed);
    request(Reexecute {}, Request::Reexecute);
    let leave = Leave {
        how: Some(LeaveHow::SoftReboot),
        after: some("5min"),
        at: some("23:00"),
        message: some("disks"),
        ignore_inhibitors: Some(true),
    };
    request(leave, Request::Leave);
    request(CancelLeave {}, Request::CancelLeave);
    request(Hurry { unit: unit() }, Request::Hurry);
    let mark = Mark { unit: unit(), mark: MarkAs::Maintenance, comment: some("disks") };
    request(mark, Request::Mark);
    request(Clear { unit: unit() }, Request::Clear);
    let inhibit = Inhibit { what: some("shutdown"), who: some("backup"), why: some("half done") };
    request(inhibit, Request::Inhibit);
}

fn row() -> UnitRow {
    UnitRow {
        name: text("web.service"),
        load: LoadState::Loaded,
        active: ActiveState::Activating,
        sub: text("start-pre"),
        description: text("The web"),
        job: Some(JobRow { id: 7, kind: JobKind::Start, running: true }),
    }
}

fn cause() -> Cause {
    Cause { kind: CauseKind::Request, uid: Some(0), pid: Some(Some(44)), unit: None }
}

fn reason() -> ReasonAnswer {
    ReasonAnswer {
        code: text("WR-0010").into(),
        text: text("a start job brought it up"),
        cure: text("none"),
        cause: Some(cause()),
    }
}

fn diagnostic() -> Diagnostic {
    Diagnostic {
        path: text("/etc/systemd/system/web.service"),
        line: 3,
        column: 1,
        severity: Severity::Warning,
        code: text("unknown-setting"),
        message: text("no setting is called Foo"),
    }
}

fn remark() -> Remark {
    let by = Cause { kind: CauseKind::Request, uid: Some(7), pid: None, unit: None };
    Remark { of: text("mask"), text: text("moved"), by: Some(by), at: Some(1_795_000_000_000_000) }
}

fn rule() -> RuleOrigin {
    let target = RuleTarget { name: text("Container 'shop'"), path: text("c.conf"), line: 1 };
    RuleOrigin {
        rule: text("apply Service \"web\""),
        path: text("r.conf"),
        line: 3,
        target: Some(target),
        unit: None,
        through: None,
    }
}

fn restart() -> RestartAnswer {
    let before = RestartBefore {
        reason: reason(),
        ended: some("main process 43 was ended by SIGABRT"),
        at: Some(1_794_999_999_000_000),
    };
    RestartAnswer {
        count: 2,
        waits: true,
        next_in_us: Some(1_250_000),
        next_at: Some(1_795_000_001_250_000),
        limit: Some(StartLimit { starts: 3, burst: 5, interval_us: 10_000_000 }),
        before: Some(before),
    }
}

fn status() -> StatusAnswer {
    let related = |name: &str| RelatedUnit { name: text(name), active: ActiveState::Active };
    StatusAnswer {
        row: row(),
        files: vec![text("/etc/systemd/system/web.service")],
        made_by: vec![rule()],
        hides: vec![rule()],
        file_state: some("enabled"),
        differs_on_disk: true,
        since: Some(1_795_000_000_000_000),
        active_since: None,
        main_pid: Some(12),
        control_pid: Some(13),
        status_text: text("serving"),
        result: text("success"),
        restarts: 2,
        restart: Some(restart()),
        ended: some("main process 11 left with exit code 1"),
        processes: vec![ProcessRow { pid: 12, command: text("/usr/bin/web --port 80") }],
        memory: Some(5_242_880),
        cpu_ns: Some(81_000_000),
        tasks: Some(3),
        cgroup: text("/system.slice/web.service"),
        reason: reason(),
        load_fault: Some(diagnostic()),
        remarks: vec![remark()],
        log: vec![text("line one")],
        log_withheld: false,
        triggers: vec![related("a.service")],
        triggered_by: vec![related("web.socket")],
        documentation: vec![text("man:web(8)")],
        listen: vec![Listening { kind: text("Stream"), address: text("[::]:80") }],
        connections: Some(SocketConnections { now: 2, accepted: 17, refused: 1 }),
        what: some("tmpfs"),
        where_: some("/srv"),
        timer: Some(timer()),
    }
}

fn step() -> WhyStep {
    let unit =
        Cause { kind: CauseKind::Dependency, unit: Some(some("db.service")), ..Cause::default() };
    WhyStep {
        row: UnitRow { job: None, ..row() },
        reason: ReasonAnswer { cause: Some(unit), ..reason() },
        unmet: Some(vec![text("ConditionPathExists=/nope")]),
        unmet_then: None,
        load_fault: None,
        made_by: vec![rule()],
        refusal: Some(Refusal {
            text: text("Unit gone.service is masked."),
            by: Some(cause()),
            at: Some(1_795_000_000_000_000),
        }),
        detail: text("serving"),
        device: some("no such device was seen"),
        timer: Some(timer()),
        remarks: vec![remark()],
        ended: some("main process 44 left with exit code 3"),
        command_ended: some("ExecStop= command 9 left with exit code 5"),
        restart: Some(restart()),
        since: None,
        result: text("exit-code"),
        under_way: Some(UnderWay {
            so_far_us: 12_300_000,
            left_us: Some(77_700_000),
            process: some("pid 7 migrate"),
            server: None,
        }),
        lost_job: Some(LostJob {
            kind: JobKind::Stop,
            result: JobResult::Canceled,
            at: None,
            reason: reason(),
        }),
        waits_for: some("b.service"),
        waits_for_also: vec![text("c.service")],
        waits_for_more: 7,
        removal: Some(Removal { unit: text("left.service"), path: text("/run/files/never") }),
        left_over: vec![text("cat (pid 31, held by the kernel)")],
        log: vec![text("line one")],
    }
}

fn wait() -> ShutdownWait {
    ShutdownWait {
        unit: some("db.service"),
        phase: text("stop-sigterm"),
        pid: Some(7),
        process: some("pid 7 postgres"),
        server: some("/srv (nfs4 of host:/export)"),
        so_far_us: 2_500_000,
        left_us: None,
    }
}

fn planned() -> PlannedShutdown {
    PlannedShutdown { what: text("power off"), left_us: 2_000_000, message: text("new disks") }
}

fn lock() -> InhibitorLock {
    InhibitorLock { who: text("backup"), why: text("half done"), uid: 0, pid: None }
}

#[test]
fn answers_about_units() {
    answer::<List>(ListAnswer { units: vec![row(), UnitRow { job: None, ..row() }] });
    answer::<Status>(status());
    answer::<FileState>(FileStateAnswer { state: some("enabled") });
    let stop = |name: &str, because_of| PlannedStop {
        name: text(name),
        active: ActiveState::Active,
        because_of,
    };
    answer::<StopPlan>(StopPlanAnswer {
        stops: vec![stop("db.service", None), stop("web.service", some("db.service"))],
        started_by: vec![RelatedUnit { name: text("db.socket"), active: ActiveState::Active }],
    });
    let services = vec![UnprotectedService { name: text("web.service"), user: text("www") }];
    answer::<Unprotected>(UnprotectedAnswer { up: 9, total: 1, services });
    let one = |name: &str| ChangedUnits { total: 1, names: vec![text(name)] };
    answer::<Reloads>(ReloadsAnswer {
        since_us: 1_795_000_000_000_000,
        reloads: vec![PastReload {
            at_us: 1_795_000_060_000_000,
            generation: 3,
            added: one("a.service"),
            changed: one("b.service"),
            removed: ChangedUnits::default(),
        }],
    });
    let unit =
        WhyUnit { unit: text("web.service"), path: vec![step()], impact: vec![text("a.target")] };
    let one =
        WhyAnswer { units: vec![unit.clone()], log_withheld: Some(true), ..WhyAnswer::default() };
    answer_called("Why-answer-one", one, false);
    answer::<Why>(WhyAnswer {
        units: vec![unit],
        log_withheld: Some(false),
        stopping: Some(true),
        waits: Some(vec![wait()]),
        unwritten_bytes: Some(None),
        planned: Some(Some(planned())),
        inhibitors: Some(vec![lock()]),
    });
    answer::<Verify>(VerifyAnswer { load: LoadState::BadSetting, diagnostics: vec![diagnostic()] });
    answer::<Job>(JobEnd { job: None, result: Some(JobResult::Done) });
    let row = JobsRow { unit: some("a.service"), job: Some(4), ..JobsRow::default() };
    answer::<Jobs>(row);
    let refused = JobsRow {
        error: Some(ErrorName::UnitRefused),
        message: some("Unit a.service is masked."),
        unit: some("a.service"),
        ..JobsRow::default()
    };
    answer_called("JobsRow-refused", refused, true);
}

#[test]
fn answers_about_files() {
    let file = CatFile { path: text("/a"), text: text("[Unit]\n"), ..CatFile::default() };
    let withheld = CatFile { withheld: Some(true), ..file.clone() };
    let unread = CatFile { unread: some("Input/output error (os error 5)"), ..file.clone() };
    answer::<Cat>(CatAnswer { files: vec![file, withheld, unread] });
    let through = Through { setting: text("WantedBy"), unit: text("s-a.slice") };
    let made = RuleOrigin { unit: some("n.service"), through: Some(through), ..rule() };
    answer::<ReloadConfiguration>(ReloadAnswer {
        texts: vec![FileText { path: text("n.service"), before: None, after: some("[Unit]\n") }],
        generation: 4,
        added: vec![text("n.service")],
        changed: vec![text("c.service")],
        removed: vec![text("r.socket")],
        needs_restart: vec![text("c.service")],
        made_by: vec![made],
        diagnostics: vec![diagnostic()],
        files_looked_at: 12,
        files_parsed: 2,
        took_us: 4310,
        loop_us: 198,
    });
    let change = FileChange { kind: text("symlink"), path: text("/x"), source: text("/y") };
    answer::<UnitFiles>(UnitFilesAnswer {
        changes: vec![change],
        carries_install_info: Some(true),
        remarks: vec![text("No.")],
    });
    let record =
        RecordRow { name: text("boot-1.record"), subject: text("boot"), began_us: 5, bytes: 6 };
    let under_way = RecordUnderWay { subject: text("boot"), since_us: 7 };
    answer::<Records>(RecordsAnswer {
        records: vec![record],
        trouble: some("/x: No space left on device"),
        under_way: Some(under_way),
    });
    answer::<Record>(RecordAnswer { data: text("V0FSUkVO") });
}

#[test]
fn answers_about_the_host() {
    let counts = |word: &str| BTreeMap::from([(text(word), 2010)]);
    answer::<Totals>(TotalsAnswer {
        version: text("warrener 0.1.0"),
        loaded: 4018,
        by_state: counts("active"),
        by_type: counts("mount"),
        jobs: 1,
        failed: 2,
        generation: 3,
        state: text("running"),
        started: Some(true),
        stopping: false,
        load_us: 84_000,
        startup_us: 310_000,
        resident_bytes: 21_000_000,
        pid: 2,
    });
    answer::<Metrics>(MetricsAnswer {
        version: text("0.1.0"),
        now_us: 1_764_000_000_000_000,
        state: text("degraded"),
        manager: ManagerMetrics {
            pid: 2,
            restarts: 1,
            cpu_us: 2_500_000,
            resident_bytes: 56_000_000,
            descriptors: Some(812),
            descriptors_max: 262_144,
            loaded: 40_000,
            generation: 7,
            stopping: false,
        },
        turns: Histogram { bounds_us: vec![100, 1_000], counts: vec![5, 3, 1], sum_us: 4_200 },
        reloads: ReloadMetrics {
            count: 2,
            took_us: 2_400,
            loop_us: 100,
            last_took_us: 1_200,
            last_loop_us: 50,
            under_way_us: Some(10),
        },
        jobs: JobMetrics {
            running: 1,
            waiting: 2,
            running_us: 90_000_000,
            waiting_us: 80_000_000,
            ever: 32_000,
            failed_ever: 3,
        },
        units: vec![UnitCount { kind: text("service"), state: "failed".into(), count: 2 }],
        failures: BTreeMap::from([(text("WR-0030"), 2)]),
        restarts: BTreeMap::from([(text("WR-0031"), 9)]),
        devices_waiting: 1,
        device_wait_us: 90_000_000,
        devices_seen: true,
        boot: BootMetrics {
            load_us: 300_000,
            startup_us: 1_130_000,
            finished_us: 1_763_000_000_000_000,
        },
        shutdown_record: some("shutdown-1763000000000000.wrec"),
        timers_total: 1,
        timers: vec![TimerRow { name: text("backup.timer"), missed: 2, ..TimerRow::default() }],
        log: Some(LogCounts { entries: 1_000_000, ..LogCounts::default() }),
        cgroup_root: some("/sys/fs/cgroup"),
        rows_total: 1,
        rows: vec![UnitMetrics {
            name: text("web-1.service"),
            active: "failed".into(),
            code: text("WR-0030").into(),
            since_us: Some(1_763_900_000_000_000),
            restarts: 4,
        }],
    });
    answer::<Top>(TopAnswer {
        now_us: 1,
        cpu_us: 2,
        resident_bytes: 3,
        generation: 4,
        stopping: true,
        reloading_us: Some(5),
        jobs_ever: Some(6),
        loaded: 7,
        active: 8,
        restarts: 9,
        jobs: 10,
        jobs_running: 11,
        job_rows: vec![TopJob {
            unit: text("slow.service"),
            kind: JobKind::Start,
            age_us: 61_500_000,
            waits_for: 3,
            waits_on: some("db.service"),
        }],
        waits_total: 12,
        waits: vec![wait()],
        unwritten_bytes: Some(13),
        failed_total: 14,
        failed: vec![TopFailed {
            unit: text("db.service"),
            code: text("WR-0040").into(),
            text: text("it left"),
        }],
        restarting: vec![TopRestarting {
            unit: text("flaky.service"),
            code: text("WR-0046").into(),
            text: text("no food"),
            restarts: 17,
        }],
        slices: vec![TopSlice {
            name: text("a.slice"),
            cpu_us: Some(15),
            memory_bytes: Some(16),
            read_bytes: None,
            written_bytes: None,
            tasks: Some(17),
        }],
    });
    answer::<Overview>(OverviewAnswer {
        now_us: 1,
        set: 2,
        units_total: 3,
        cgroup_root: some("/sys/fs/cgroup/warren"),
        slices: vec![text("system.slice")],
        targets: vec![text("Container 'a'")],
        texts: BTreeMap::from([(text("WR-0040"), text("it left"))]),
        rows: vec![OverviewRow {
            name: text("web.service"),
            active: ActiveState::Failed,
            sub: text("failed"),
            code: text("WR-0040").into(),
            slice: Some(0),
            target: Some(0),
            cause: some("db.service"),
            since_us: Some(4),
            restarts: 5,
            hidden_by: some("/etc/systemd/system/web.service"),
        }],
    });
    answer::<Shutdown>(ShutdownAnswer {
        stopping: true,
        follows: some("reboot"),
        jobs: 2,
        waits: vec![wait()],
        unwritten_bytes: Some(5),
        planned: Some(planned()),
        planned_by_logind: Some(LogindPlan { mode: text("reboot"), left_us: 60_000_000 }),
        inhibitors: vec![lock()],
    });
    let user = DeviceUser { name: text("home.mount"), active: ActiveState::Active, waits: false };
    let device = DeviceRow {
        path: text("/sys/devices/block/sda"),
        names: vec![text("/dev/sda")],
        ready: true,
        note: text("LVM2"),
        size: 9,
        part_of: some("vg:1"),
        made_of: None,
        users: vec![user.clone()],
    };
    let group =
        DeviceGroup { id: text("vg:1"), name: text("vg data"), up: true, state: text("up") };
    let wait = DeviceWait { unit: text("dev-x.device"), why: some("not seen"), users: vec![user] };
    answer::<Devices>(DevicesAnswer {
        seeing: true,
        devices: vec![device],
        groups: vec![group],
        waiting: vec![wait],
    });
}

fn timer() -> TimerRow {
    TimerRow {
        name: text("a.timer"),
        active: ActiveState::from("active"),
        sub: text("waiting"),
        unit: text("a.service"),
        unit_active: ActiveState::from("inactive"),
        next_us: Some(3),
        last_us: Some(2),
        took_us: Some(1),
        missed: 4,
    }
}

#[test]
fn answers_about_timers() {
    answer::<Timers>(TimersAnswer { now_us: 5, timers: vec![timer()] });
}

#[test]
fn answers_that_say_that_it_is_done() {
    answer::<Kill>(Done {});
    answer::<ResetFailed>(Done {});
    answer::<Reexecute>(Done {});
    answer::<Leave>(Done {});
    answer::<CancelLeave>(Done {});
    answer::<Hurry>(Done {});
    answer::<Mark>(Done {});
    answer::<Clear>(Done {});
    answer::<Inhibit>(Done {});
}

#[test]
fn refusals() {
    let bytes = write_error(&ErrorName::NoSuchUnit, "Unit web.service not found.");
    let message = check_message(&format!("control-{VERSION}/error.json"), &bytes);
    let message = Reply::<Done>::read(&message).expect("it is a reply");
    let error = ErrorName::NoSuchUnit;
    assert_eq!(message, Reply::Refused { error, message: text("Unit web.service not found.") });
}
