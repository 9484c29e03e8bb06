//! The commands that talk to the manager: what is asked, in which order, with which exit status.
//!
//! Exit statuses are systemctl's: 3 for a unit that is not up (`status`, `is-active`), 4 for one that
//! does not exist (`status`), 5 for starting what does not exist.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::Command as Process;
use warren_sys::signal::{SIGINT, SIGQUIT};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use warren_sys::signal;
use warren_wire::control::{
    ActiveState, Call, CancelLeave, Cat, Clear, Devices, ErrorName, FileState, Hurry, JobResult,
    JobType, Jobs, JobsRow, Kill, KillWhom, LeaveHow, List, LoadState, Mark, Reexecute,
    ReloadAnswer, ReloadConfiguration, Reloads, ResetFailed, Shutdown, Status, StatusAnswer,
    StopPlan, Texts, Timers, Totals, UnitRow, Unprotected, Why, WhyAnswer,
};

use warren_console::manager::Connect;

use crate::answers::why_nobody_looks;
use crate::args::{
    By, Cli, Command, DevicesArgs, DevicesCommand, EnterArgs, FleetCommand, Global, IsEnabledArgs,
    ListArgs, MarkArgs, RefreshArgs, RestartArgs, ShutdownArgs, ShutdownCommand, WhyArgs,
};
use crate::client::{CallError, Client};
use crate::connection::{command, control_socket, own_machine, with_hint};
use crate::console::Link;
use crate::leaving;
use crate::names;
use crate::output::{Style, clean_lines, print, print_json, tell_json, without_number};
use crate::ranking;
use crate::render;
use crate::unit_files::{FileRequest, does_not_exist, one_by_one, print_states, states_in_root};
use crate::waiting::Waiting;

/// systemctl's status for a unit that is not up.
const EXIT_NOT_ACTIVE: i32 = 3;

/// systemctl's status for a unit that is not there.
const EXIT_NO_SUCH_UNIT: i32 = 4;

/// systemctl's status for a verb on a unit that is not there (LSB "not installed").
const EXIT_NOT_INSTALLED: i32 = 5;

/// A job came to nothing by the unit's own fault.
const EXIT_OWN_FAULT: i32 = 3;

/// A job came to nothing because a unit that it needs did.
const EXIT_DEPENDENCY: i32 = 4;

/// As of a shell that finds no such command.
const EXIT_NO_COMMAND: i32 = 127;

/// The answer of `List` for programs: each row as the manager told it.
#[derive(Deserialize)]
struct ToldList {
    units: Vec<Value>,
}

/// Connection and manner of printing.
struct Session {
    client: Client,
    global: Global,
    style: Style,
}

/// Does what the command line says; returns the exit status.
pub fn run(cli: Cli) -> Result<i32> {
    let global = cli.global;
    if let Some(host) = &global.host {
        return crate::elsewhere::on(host, std::env::args_os().skip(1));
    }
    match cli.command.unwrap_or(Command::Totals) {
        Command::Run(args) => crate::nest::run(&args, global.user, global.quiet),
        Command::NestOuter(args) => crate::nest::outer::run(&args, global.user, global.quiet),
        Command::NestInner(args) => crate::nest::inner::run(&args, global.user),
        Command::Tour(args) => crate::tour::run(&args),
        Command::Verify(args) => crate::verify::run(&args, &global),
        Command::New(args) => crate::author::new::run(&args, &global),
        Command::Lsp => crate::author::run(global.user),
        Command::Chart(args) => crate::chart::run(&args, &global, || {
            let mut client = Client::connect(&control_socket(&global)?).map_err(with_hint)?;
            client.be_watchful();
            Ok(client)
        }),
        Command::Devices(DevicesArgs { command: Some(DevicesCommand::Scan { paths }) }) => {
            crate::devices_scan::scan(&paths, &global)
        }
        Command::Devices(DevicesArgs { command: Some(DevicesCommand::ReadHere { paths }) }) => {
            crate::devices_scan::read_here(&paths, global.json)
        }
        Command::Host(args) => crate::host::run(&args, &global),
        Command::Enter(args) => enter(&args, &global),
        Command::Logs(args) => crate::logs::run(*args, &global),
        Command::Inhibit(args) => leaving::inhibit(&args, &control_socket(&global)?),
        Command::Completion { shell } => {
            print(&crate::complete::script(shell));
            Ok(0)
        }
        Command::CompleteWords { words } => Ok(crate::complete::run(&words)),
        Command::Man { dir } => {
            crate::manual::write(&dir).context("cannot write the manual pages")?;
            Ok(0)
        }
        Command::Web { words } => crate::elsewhere::web(&words, &global),
        Command::Hosts { words } => crate::elsewhere::hosts(&words, global.json),
        Command::Icinga { command } => crate::fleet::icinga(&command, &global),
        Command::Fleet { command } => match crate::fleet::run(command, &global)? {
            Ok(status) => Ok(status),
            Err(command) => Session::open(global)?.fleet(command),
        },
        Command::IsEnabled(IsEnabledArgs { units, root: Some(root) }) => {
            states_in_root(&units, &root, &global)
        }
        command => match FileRequest::of(&command)? {
            Some(wanted) => unit_files(&wanted, global),
            None => Session::open(global)?.run(command),
        },
    }
}

