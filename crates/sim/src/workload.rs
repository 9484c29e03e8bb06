//! Random plans: unit files as real ones are tied together, and requests as real ones come.

use warren_core::model::job::JobMode;
use warren_unit::UnitName;

use crate::faults::Faults;
use crate::random::Random;
use crate::script::{Action, Plan};
use crate::units::UnitTexts;
use crate::{devices, groups, slice_plans};

/// Units of a random plan at most, those without a file not counted.
const UNITS_MAX: u64 = 8;

/// The plan of `seed` with up to `steps` actions.
pub fn draw(seed: u64, steps: u64) -> Plan {
    let mut random = Random::new(seed);
    let faults = Faults::draw(&mut random.fork());
    let names = draw_names(&mut random);
    let mut units = UnitTexts::default();
    let mut texts = random.fork();
    for name in &names {
        let text = draw_text(&mut texts, name, &names);
        units.set(UnitName::parse(name).expect("drawn names are valid"), text);
    }
    let actions = draw_actions(&mut random.fork(), &names, steps);
    let mut plan = Plan { seed, faults, units, actions };
    devices::draw(&mut plan);
    groups::draw(&mut plan);
    draw_freezing(&mut plan);
    draw_directories(&mut plan);
    draw_users(&mut plan);
    draw_paths(&mut plan);
    draw_datagrams(&mut plan);
    draw_names_on_the_bus(&mut plan);
    draw_soft_reboot(&mut plan);
    draw_timers(&mut plan);
    draw_end_without_stops(&mut plan);
    draw_scopes(&mut plan);
    draw_restart_modes(&mut plan);
    slice_plans::draw(&mut plan);
    plan
}

/// Of three plans one has services that others do not see restart: by chance of its own.
fn draw_restart_modes(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x006d_6f64_6573);
    if !random.chance(330) {
        return;
    }
    let names: Vec<UnitName> = plan.units.names().cloned().collect();
    for name in &names {
        let text = plan.units.text(name).unwrap_or_default();
        if text.contains("\nRestart=") && random.chance(700) {
            let mode = random.pick(&["direct", "direct", "direct", "debug"]);
            let text = text.replacen("\nRestart=", &format!("\nRestartMode={mode}\nRestart="), 1);
            plan.units.set(name.clone(), text);
        }
    }
}

/// What processes do that scopes hold.
const SCOPE_PROGRAMS: &[&str] = &[
    "run",
    "run",
    "sleep:500",
    "orphan sleep:100",
    "stubborn run",
    "stubborn orphan sleep:50",
    "sleep:300 oom",
    "",
];

const SCOPE_WAYS: &[&str] = &[
    "TimeoutStopSec=2",
    "RuntimeMaxSec=3",
    "OOMPolicy=continue",
    "OOMPolicy=kill",
    "KillMode=mixed",
    "KillMode=none",
    "SendSIGKILL=no",
    "FinalKillSignal=SIGQUIT",
    "SendSIGHUP=yes",
];

/// Of five plans one has a scope: by chance of its own.
fn draw_scopes(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x0073_636f_7065);
    if !random.chance(200) || plan.actions.is_empty() {
        return;
    }
    let names: Vec<UnitName> = plan.units.names().cloned().collect();
    let mut text = "[Unit]\nDefaultDependencies=no\n".to_owned();
    for relation in ["BindsTo", "After", "Conflicts"] {
        let other = random.pick(&names);
        if random.chance(200) && !other.as_str().contains('@') {
            text += &format!("{relation}={other}\n");
        }
    }
    text += "[Scope]\n";
    for _ in 0..random.below(4) {
        text += &format!("{}\n", random.pick(SCOPE_WAYS));
    }
    if random.chance(250) {
        text += "[X-Warren]\nController=:1.1\n";
    }
    plan.units.set(UnitName::parse("s.scope").expect("a name"), text);
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..2 + random.below(10) {
        let name = "s.scope".to_owned();
        let job = |verb: &str, name| Action::Job(verb.to_owned(), name, JobMode::Replace);
        let action = match random.below(12) {
            0..=5 => Action::Scope(name, (*random.pick(SCOPE_PROGRAMS)).to_owned()),
            6..=7 => job("stop", name),
            8 => Action::Abandon(name),
            9 => Action::ResetFailed(name),
            10 => Action::Kill(name, *random.pick(&[9, 15])),
            _ => Action::Crash,
        };
        plan.actions.push((random.below(end), action));
    }
    plan.actions.sort_by_key(|(at, _)| *at);
}