fn unit_files(wanted: &FileRequest, global: Global) -> Result<i32> {
    let Some(root) = &wanted.args.root else { return Session::open(global)?.unit_files(wanted) };
    let (answer, errors) = wanted.in_root(root)?;
    wanted.print(&answer, global.json, global.quiet);
    anyhow::ensure!(errors.is_empty(), "{}", one_by_one(&errors));
    Ok(0)
}

impl Session {
    fn open(global: Global) -> Result<Session> {
        let path = control_socket(&global)?;
        let mut client = Client::connect(&path).map_err(with_hint)?;
        client.be_watchful();
        Ok(Session { client, global, style: Style::from_environment() })
    }

    fn run(&mut self, command: Command) -> Result<i32> {
        match command {
            Command::Start(a) => self.jobs(JobType::Start, &a.units, false),
            Command::Stop(a) if a.dry_run => self.stop_plan(&a.units),
            Command::Stop(a) => self.stop(&a.units, a.comment.as_deref()),
            Command::Restart(a) => self.restart(&a),
            Command::TryRestart(a) => self.jobs(JobType::TryRestart, &a.units, false),
            Command::Reload(a) => self.jobs(JobType::Reload, &a.units, false),
            Command::ReloadOrRestart(a) => self.jobs(JobType::Restart, &a.units, true),
            Command::Refresh(RefreshArgs { last: Some(last), .. }) => self.last_reloads(last),
            Command::Refresh(a) => self.refresh(&a),
            Command::Status(a) if a.units.is_empty() => self.totals(),
            Command::Status(a) => self.status(&a.units),
            Command::List(ListArgs { by: Some(by), all, .. }) => self.ranking(by, all),
            Command::List(a) => self.list(&a),
            Command::Show(a) => self.show(&a.units),
            Command::Cat(a) => self.cat(&a.units),
            Command::Top(a) => crate::top::run(&mut self.client, &a, &self.global),
            Command::Why(a) => self.why(&a),
            Command::Devices(_) => self.devices(),
            Command::Timers => self.timers(),
            Command::Security(a) if a.units.is_empty() => self.unprotected(),
            Command::Security(units) => self.security(&units.units),
            Command::IsActive(a) => self.is_state(&a.units, ActiveState::Active, EXIT_NOT_ACTIVE),
            Command::IsEnabled(a) => self.is_enabled(&a.units),
            Command::IsFailed(a) => self.is_state(&a.units, ActiveState::Failed, 1),
            Command::Mark(a) => self.mark(&a),
            Command::Clear(a) => self.clear(&a.units),
            Command::ResetFailed(a) => self.reset_failed(&a.units),
            Command::Totals => self.totals(),
            Command::Reexec => self.reexec(),
            Command::Poweroff(a) => self.plain(&leaving::now(LeaveHow::Poweroff, &a)),
            Command::Reboot(a) => self.plain(&leaving::now(LeaveHow::Reboot, &a)),
            Command::Halt(a) => self.plain(&leaving::now(LeaveHow::Halt, &a)),
            Command::Kexec(a) => self.plain(&leaving::now(LeaveHow::Kexec, &a)),
            Command::SoftReboot(a) => self.plain(&leaving::now(LeaveHow::SoftReboot, &a)),
            Command::Exit(a) => self.plain(&leaving::now(LeaveHow::Exit, &a)),
            Command::Shutdown(a) => self.shutdown_verb(&a),
            other => bail!("{other:?} is not a command of the manager"),
        }
    }