/// What a drawn timer waits for: nothing that comes so often that the world never rests.
const TIMER_EVENTS: &[&str] = &[
    "OnActiveSec=3",
    "OnActiveSec=20",
    "OnBootSec=1ms",
    "OnStartupSec=30",
    "OnUnitActiveSec=25min",
    "OnUnitInactiveSec=25min",
    "OnCalendar=*:0/20",
    "OnCalendar=02:30",
    "OnCalendar=*:30 Europe/Berlin",
    "OnClockChange=yes",
    "OnTimezoneChange=yes",
];

const TIMER_WAYS: &[&str] = &[
    "AccuracySec=1us",
    "AccuracySec=10",
    "Persistent=yes",
    "RandomizedDelaySec=10",
    "FixedRandomDelay=yes",
    "RandomizedOffsetSec=5min",
    "DeferReactivation=yes",
    "RemainAfterElapse=no",
    "WakeSystem=yes",
];

/// Of three plans one has a timer and a path unit, before units that are there for other reasons, too.
fn draw_timers(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x0074_696d_6572);
    if !random.chance(330) {
        return;
    }
    let is_behind = |name: &&UnitName| {
        matches!(suffix(name.as_str()), "service" | "target") && !name.as_str().contains('@')
    };
    let behind: Vec<UnitName> = plan.units.names().filter(is_behind).cloned().collect();
    if behind.is_empty() {
        return;
    }
    let mut set = |name: &str, text| {
        plan.units.set(UnitName::parse(name).expect("a name"), text);
    };
    set("t.timer", draw_timer(&mut random, &behind));
    set("u.path", draw_path_unit(&mut random, &behind));
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..4 + random.below(12) {
        let at = random.below(end);
        plan.actions.push((at, draw_timer_action(&mut random, &behind)));
    }
    // For ever there is nothing to be found.
    plan.actions.push((end, Action::Meet("u.path".to_owned(), false)));
    plan.actions.sort_by_key(|(at, _)| *at);
}

fn draw_timer(random: &mut Random, behind: &[UnitName]) -> String {
    let mut text = "[Unit]\nDefaultDependencies=no\n[Timer]\n".to_owned();
    for _ in 0..1 + random.below(3) {
        text += &format!("{}\n", random.pick(TIMER_EVENTS));
    }
    for _ in 0..random.below(4) {
        text += &format!("{}\n", random.pick(TIMER_WAYS));
    }
    text + &format!("Unit={}\n", random.pick(behind))
}

fn draw_path_unit(random: &mut Random, behind: &[UnitName]) -> String {
    let kind = random.pick(&["PathExists", "PathChanged", "DirectoryNotEmpty", "PathModified"]);
    let unit = random.pick(behind);
    format!(
        "[Unit]\nDefaultDependencies=no\n[Path]\n{kind}=/q\nTriggerLimitIntervalSec=10\n\
         TriggerLimitBurst=5\nUnit={unit}\n"
    )
}