    fn restart(&mut self, args: &RestartArgs) -> Result<i32> {
        use warren_sys::signal::SIGABRT;
        let dumped = if args.dump { self.expand(&args.units)? } else { Vec::new() };
        for unit in dumped {
            let (whom, signal) = (Some(KillWhom::Main), Some(i64::from(SIGABRT)));
            match self.client.call(&Kill { unit: Some(unit), whom, signal }) {
                // What is down is started all the same; of what is not there the job tells.
                Err(e) if e.is_no_such_process() || e.is_no_such_unit() => {}
                other => {
                    other?;
                }
            }
        }
        self.jobs(JobType::Restart, &args.units, false)
    }

    /// Asks, and prints the answer as the manager told it where JSON is wanted.
    fn ask<C: Call>(&mut self, call: &C) -> Result<C::Answer, CallError> {
        if !self.global.json {
            return self.client.call(call);
        }
        let told: Value = self.client.call_as(call)?;
        let answer = C::Answer::deserialize(&told);
        let answer = answer.map_err(|error| CallError::Broken(error.into()))?;
        print_json(&told);
        Ok(answer)
    }

    fn plain(&mut self, call: &impl Call) -> Result<i32> {
        self.client.call(call)?;
        Ok(0)
    }

    /// Answered by the end of the manager, so that the next command meets the next one; one of an earlier version
    /// answers before.
    fn reexec(&mut self) -> Result<i32> {
        match self.client.call(&Reexecute {}) {
            Err(e) if e.is_end() => Ok(0),
            other => Ok(other.map(|_| 0)?),
        }
    }

    fn shutdown_verb(&mut self, args: &ShutdownArgs) -> Result<i32> {
        match &args.command {
            Some(ShutdownCommand::Skip(a)) => self.skip(&a.units),
            None if args.cancel => self.plain(&CancelLeave {}),
            None => match leaving::planned(&args.later) {
                Some(leave) => self.plain(&leave),
                None => self.shutdown(),
            },
        }
    }

    /// What is being stopped, and how long yet.
    fn shutdown(&mut self) -> Result<i32> {
        let answer = self.ask(&Shutdown {})?;
        if !self.global.json {
            print(&render::shutdown(&answer, self.global.machine.as_deref()));
        }
        Ok(0)
    }

    fn skip(&mut self, units: &[String]) -> Result<i32> {
        self.for_each(units, |session, unit| {
            session.client.call(&Hurry { unit: Some(unit) }).map(|_| ())
        })
    }

    fn jobs(&mut self, kind: JobType, units: &[String], reload_if_possible: bool) -> Result<i32> {
        self.jobs_with(kind, units, Jobs { reload_if_possible, ..Jobs::default() })
    }

    fn stop(&mut self, units: &[String], comment: Option<&str>) -> Result<i32> {
        let comment = comment.map(str::to_owned);
        self.jobs_with(JobType::Stop, units, Jobs { comment, ..Jobs::default() })
    }

    /// What a stop of each would take with it; nothing is stopped.
    fn stop_plan(&mut self, units: &[String]) -> Result<i32> {
        for unit in self.expand_for_jobs(units)? {
            let answer = self.ask(&StopPlan { unit: Some(unit.clone()) })?;
            if !self.global.json {
                print(&render::past::stop_plan(&unit, &answer, self.style));
            }
        }
        Ok(0)
    }

    fn last_reloads(&mut self, last: u8) -> Result<i32> {
        let answer = self.ask(&Reloads {})?;
        if !self.global.json {
            print(&render::past::reloads(&answer, last.into(), self.style));
        }
        Ok(0)
    }