fn draw_timer_action(random: &mut Random, behind: &[UnitName]) -> Action {
    let (timer, path) = ("t.timer".to_owned(), "u.path".to_owned());
    let job = |verb: &str, name| Action::Job(verb.to_owned(), name, JobMode::Replace);
    match random.below(20) {
        0..=3 => job("start", timer),
        4 => job("stop", timer),
        5 => job("restart", timer),
        6 => Action::Clock("2026-03-29 00:58:00".to_owned()),
        7 => Action::Clock("2026-10-25 00:59:50".to_owned()),
        8 => Action::Sleep(random.below(7200)),
        9 => Action::Zone("CET-1CEST,M3.5.0,M10.5.0/3".to_owned()),
        10 => Action::Reload,
        11 => Action::Edit(timer, draw_timer(random, behind).replace('\n', ";")),
        12..=13 => job("start", path),
        14 => job("stop", path),
        15..=17 => Action::Touch(path),
        18 => Action::Meet(path, true),
        _ => Action::Meet(path, false),
    }
}

/// Units need a path below a mount in one of four plans, and the mount may go when nobody does: by chance
/// of its own too.
fn draw_paths(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x0070_6174_6873);
    if !random.chance(250) {
        return;
    }
    let names: Vec<UnitName> = plan.units.names().cloned().collect();
    for name in &names {
        let text = plan.units.text(name).unwrap_or_default();
        if random.chance(400) {
            let text = text.replacen("[Unit]\n", "[Unit]\nRequiresMountsFor=/n/data\n", 1);
            plan.units.set(name.clone(), text);
        }
    }
    let mut more = String::new();
    for (line, chance) in [("StopWhenUnneeded=yes", 600), ("Wants", 150), ("BindsTo", 250)] {
        let other = random.pick(&names).as_str();
        match line.contains('=') {
            true if random.chance(chance) => more += &format!("{line}\n"),
            false if random.chance(chance) && !other.contains('@') => {
                more += &format!("{line}={other}\n");
            }
            _ => {}
        }
    }
    let text = format!(
        "[Unit]\nDefaultDependencies=no\n{more}[Mount]\nWhat=tmpfs\nWhere=/n\nTimeoutSec=10\n"
    );
    plan.units.set(UnitName::parse("n.mount").expect("a name"), text);
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..random.below(8) {
        let name = "n.mount".to_owned();
        let job = |verb: &str, name| Action::Job(verb.to_owned(), name, JobMode::Replace);
        let action = match random.below(8) {
            0..=1 => job("start", name),
            2..=3 => job("reload", name),
            4 => job("stop", name),
            5 => Action::Mount(name),
            _ => job("start", random.pick(&names).to_string()),
        };
        plan.actions.push((random.below(end), action));
    }
    plan.actions.sort_by_key(|(at, _)| *at);
}

/// Services say several things at once in one of four plans: by chance of its own too.
fn draw_datagrams(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6461_7461_6772);
    if !random.chance(250) {
        return;
    }
    let fields = [
        "trigger",
        "trigger",
        "ready",
        "reloading",
        "stopping",
        "clean",
        "watchdog",
        "extend=3000",
        "interval=2000",
    ];
    let services = plan.units.names().filter(|name| suffix(name.as_str()) == "service");
    for name in services.cloned().collect::<Vec<_>>() {
        if !random.chance(600) {
            continue;
        }
        let said: Vec<&str> = (0..1 + random.below(3)).map(|_| *random.pick(&fields)).collect();
        let text = plan.units.text(&name).unwrap_or_default();
        let mut text =
            text.replacen(" run\n", &format!(" sleep:200 say:{} run\n", said.join("+")), 1);
        for (line, chance) in [("KillMode=none", 200), ("NotifyAccess=all", 300)] {
            if random.chance(chance) {
                text += &format!("[Service]\n{line}\n");
            }
        }
        plan.units.set(name, text);
    }
}