    fn unprotected(&mut self) -> Result<i32> {
        let answer = self.ask(&Unprotected {})?;
        if !self.global.json {
            print(&crate::security::unprotected(&answer, self.style));
        }
        Ok(0)
    }

    /// Units by how much there is of something.
    fn ranking(&mut self, by: By, all: bool) -> Result<i32> {
        let root = Link::new(&self.global)?.root();
        let rows = ranking::ranked(&mut self.client, &root, by)?;
        if self.global.json {
            rows.iter().for_each(|row| print_json(&json!(row)));
            return Ok(0);
        }
        let now_us = warren_sys::time::realtime_ns() / 1000;
        print(&ranking::table(&rows, by, all, now_us, self.style));
        Ok(0)
    }

    /// All jobs are in the queue before the first is waited for.
    fn jobs_with(&mut self, kind: JobType, units: &[String], jobs: Jobs) -> Result<i32> {
        let units = self.expand_for_jobs(units)?;
        if units.is_empty() {
            return Ok(0);
        }
        let (job_type, wait) = (Some(kind.clone()), Some(!self.global.no_block));
        let jobs = Jobs { units, job_type, wait, ..jobs };
        let (mut status, is_json) = (0, self.global.json);
        let machine = self.global.machine.as_deref();
        let control = control_socket(&self.global)?;
        let waiting = Waiting::begin(kind.clone(), &jobs.units, control, self.global.quiet);
        let client = &mut self.client;
        waiting.during(|| {
            client.call_more(&jobs, |row| {
                waiting.is_over(row.unit.as_deref().unwrap_or_default());
                status = status.max(job_ended(&kind, &row, is_json, machine));
            })
        })?;
        Ok(status)
    }

    /// As [`Session::expand`]; a pattern that matches nothing is said.
    fn expand_for_jobs(&mut self, units: &[String]) -> Result<Vec<String>> {
        let mut out = Vec::new();
        for unit in units {
            let matching = self.expand(std::slice::from_ref(unit))?;
            if matching.is_empty() && !self.global.quiet {
                complain!("No unit matches {unit}.");
            }
            out.extend(matching);
        }
        Ok(out)
    }

    fn mark(&mut self, args: &MarkArgs) -> Result<i32> {
        let unit = Some(names::unit(&args.unit));
        let mark = args.mark.as_str().into();
        self.plain(&Mark { unit, mark, comment: Some(args.comment.clone()) })
    }

    fn clear(&mut self, units: &[String]) -> Result<i32> {
        self.for_each(units, |session, unit| {
            session.client.call(&Clear { unit: Some(unit) }).map(|_| ())
        })
    }

    fn refresh(&mut self, args: &RefreshArgs) -> Result<i32> {
        let answer = self.ask(&ReloadConfiguration {
            dry_run: args.dry_run,
            full: args.full,
            unit: args.unit.as_ref().map(|unit| names::unit(unit)),
            rollback: args.rollback,
            ..ReloadConfiguration::default()
        })?;
        if !self.global.json && !self.global.quiet {
            print(&render::refresh(&answer, args.dry_run, self.style));
        }
        Ok(0)
    }

    /// Rules that the manager has, or would have, in force.
    fn fleet(&mut self, command: FleetCommand) -> Result<i32> {
        match command {
            FleetCommand::Plan(args) => self.rules(true, args.plan.all),
            FleetCommand::Apply(args) => self.rules(false, args.all),
            FleetCommand::Diff(args) => self.rules_diff(&args.units),
            FleetCommand::Rollback { generation } => {
                let rollback = Some(generation);
                let reload = ReloadConfiguration { rollback, ..ReloadConfiguration::default() };
                let answer = self.ask(&reload)?;
                self.print_changed_rules(&answer, false, false);
                Ok(0)
            }
            other => bail!("{other:?} needs no manager"),
        }
    }

    fn rules(&mut self, dry_run: bool, all: bool) -> Result<i32> {
        let reload = ReloadConfiguration { rules_only: true, dry_run, ..Default::default() };
        let answer = self.ask(&reload)?;
        self.print_changed_rules(&answer, dry_run, all);
        Ok(0)
    }

    fn print_changed_rules(&self, answer: &ReloadAnswer, dry_run: bool, all: bool) {
        if !self.global.json && !self.global.quiet {
            print(&crate::fleet::changes::plan(answer, dry_run, all, self.style));
        }
    }

    fn rules_diff(&mut self, units: &[String]) -> Result<i32> {
        let (rules_only, dry_run, texts) = (true, true, true);
        let reload = ReloadConfiguration { rules_only, dry_run, texts, ..Default::default() };
        let answer = self.client.call(&reload)?;
        let units: Vec<String> = units.iter().map(|unit| names::unit(unit)).collect();
        let text = crate::fleet::changes::diff(&answer, &units, self.style);
        match self.global.json {
            true => print_json(&json!({"texts": answer.texts})),
            false => print(&text),
        }
        Ok(i32::from(!text.is_empty()))
    }

    /// Names as they are, patterns as the units they match.
    fn expand(&mut self, units: &[String]) -> Result<Vec<String>> {
        let mut out = Vec::new();
        for unit in units {
            if !names::is_pattern(unit) {
                out.push(names::unit(unit));
                continue;
            }
            let patterns = Texts(vec![unit.clone()]);
            let answer = self.client.call(&List { patterns, ..List::default() })?;
            out.extend(answer.units.into_iter().map(|row| row.name));
        }
        Ok(out)
    }