/// Services take a name on the bus in one of six plans: by chance of its own too. Each has another one,
/// and few leave it to themselves whether they take it.
fn draw_names_on_the_bus(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6275_735f_6e61_6d65);
    if !random.chance(160) {
        return;
    }
    let services = plan.units.names().filter(|name| suffix(name.as_str()) == "service");
    let services: Vec<UnitName> = services.cloned().collect();
    for (name, text) in [
        ("dbus.socket", "[Socket]\nListenStream=/d\n"),
        ("dbus.service", "[Service]\nExecStart=/p run\n"),
    ] {
        let text = format!("[Unit]\nDefaultDependencies=no\n{text}");
        plan.units.set(UnitName::parse(name).expect("a name"), text);
    }
    for name in services {
        let text = plan.units.text(&name).unwrap_or_default();
        let kind = text.lines().find(|line| line.starts_with("Type=")).unwrap_or_default();
        if ["Type=oneshot", "Type=forking", ""].contains(&kind) || name.as_str().contains('@') {
            continue;
        }
        let own = format!("org.{}", name.prefix());
        let takes = *random.pick(&["own", "sleep:300 own", "own", "own", "run own"]);
        let gives = *random.pick(&["run", "run", "sleep:2000 disown", "sleep:100 disown"]);
        let gives =
            if gives.ends_with("disown") { format!("{gives}:{own} run") } else { gives.into() };
        let text = text.replacen(kind, &format!("Type=dbus\nBusName={own}"), 1);
        let text = text.replacen("ExecStart=/p", &format!("ExecStart=/p {takes}:{own} {gives}"), 1);
        plan.units.set(name, text);
    }
}

/// One of twenty plans comes to a soft reboot, which some services outlast, and half of those to another end that
/// overtakes it: by chance of its own too.
fn draw_soft_reboot(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x736f_6674_5f72_6562);
    if !random.chance(50) || plan.actions.is_empty() {
        return;
    }
    let services = plan.units.names().filter(|name| suffix(name.as_str()) == "service");
    for name in services.cloned().collect::<Vec<_>>() {
        if random.chance(400) {
            let text = plan.units.text(&name).unwrap_or_default();
            let text = text.replacen("[Unit]\n", "[Unit]\nSurviveFinalKillSignal=yes\n", 1);
            plan.units.set(name, text);
        }
    }
    let place = random.index(plan.actions.len());
    let at = plan.actions[place].0;
    plan.actions.insert(place, (at, Action::SoftReboot));
    if random.chance(500) {
        plan.actions.push((at + random.below(3000), Action::Shutdown));
        plan.actions.sort_by_key(|(at, _)| *at);
    }
}

/// One of thirty plans ends without stops: by chance of its own too.
fn draw_end_without_stops(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6769_7665_5f75_7000);
    if !random.chance(33) || plan.actions.is_empty() {
        return;
    }
    let place = random.index(plan.actions.len());
    let at = plan.actions[place].0;
    plan.actions.insert(place, (at, Action::GiveUp));
}

/// Services have runtime directories in one of four plans, some together: by chance of its own too.
fn draw_directories(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x7275_6e74_696d_6500);
    if !random.chance(250) {
        return;
    }
    let services = plan.units.names().filter(|name| suffix(name.as_str()) == "service");
    for name in services.cloned().collect::<Vec<_>>() {
        let text = plan.units.text(&name).unwrap_or_default().to_owned();
        if !random.chance(700) || !text.contains("[Service]") {
            continue;
        }
        let directory = *random.pick(&["one", "two", "two/three"]);
        let preserve = *random.pick(&["no", "no", "restart", "yes"]);
        let lines = format!(
            "[Service]\nRuntimeDirectory={directory}\nRuntimeDirectoryPreserve={preserve}\n"
        );
        plan.units.set(name, text.replacen("[Service]\n", &lines, 1));
    }
}

/// Services have users that are made for a run in one of four plans, some together: by chance of its own too.
fn draw_users(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6479_6e61_6d69_6300);
    if !random.chance(250) {
        return;
    }
    let services = plan.units.names().filter(|name| suffix(name.as_str()) == "service");
    for name in services.cloned().collect::<Vec<_>>() {
        let text = plan.units.text(&name).unwrap_or_default().to_owned();
        if !random.chance(700) || !text.contains("[Service]") {
            continue;
        }
        let names = *random.pick(&["", "", "User=one\n", "User=two\n", "User=one\nGroup=three\n"]);
        let lines = format!("[Service]\nDynamicUser=yes\n{names}");
        plan.units.set(name, text.replacen("[Service]\n", &lines, 1));
    }
}

/// Units are frozen and thawed in one of five plans: by chance of its own, so that the others stay as
/// they were.
fn draw_freezing(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x0066_7265_657a_6572);
    if !random.chance(200) {
        return;
    }
    let names = plan.units.names().map(ToString::to_string);
    let services: Vec<String> = names.filter(|name| suffix(name) == "service").collect();
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..random.below(8) {
        let Some(name) = services.get(random.below(services.len().max(1) as u64) as usize) else {
            return;
        };
        let action = Action::Freeze(name.clone(), random.chance(600));
        plan.actions.push((random.below(end), action));
    }
    plan.actions.sort_by_key(|(at, _)| *at);
}

fn draw_names(random: &mut Random) -> Vec<String> {
    let count = 2 + random.below(UNITS_MAX - 1);
    let mut names = Vec::new();
    for i in 0..count {
        let letter = char::from(b'a' + i as u8);
        match random.below(20) {
            0..=9 => names.push(format!("{letter}.service")),
            10..=12 => names.push(format!("{letter}.target")),
            13..=14 => names.extend([format!("{letter}.socket"), format!("{letter}.service")]),
            15 => names.extend([format!("{letter}.socket"), format!("{letter}@.service")]),
            16..=17 => names.extend([format!("{letter}.automount"), format!("{letter}.mount")]),
            18 => names.extend([format!("{letter}.mount"), format!("{letter}.swap")]),
            _ => names.push(format!("{letter}.slice")),
        }
    }
    names
}

fn suffix(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, suffix)| suffix)
}

fn draw_text(random: &mut Random, name: &str, names: &[String]) -> String {
    let mut text = draw_unit_section(random, name, names);
    let path = name.split('.').next().unwrap_or_default();
    match suffix(name) {
        "service" => text += &draw_service(random, names),
        "socket" => {
            let accept = names.contains(&format!("{path}@.service"));
            text += &draw_socket(random, accept);
        }
        "mount" => text += &format!("[Mount]\nWhat=tmpfs\nWhere=/{path}\nTimeoutSec=10\n"),
        "swap" => text += &format!("[Swap]\nWhat=/{path}\nTimeoutSec=10\n"),
        "automount" => text += &format!("[Automount]\nWhere=/{path}\nTimeoutIdleSec=10\n"),
        _ => {}
    }
    text
}

const TIES: &[&str] = &[
    "Requires",
    "Requires",
    "Wants",
    "Wants",
    "Wants",
    "After",
    "After",
    "After",
    "Before",
    "BindsTo",
    "PartOf",
    "Requisite",
    "Conflicts",
    "Upholds",
    "OnFailure",
    "OnSuccess",
    "PropagatesStopTo",
    "PropagatesReloadTo",
];

fn draw_unit_section(random: &mut Random, name: &str, names: &[String]) -> String {
    let mut text = "[Unit]\nDefaultDependencies=no\n".to_owned();
    let mut ties = 0;
    while random.chance(600) && ties < 5 {
        ties += 1;
        let other = random.pick(names);
        if other == name || other.contains('@') {
            continue;
        }
        let tie = *random.pick(TIES);
        text += &format!("{tie}={other}\n");
        let ordered = ["Requires", "Wants", "BindsTo", "Requisite", "Conflicts"].contains(&tie);
        if ordered && random.chance(700) {
            text += &format!("After={other}\n");
        }
    }
    let switches = [
        ("StopWhenUnneeded=yes", 60),
        ("AllowIsolate=yes", 200),
        ("IgnoreOnIsolate=yes", 50),
        ("RefuseManualStart=yes", 20),
        ("ConditionPathExists=/no", 40),
        ("ConditionPathExists=/yes", 100),
        ("AssertPathExists=/no", 20),
        ("JobTimeoutSec=20", 60),
        ("JobRunningTimeoutSec=15", 40),
        ("StartLimitBurst=2", 60),
        ("OnFailureJobMode=isolate", 10),
    ];
    for (line, chance) in switches {
        if random.chance(chance) {
            text += &format!("{line}\n");
        }
    }
    text
}