    fn status(&mut self, words: &[String]) -> Result<i32> {
        let mut status = 0;
        for (i, asked) in self.expand_for_status(words)?.into_iter().enumerate() {
            match self.ask(&asked) {
                Ok(answer) => {
                    status = status.max(exit_of_status(&answer.row));
                    self.print_status(&answer, i > 0);
                }
                Err(e) if e.is_no_such_unit() => {
                    match asked.pid {
                        Some(pid) => complain!("Process {pid} does not belong to a unit."),
                        None => {
                            complain!("Unit {} could not be found.", asked.unit.unwrap_or_default())
                        }
                    }
                    status = EXIT_NO_SUCH_UNIT;
                }
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    status = status.max(1);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(status)
    }

    /// What to ask for each: by a process, or by name as [`Session::expand`] has it.
    fn expand_for_status(&mut self, words: &[String]) -> Result<Vec<Status>> {
        let mut out = Vec::new();
        for word in words {
            match names::process(word) {
                Some(pid) => out.push(Status { unit: None, pid: Some(pid.into()) }),
                None => {
                    let units = self.expand(std::slice::from_ref(word))?;
                    out.extend(units.into_iter().map(status_of));
                }
            }
        }
        Ok(out)
    }

    fn print_status(&self, answer: &StatusAnswer, further: bool) {
        if self.global.json {
            return;
        }
        let now_us = warren_sys::time::realtime_ns() / 1000;
        let text = render::status(answer, now_us, self.style);
        print(&if further { format!("\n{text}") } else { text });
    }

    fn list(&mut self, args: &ListArgs) -> Result<i32> {
        let failed = args.failed.then_some("failed");
        let failed = failed.map(str::to_owned);
        let list = List {
            patterns: Texts(args.patterns.iter().map(|word| names::pattern(word)).collect()),
            state: Texts(args.state.iter().cloned().chain(failed).collect()),
            unit_type: Texts(args.r#type.clone()),
        };
        let everything = args.all || !list.state.0.is_empty();
        if self.global.json {
            let told: ToldList = self.client.call_as(&list)?;
            for told in told.units {
                if everything || is_of_interest(&UnitRow::deserialize(&told)?) {
                    print_json(&told);
                }
            }
        } else {
            let answer = self.client.call(&list)?;
            let rows = answer.units.iter();
            let rows: Vec<&UnitRow> =
                rows.filter(|row| everything || is_of_interest(row)).collect();
            let legend = !args.no_legend && !self.global.quiet;
            print(&render::list(&rows, self.style, legend, terminal_columns()));
        }
        Ok(0)
    }

    /// Asks for each unit. One that the manager refuses is said, with status 1, and keeps nothing from being done for
    /// the others.
    fn for_each(
        &mut self,
        units: &[String],
        mut ask: impl FnMut(&mut Session, String) -> Result<(), CallError>,
    ) -> Result<i32> {
        let mut status = 0;
        for unit in self.expand(units)? {
            match ask(self, unit) {
                Ok(()) => {}
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    status = 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(status)
    }

    fn show(&mut self, units: &[String]) -> Result<i32> {
        let mut between = "";
        self.for_each(units, |session, unit| {
            let answer = session.ask(&status_of(unit))?;
            if !session.global.json {
                print(&format!("{between}{}", render::show(&answer)));
                between = "\n";
            }
            Ok(())
        })
    }

    fn cat(&mut self, units: &[String]) -> Result<i32> {
        self.for_each(units, |session, unit| {
            let answer = session.ask(&Cat { unit: Some(unit), pid: None })?;
            let is_terminal = std::io::stdout().is_terminal();
            for file in answer.files.iter().filter(|_| !session.global.json) {
                print(&render::file(file, is_terminal, session.style));
            }
            Ok(())
        })
    }

    fn why(&mut self, args: &WhyArgs) -> Result<i32> {
        let answer = match &args.unit {
            Some(unit) if names::is_pattern(unit) => {
                let answer = self.why_each(unit)?;
                if self.global.json {
                    print_json(&answer);
                }
                answer
            }
            Some(unit) => self.ask(&Why { unit: Some(names::unit(unit)) })?,
            None => self.ask(&Why::default())?,
        };
        if !self.global.json {
            print(&render::why(&answer, self.style, self.global.machine.as_deref()));
        }
        Ok(0)
    }

    /// One answer for all units that a pattern matches.
    fn why_each(&mut self, pattern: &str) -> Result<WhyAnswer> {
        let mut answer = WhyAnswer::default();
        for unit in self.expand_for_jobs(&[pattern.to_owned()])? {
            let one = self.client.call(&Why { unit: Some(unit) })?;
            answer.units.extend(one.units);
            answer.log_withheld = one.log_withheld;
        }
        Ok(answer)
    }

    fn devices(&mut self) -> Result<i32> {
        let answer = self.ask(&Devices {})?;
        match (self.global.json, answer.seeing) {
            (true, _) => {}
            (false, true) => print(&crate::devices::tree(&answer, self.style)),
            (false, false) => {
                print(&crate::devices::nobody(why_nobody_looks(&mut self.client)?.as_ref()));
            }
        }
        Ok(0)
    }

    /// What protects the main processes of services.
    fn security(&mut self, units: &[String]) -> Result<i32> {
        let verifier = crate::verify::Verifier::new(self.global.user, &[]);
        let mut exit = 0;
        for unit in self.expand(units)? {
            match self.security_of(&unit, &verifier) {
                Ok(report) if self.global.json => crate::output::print_json(&report.json()),
                Ok(report) => print(&report.text(self.style)),
                Err(error) => {
                    complain!("warren: {}", without_number(&format!("{error:#}")));
                    exit = 1;
                }
            }
        }
        Ok(exit)
    }

    fn security_of(
        &mut self,
        unit: &str,
        verifier: &crate::verify::Verifier,
    ) -> Result<crate::security::Report> {
        let status = self.client.call(&status_of(unit.to_owned()))?;
        let unit = status.row.name;
        let pid = status.main_pid.with_context(|| {
            format!(
                "{unit} has no main process; `warren verify {unit}` checks what its files ask for"
            )
        })?;
        let facts = crate::security::Facts::of(pid)
            .with_context(|| format!("{unit}: process {pid} cannot be inspected"))?;
        let asked = verifier.environment(&unit).map_err(anyhow::Error::msg)?;
        Ok(crate::security::Report { unit, pid, facts, asked })
    }

    fn timers(&mut self) -> Result<i32> {
        let answer = self.ask(&Timers {})?;
        if !self.global.json {
            print(&crate::timers::table(&answer, self.style));
        }
        Ok(0)
    }

    /// One word for each unit; 0 when at least one is in the state.
    fn is_state(&mut self, units: &[String], state: ActiveState, otherwise: i32) -> Result<i32> {
        let mut status = otherwise;
        for unit in self.expand(units)? {
            let active = match self.client.call(&status_of(unit.clone())) {
                Err(e) if e.is_no_such_unit() => ActiveState::Inactive,
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    continue;
                }
                other => other?.row.active,
            };
            let up_too = state == ActiveState::Active && active == ActiveState::Reloading;
            if active == state || up_too {
                status = 0;
            }
            match self.global {
                Global { quiet: true, .. } => {}
                Global { json: true, .. } => print_json(&json!({"unit": unit, "active": active})),
                _ => print(&format!("{active}\n")),
            }
        }
        Ok(status)
    }

    fn reset_failed(&mut self, units: &[String]) -> Result<i32> {
        if units.is_empty() {
            return self.plain(&ResetFailed::default());
        }
        self.for_each(units, |session, unit| {
            session.client.call(&ResetFailed { unit: Some(unit) }).map(|_| ())
        })
    }

    fn totals(&mut self) -> Result<i32> {
        let answer = self.ask(&Totals {})?;
        if !self.global.json {
            print(&render::totals(&answer, self.style));
        }
        Ok(0)
    }

    fn unit_files(&mut self, wanted: &FileRequest) -> Result<i32> {
        for unit in wanted.masked().iter().filter(|_| !self.global.quiet) {
            let answer = self.client.call(&FileState { unit: Some(unit.clone()) })?;
            if answer.state.is_none() {
                complain!("{}", does_not_exist(unit));
            }
        }
        let answer = self.client.call(&wanted.request());
        if answer.is_err() && wanted.verb == "preset-all" {
            // The other units were done. Why not all were says more than that they do not count yet.
            let _ = self.client.call(&ReloadConfiguration::default());
        }
        wanted.print(&answer?, self.global.json, self.global.quiet);
        // The links count from now on, as after systemctl's, whoever has heard of them.
        self.client.call(&ReloadConfiguration::default())?;
        self.now(wanted)
    }

    /// One word for each unit; 0 when at least one is enabled, and none is refused.
    fn is_enabled(&mut self, units: &[String]) -> Result<i32> {
        let (mut states, mut refused) = (Vec::new(), 0);
        for unit in self.expand(units)? {
            let answer = match self.client.call(&FileState { unit: Some(unit.clone()) }) {
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    refused = 1;
                    continue;
                }
                other => other?,
            };
            let state = answer.state.unwrap_or_else(|| LoadState::NotFound.to_string());
            states.push((unit, state));
        }
        Ok(print_states(states.into_iter(), &self.global).max(refused))
    }

    fn now(&mut self, wanted: &FileRequest) -> Result<i32> {
        let (args, units) = (&wanted.args, wanted.units());
        match (args.now, wanted.verb) {
            (true, "enable" | "reenable") => self.jobs(JobType::Start, &units, false),
            (true, "disable" | "mask") => self.stop(&units, args.comment.as_deref()),
            _ => Ok(0),
        }
    }
}

fn status_of(unit: String) -> Status {
    Status { unit: Some(unit), pid: None }
}

/// Says how the job of a row ended; returns the exit status.
fn job_ended(kind: &JobType, row: &JobsRow, is_json: bool, machine: Option<&str>) -> i32 {
    let unit = row.unit.as_deref().unwrap_or_default();
    if let Some(error) = &row.error {
        let text = clean_lines(row.message.as_deref().unwrap_or(error.as_str()));
        complain!("Failed to {kind} {unit}: {text}");
        return exit_of_refusal(error, &text);
    }
    // One that is not waited for has a number, and no result yet.
    let is_queued = row.result.is_none() && row.job.is_some();
    let result = row.result.as_ref().unwrap_or(&JobResult::Done);
    if is_json {
        let result = if is_queued { "queued" } else { result.as_str() };
        tell_json(&json!({"unit": unit, "type": kind, "result": result}));
    }
    match result {
        JobResult::Done | JobResult::Skipped => return 0,
        _ => complain!("{}", failed_job(unit, result, machine)),
    }
    match result {
        JobResult::Canceled => 1,
        JobResult::Dependency => EXIT_DEPENDENCY,
        _ => EXIT_OWN_FAULT,
    }
}

/// Where standard output is a terminal.
fn terminal_columns() -> Option<usize> {
    warren_sys::terminal::size(std::io::stdout()).map(|(columns, _)| usize::from(columns))
}

/// What systemctl lists without `--all`: units that are up, in trouble or have a job.
fn is_of_interest(row: &UnitRow) -> bool {
    row.active != ActiveState::Inactive || row.job.is_some()
}

fn exit_of_status(unit: &UnitRow) -> i32 {
    match (&unit.load, &unit.active) {
        (LoadState::NotFound, _) => EXIT_NO_SUCH_UNIT,
        (_, ActiveState::Active | ActiveState::Reloading) => 0,
        _ => EXIT_NOT_ACTIVE,
    }
}

/// A refusal says at once that the unit cannot get there: for its own sake, or for another's.
fn exit_of_refusal(error: &ErrorName, text: &str) -> i32 {
    match error {
        ErrorName::DependencyRefused => EXIT_DEPENDENCY,
        ErrorName::NoSuchUnit => EXIT_NOT_INSTALLED,
        _ if text.contains("not found") => EXIT_NOT_INSTALLED,
        ErrorName::UnitRefused => EXIT_OWN_FAULT,
        _ => 1,
    }
}

fn failed_job(unit: &str, result: &JobResult, machine: Option<&str>) -> String {
    let said = match result {
        JobResult::Failed => "failed".to_owned(),
        JobResult::Canceled => "was cancelled".to_owned(),
        JobResult::Dependency => "failed because of a dependency".to_owned(),
        JobResult::Timeout => "timed out".to_owned(),
        other => format!("ended with: {other}"),
    };
    format!("Job for {unit} {said}. See '{} why {unit}'.", command(machine))
}

/// Says why one of several was refused.
fn complain_of(error: &CallError) {
    complain!("warren: {}", without_number(&error.to_string()));
}

/// Runs a command inside the namespaces of a machine's process 1.
fn enter(args: &EnterArgs, global: &Global) -> Result<i32> {
    let name = global.machine.as_deref().context("which machine? Name it with -M")?;
    let machine = own_machine(name, global)?;
    crate::nest::enter_namespaces(&machine)?;
    let (program, rest) = args.command.split_first().context("which command?")?;
    // A child is needed: a process stays in its pid namespace, only its children are in the new.
    let mut command = Process::new(program);
    command.args(rest).env("container", "warren").env_remove("NOTIFY_SOCKET");
    let mut child = match command.arg0(program).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            complain!("warren: {program} is not installed");
            return Ok(EXIT_NO_COMMAND);
        }
        Err(error) => return Err(error).with_context(|| program.clone()),
    };
    // Keys that end a program are for this one, which may do something else.
    for signal in [SIGINT, SIGQUIT] {
        signal::set_ignored(signal, true)?;
    }
    Ok(leaving::exit_of(child.wait()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of_status(unit: &Value) -> i32 {
        super::exit_of_status(&serde_json::from_value(unit.clone()).expect("it is a row"))
    }

    fn exit_of_refusal(name: &str, text: &str) -> i32 {
        super::exit_of_refusal(&name.into(), text)
    }

    #[test]
    fn statuses_are_systemctls() {
        let status =
            |load: &str, active: &str| exit_of_status(&json!({"load": load, "active": active}));
        assert_eq!(status("loaded", "active"), 0);
        assert_eq!(status("loaded", "reloading"), 0);
        assert_eq!(status("loaded", "activating"), 3);
        assert_eq!(exit_of_refusal("io.warrener.UnitRefused", "Unit a.service not found."), 5);
        assert_eq!(exit_of_refusal("io.warrener.NoSuchUnit", "Unit a.service not loaded."), 5);
        assert_eq!(exit_of_refusal("io.warrener.UnitRefused", "Unit a.service is masked."), 3);
        assert_eq!(exit_of_refusal("io.warrener.DependencyRefused", "Unit b.service"), 4);
        assert_eq!(exit_of_refusal("io.warrener.Refused", "The manager is shutting down."), 1);
        assert_eq!(status("loaded", "failed"), 3);
        assert_eq!(status("not-found", "inactive"), 4);
    }
}