fn draw_service(random: &mut Random, names: &[String]) -> String {
    let kind = *random.pick(&[
        "simple",
        "simple",
        "exec",
        "forking",
        "oneshot",
        "notify",
        "notify",
        "notify-reload",
        "idle",
    ]);
    let mut text = format!("[Service]\nType={kind}\nTimeoutStartSec=10\nTimeoutStopSec=10\n");
    text += &format!("ExecStart=/p {}\n", draw_program(random, kind, names));
    if kind == "oneshot" && random.chance(300) {
        text += "ExecStart=/p sleep:20\n";
    }
    let lists = [
        "ExecCondition",
        "ExecStartPre",
        "ExecStartPost",
        "ExecStop",
        "ExecStopPost",
        "ExecReload",
    ];
    for list in lists {
        if random.chance(150) {
            text += &format!("{list}={}\n", draw_short(random));
        }
    }
    let restarts = if kind == "oneshot" {
        &["on-failure", "on-abnormal", "on-abort"][..]
    } else {
        &["always", "on-failure", "on-success", "on-abnormal", "on-watchdog"][..]
    };
    if random.chance(300) {
        text += &format!("Restart={}\n", random.pick(restarts));
        text += *random.pick(&["", "RestartSec=1\n", "RestartSec=0\n", "RestartSec=30\n"]);
    }
    let more = [
        ("RemainAfterExit=yes", 150),
        ("KillMode=mixed", 100),
        ("KillMode=process", 50),
        ("KillMode=none", 20),
        ("WatchdogSec=2", 60),
        ("RuntimeMaxSec=5", 60),
        ("ExitType=cgroup", if kind == "oneshot" { 0 } else { 40 }),
        ("TimeoutStartFailureMode=abort", 50),
        ("TimeoutStopFailureMode=kill", 50),
        ("SendSIGKILL=no", 30),
        ("NotifyAccess=all", 100),
        ("OOMPolicy=kill", 50),
        ("SuccessExitStatus=3", 50),
    ];
    for (line, chance) in more {
        if random.chance(chance) {
            text += &format!("{line}\n");
        }
    }
    if kind == "forking" && random.chance(500) {
        text += "PIDFile=/run/p.pid\n";
    }
    let warren = ["StopPolicy=sudden", "StopBudget=per-phase"];
    for line in warren {
        if random.chance(80) {
            text += &format!("[X-Warren]\n{line}\n");
        }
    }
    text
}

/// What a main process does: mostly what its type asks for.
fn draw_program(random: &mut Random, kind: &str, names: &[String]) -> String {
    let mut words = Vec::new();
    for (word, chance) in [("stubborn", 80), ("reloads", 200), ("orphan", 100), ("sleep:300", 200)]
    {
        if random.chance(chance) {
            words.push(word.to_owned());
        }
    }
    if kind == "notify-reload" && random.chance(800) {
        words.push("reloads".to_owned());
    }
    if random.chance(50) {
        let verb = random.pick(&["stop", "start"]);
        words.push(format!("{verb}:{}", random.pick(names)));
    }
    let behaves = random.chance(850);
    match kind {
        "forking" if behaves => words.push("daemon".to_owned()),
        "notify" | "notify-reload" if behaves => words.push("ready".to_owned()),
        "oneshot" if behaves => return words.join(" "),
        _ => {}
    }
    let ends = [
        "run",
        "run",
        "run",
        "run",
        "sleep:3000 exit:0",
        "exit:0",
        "exit:1",
        "exit:3",
        "sleep:1000 crash",
        "crash",
        "sleep:50 oom",
        "stopping sleep:500 exit:0",
        "watchdog run",
        "clean run",
        "mainpid run",
        "extend:20000 sleep:15000 ready run",
        "reloading sleep:100 ready run",
    ];
    words.push((*random.pick(&ends)).to_owned());
    words.join(" ")
}

/// What a control process does: mostly nothing, quickly.
fn draw_short(random: &mut Random) -> &'static str {
    let programs = [
        "/p",
        "/p",
        "/p sleep:50",
        "/p sleep:50",
        "/p exit:1",
        "/p run",
        "/none",
        "-/p exit:1",
        "/p stubborn run",
        "/p crash",
        "/p orphan",
    ];
    programs[random.index(programs.len())]
}

fn draw_socket(random: &mut Random, accept: bool) -> String {
    let mut text = "[Socket]\nListenStream=/run/s\nTimeoutSec=10\n".to_owned();
    if accept {
        text += "Accept=yes\n";
    }
    for list in ["ExecStartPre", "ExecStartPost", "ExecStopPre", "ExecStopPost"] {
        if random.chance(80) {
            text += &format!("{list}={}\n", draw_short(random));
        }
    }
    text += *random.pick(&["", "", "TriggerLimitBurst=3\n", "FlushPending=yes\n"]);
    text
}

/// How often everything is stopped after an action.
const SHUTDOWN_PER_MILLE: u32 = 12;

fn draw_actions(random: &mut Random, names: &[String], steps: u64) -> Vec<(u64, Action)> {
    let mut at = 0;
    let mut actions = Vec::new();
    for _ in 0..steps {
        at += match random.below(10) {
            0..=3 => random.below(5),
            4..=7 => random.below(300),
            8 => random.below(5000),
            _ => random.below(30_000),
        };
        if let Some(action) = draw_action(random, names) {
            actions.push((at, action));
        }
        // What is asked for after it is asked in vain.
        if random.chance(SHUTDOWN_PER_MILLE) {
            actions.push((at, Action::Shutdown));
        }
    }
    actions
}

fn draw_action(random: &mut Random, names: &[String]) -> Option<Action> {
    let name = random.pick(names).clone();
    if name.contains('@') {
        return None;
    }
    let of = |wanted: &str| suffix(&name) == wanted;
    Some(match random.below(100) {
        0..=9 if of("socket") => Action::Traffic(name),
        0..=9 if of("automount") => Action::Enter(name),
        10..=14 if of("automount") => Action::Idle(name),
        10..=12 if of("mount") || of("swap") => Action::Mount(name),
        13..=14 if of("mount") || of("swap") => Action::Unmount(name),
        15..=17 => Action::Kill(name, *random.pick(&[9, 15, 1, 11])),
        18..=20 => Action::ResetFailed(name),
        21..=22 => Action::Cancel(name),
        23 => Action::Clear,
        24..=26 => {
            let text = draw_text(random, &name, names);
            Action::Edit(name, text.trim_end().replace('\n', ";"))
        }
        27 => Action::Remove(name),
        28..=29 => Action::Reload,
        30 => Action::Crash,
        31 => Action::Forget,
        32..=33 => Action::Hurry(name),
        _ => Action::Job(draw_verb(random), name, draw_mode(random)),
    })
}

fn draw_verb(random: &mut Random) -> String {
    let verbs = [
        "start",
        "start",
        "start",
        "start",
        "stop",
        "stop",
        "restart",
        "restart",
        "try-restart",
        "reload",
        "reload-or-start",
        "reload-or-restart",
        "try-reload-or-restart",
        "verify-active",
        "nop",
        "isolate",
        "try-reload",
    ];
    (*random.pick(&verbs)).to_owned()
}

fn draw_mode(random: &mut Random) -> JobMode {
    match random.below(20) {
        0..=12 => JobMode::Replace,
        13..=15 => JobMode::Fail,
        16 => JobMode::ReplaceIrreversibly,
        17 => *random.pick(&[JobMode::IgnoreDependencies, JobMode::IgnoreRequirements]),
        18 => JobMode::Flush,
        _ => *random.pick(&[JobMode::Triggering, JobMode::RestartDependencies]),
    }
}
