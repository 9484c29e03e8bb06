//! The commands that talk to the manager: what is asked, in which order, with which exit status.
//!
//! Exit statuses are systemctl's: 3 for a unit that is not up (`status`, `is-active`), 4 for one that
//! does not exist (`status`), 5 for starting what does not exist.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command as Process;
use warren_sys::signal::{SIGINT, SIGQUIT};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use warren_sys::signal;

use crate::args::{
    Cli, Command, DevicesArgs, DevicesCommand, EnterArgs, FleetCommand, Global, IsEnabledArgs,
    ListArgs, MarkArgs, RefreshArgs, RestartArgs, ShutdownArgs, ShutdownCommand, WhyArgs,
};
use crate::client::{CallError, Client, NO_SUCH_UNIT};
use crate::leaving;
use crate::machine::{self, Machine};
use crate::names;
use crate::output::{Style, clean, clean_lines, print, tell, without_number};
use crate::render;
use crate::unit_files::{Wanted, does_not_exist, one_by_one, print_states, states_in_root};

/// Version of what `--json` prints.
pub(crate) const JSON_VERSION: u64 = 1;

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

/// Connection and manner of printing.
struct Session {
    client: Client,
    global: Global,
    style: Style,
}

/// Does what the command line says; returns the exit status.
pub fn run(cli: Cli) -> Result<i32> {
    let global = cli.global;
    match cli.command.unwrap_or(Command::Totals) {
        Command::Run(args) => crate::nest::run(&args, global.user, global.quiet),
        Command::NestOuter(args) => crate::nest::outer::run(&args, global.user, global.quiet),
        Command::NestInner(args) => crate::nest::inner::run(&args, global.user),
        Command::Tour(args) => crate::tour::run(&args),
        Command::Verify(args) => crate::verify::run(&args, &global),
        Command::Chart(args) => crate::chart::run(&args, global.json, || {
            Client::connect(&control_socket(&global)?).map_err(with_hint)
        }),
        Command::Devices(DevicesArgs { command: Some(DevicesCommand::Scan { paths }) }) => {
            crate::devices_scan::scan(&paths, global.json)
        }
        Command::Devices(DevicesArgs { command: Some(DevicesCommand::ReadHere { paths }) }) => {
            crate::devices_scan::read_here(&paths, global.json)
        }
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
        Command::Icinga { command } => crate::fleet::icinga(&command, &global),
        Command::Fleet { command } => match crate::fleet::run(command, &global)? {
            Ok(status) => Ok(status),
            Err(command) => Session::open(global)?.fleet(command),
        },
        Command::IsEnabled(IsEnabledArgs { units, root: Some(root) }) => {
            states_in_root(&units, &root, &global)
        }
        command => match Wanted::of(&command)? {
            Some(wanted) => unit_files(&wanted, global),
            None => Session::open(global)?.run(command),
        },
    }
}

fn unit_files(wanted: &Wanted, global: Global) -> Result<i32> {
    let Some(root) = &wanted.args.root else { return Session::open(global)?.unit_files(wanted) };
    let (answer, errors) = wanted.in_root(root)?;
    wanted.print(&answer, global.json, global.quiet);
    anyhow::ensure!(errors.is_empty(), "{}", one_by_one(&errors));
    Ok(0)
}

/// The control socket that the flags name.
pub(crate) fn control_socket(global: &Global) -> Result<PathBuf> {
    if let Some(path) = &global.socket {
        return Ok(path.clone());
    }
    if let Some(name) = &global.machine {
        return Ok(find_machine(name, global)?.control);
    }
    if global.user {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").context("XDG_RUNTIME_DIR is not set")?;
        return Ok(PathBuf::from(runtime).join("warren/control"));
    }
    Ok(PathBuf::from("/run/warren/control"))
}

/// Says whose the machine is if it is not this user's.
pub(crate) fn find_machine(name: &str, global: &Global) -> Result<Machine> {
    let Some(found) = machine::find(name) else {
        if name.parse().is_ok_and(machine::is_closed) {
            bail!(
                "process {name} belongs to another user: only that user and root may connect to that machine"
            );
        }
        bail!("this user runs no nested manager named {name}");
    };
    if let (Some(uid), false) = (found.stranger, global.quiet) {
        complain!("warren: process {} is a machine of user {uid}", found.pid);
    }
    Ok(found)
}

impl Session {
    fn open(global: Global) -> Result<Session> {
        let path = control_socket(&global)?;
        let client = Client::connect(&path).map_err(with_hint)?;
        Ok(Session { client, global, style: Style::from_environment() })
    }

    fn run(&mut self, command: Command) -> Result<i32> {
        match command {
            Command::Start(a) => self.jobs("start", &a.units, false),
            Command::Stop(a) => self.stop(&a.units, a.comment.as_deref()),
            Command::Restart(a) => self.restart(&a),
            Command::TryRestart(a) => self.jobs("try-restart", &a.units, false),
            Command::Reload(a) => self.jobs("reload", &a.units, false),
            Command::ReloadOrRestart(a) => self.jobs("restart", &a.units, true),
            Command::Refresh(a) => self.refresh(&a),
            Command::Status(a) if a.units.is_empty() => self.totals(),
            Command::Status(a) => self.status(&a.units),
            Command::List(a) => self.list(&a),
            Command::Show(a) => self.show(&a.units),
            Command::Cat(a) => self.cat(&a.units),
            Command::Top => crate::top::run(&mut self.client, self.global.json),
            Command::Why(a) => self.why(&a),
            Command::Devices(_) => self.devices(),
            Command::IsActive(a) => self.is_state(&a.units, "active", EXIT_NOT_ACTIVE),
            Command::IsEnabled(a) => self.is_enabled(&a.units),
            Command::IsFailed(a) => self.is_state(&a.units, "failed", 1),
            Command::Mark(a) => self.mark(&a),
            Command::Clear(a) => self.clear(&a.units),
            Command::ResetFailed(a) => self.reset_failed(&a.units),
            Command::Totals => self.totals(),
            Command::Reexec => self.reexec(),
            Command::Poweroff(a) => self.plain("Leave", leaving::now("poweroff", &a)),
            Command::Reboot(a) => self.plain("Leave", leaving::now("reboot", &a)),
            Command::Halt(a) => self.plain("Leave", leaving::now("halt", &a)),
            Command::Kexec(a) => self.plain("Leave", leaving::now("kexec", &a)),
            Command::SoftReboot(a) => self.plain("Leave", leaving::now("soft-reboot", &a)),
            Command::Exit(a) => self.plain("Leave", leaving::now("exit", &a)),
            Command::Shutdown(a) => self.shutdown_verb(&a),
            other => bail!("{other:?} is not a command of the manager"),
        }
    }

    fn restart(&mut self, args: &RestartArgs) -> Result<i32> {
        use warren_sys::signal::SIGABRT;
        let dumped = if args.dump { self.expand(&args.units)? } else { Vec::new() };
        for unit in dumped {
            let parameters = json!({"unit": unit, "whom": "main", "signal": SIGABRT});
            match self.client.call("Kill", parameters) {
                // What is down is started all the same; of what is not there the job tells.
                Err(e) if e.is_no_such_process() || e.is_no_such_unit() => {}
                other => drop(other?),
            }
        }
        self.jobs("restart", &args.units, false)
    }

    fn plain(&mut self, method: &str, parameters: Value) -> Result<i32> {
        self.client.call(method, parameters)?;
        Ok(0)
    }

    /// Answered by the end of the manager, so that the next command meets the next one; one of an earlier version
    /// answers before.
    fn reexec(&mut self) -> Result<i32> {
        match self.client.call("Reexecute", json!({})) {
            Err(e) if e.is_end() => Ok(0),
            other => Ok(other.map(|_| 0)?),
        }
    }

    fn shutdown_verb(&mut self, args: &ShutdownArgs) -> Result<i32> {
        match &args.command {
            Some(ShutdownCommand::Skip(a)) => self.skip(&a.units),
            None if args.cancel => self.plain("CancelLeave", json!({})),
            None => match leaving::planned(&args.later) {
                Some(parameters) => self.plain("Leave", parameters),
                None => self.shutdown(),
            },
        }
    }

    /// What is being stopped, and how long yet.
    fn shutdown(&mut self) -> Result<i32> {
        let answer = self.client.call("Shutdown", json!({}))?;
        match self.global.json {
            true => print_json(answer),
            false => print(&render::shutdown(&answer, self.global.machine.as_deref())),
        }
        Ok(0)
    }

    fn skip(&mut self, units: &[String]) -> Result<i32> {
        self.for_each("Hurry", units, drop)
    }

    fn jobs(&mut self, kind: &str, units: &[String], reload_if_possible: bool) -> Result<i32> {
        self.jobs_with(kind, units, json!({"reload_if_possible": reload_if_possible}))
    }

    fn stop(&mut self, units: &[String], comment: Option<&str>) -> Result<i32> {
        self.jobs_with("stop", units, json!({"comment": comment}))
    }

    /// All jobs are in the queue before the first is waited for.
    fn jobs_with(&mut self, kind: &str, units: &[String], mut parameters: Value) -> Result<i32> {
        let units = self.expand_for_jobs(units)?;
        if units.is_empty() {
            return Ok(0);
        }
        parameters["units"] = json!(units);
        parameters["type"] = json!(kind);
        parameters["wait"] = json!(!self.global.no_block);
        let (mut status, is_json) = (0, self.global.json);
        let machine = self.global.machine.as_deref();
        self.client.call_more("Jobs", parameters, |row| {
            status = status.max(job_ended(kind, &row, is_json, machine));
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
        let unit = names::unit(&args.unit);
        self.plain("Mark", json!({"unit": unit, "as": args.mark, "comment": args.comment}))
    }

    fn clear(&mut self, units: &[String]) -> Result<i32> {
        self.for_each("Clear", units, drop)
    }

    fn refresh(&mut self, args: &RefreshArgs) -> Result<i32> {
        let mut parameters = json!({"dry_run": args.dry_run, "full": args.full});
        if let Some(unit) = &args.unit {
            parameters["unit"] = json!(names::unit(unit));
        }
        if let Some(generation) = args.rollback {
            parameters["rollback"] = json!(generation);
        }
        let answer = self.client.call("ReloadConfiguration", parameters)?;
        if self.global.json {
            print_json(answer);
        } else if !self.global.quiet {
            print(&render::refresh(&answer, args.dry_run, self.style));
        }
        Ok(0)
    }

    /// Rules that the manager has, or would have, in force.
    fn fleet(&mut self, command: FleetCommand) -> Result<i32> {
        match command {
            FleetCommand::Plan(args) => self.rules(true, args.all),
            FleetCommand::Apply(args) => self.rules(false, args.all),
            FleetCommand::Diff(args) => self.rules_diff(&args.units),
            FleetCommand::Rollback { generation } => {
                let parameters = json!({"rollback": generation});
                let answer = self.client.call("ReloadConfiguration", parameters)?;
                self.print_changed_rules(answer, false, false);
                Ok(0)
            }
            other => bail!("{other:?} needs no manager"),
        }
    }

    fn rules(&mut self, dry_run: bool, all: bool) -> Result<i32> {
        let parameters = json!({"rules_only": true, "dry_run": dry_run});
        let answer = self.client.call("ReloadConfiguration", parameters)?;
        self.print_changed_rules(answer, dry_run, all);
        Ok(0)
    }

    fn print_changed_rules(&self, answer: Value, dry_run: bool, all: bool) {
        if self.global.json {
            print_json(answer);
        } else if !self.global.quiet {
            print(&crate::fleet::changes::plan(&answer, dry_run, all, self.style));
        }
    }

    fn rules_diff(&mut self, units: &[String]) -> Result<i32> {
        let parameters = json!({"rules_only": true, "dry_run": true, "texts": true});
        let answer = self.client.call("ReloadConfiguration", parameters)?;
        let units: Vec<String> = units.iter().map(|unit| names::unit(unit)).collect();
        let text = crate::fleet::changes::diff(&answer, &units, self.style);
        match self.global.json {
            true => print_json(json!({"texts": answer["texts"]})),
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
            let answer = self.client.call("List", json!({"patterns": [unit]}))?;
            let rows = answer["units"].as_array().into_iter().flatten();
            out.extend(rows.filter_map(|row| Some(row["name"].as_str()?.to_owned())));
        }
        Ok(out)
    }

    fn status(&mut self, words: &[String]) -> Result<i32> {
        let mut status = 0;
        for (i, asked) in self.expand_for_status(words)?.into_iter().enumerate() {
            match self.client.call("Status", asked.clone()) {
                Ok(answer) => {
                    status = status.max(exit_of_status(&answer));
                    self.print_status(answer, i > 0);
                }
                Err(e) if e.is_no_such_unit() => {
                    match asked["pid"].as_u64() {
                        Some(pid) => complain!("Process {pid} does not belong to a unit."),
                        None => complain!("Unit {} could not be found.", text(&asked["unit"])),
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
    fn expand_for_status(&mut self, words: &[String]) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for word in words {
            match names::process(word) {
                Some(pid) => out.push(json!({"pid": pid})),
                None => {
                    let units = self.expand(std::slice::from_ref(word))?;
                    out.extend(units.into_iter().map(|unit| json!({"unit": unit})));
                }
            }
        }
        Ok(out)
    }

    fn print_status(&self, answer: Value, further: bool) {
        if self.global.json {
            return print_json(answer);
        }
        let now_us = warren_sys::time::realtime_ns() / 1000;
        let text = render::status(&answer, now_us, self.style);
        print(&if further { format!("\n{text}") } else { text });
    }

    fn list(&mut self, args: &ListArgs) -> Result<i32> {
        let failed = args.failed.then_some("failed");
        let states: Vec<&str> = args.state.iter().map(String::as_str).chain(failed).collect();
        let patterns: Vec<String> = args.patterns.iter().map(|word| names::pattern(word)).collect();
        let parameters = json!({"patterns": patterns, "state": states, "type": args.r#type});
        let answer = self.client.call("List", parameters)?;
        let everything = args.all || !states.is_empty();
        let rows = answer["units"].as_array().into_iter().flatten();
        let rows: Vec<&Value> = rows.filter(|row| everything || is_of_interest(row)).collect();
        if self.global.json {
            rows.into_iter().for_each(|row| print_json(row.clone()));
        } else {
            let legend = !args.no_legend && !self.global.quiet;
            print(&render::list(&rows, self.style, legend, terminal_columns()));
        }
        Ok(0)
    }

    /// Asks for each unit, and takes what the manager answers. One that it refuses is said, with status 1, and keeps
    /// nothing from being done for the others.
    fn for_each(
        &mut self,
        method: &str,
        units: &[String],
        mut take: impl FnMut(Value),
    ) -> Result<i32> {
        let mut status = 0;
        for unit in self.expand(units)? {
            match self.client.call(method, json!({"unit": unit})) {
                Ok(answer) => take(answer),
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
        let (is_json, mut between) = (self.global.json, "");
        self.for_each("Status", units, |answer| {
            if is_json {
                return print_json(answer);
            }
            print(&format!("{between}{}", render::show(&answer)));
            between = "\n";
        })
    }

    fn cat(&mut self, units: &[String]) -> Result<i32> {
        let (is_json, style) = (self.global.json, self.style);
        self.for_each("Cat", units, |answer| {
            if is_json {
                return print_json(answer);
            }
            let is_terminal = std::io::stdout().is_terminal();
            for file in answer["files"].as_array().into_iter().flatten() {
                print(&render::file(file, is_terminal, style));
            }
        })
    }

    fn why(&mut self, args: &WhyArgs) -> Result<i32> {
        let answer = match &args.unit {
            Some(unit) if names::is_pattern(unit) => self.why_each(unit)?,
            Some(unit) => self.client.call("Why", json!({"unit": names::unit(unit)}))?,
            None => self.client.call("Why", json!({}))?,
        };
        match self.global.json {
            true => print_json(answer),
            false => print(&render::why(&answer, self.style, self.global.machine.as_deref())),
        }
        Ok(0)
    }

    /// One answer for all units that a pattern matches.
    fn why_each(&mut self, pattern: &str) -> Result<Value> {
        let mut answer = json!({"units": []});
        for unit in self.expand_for_jobs(&[pattern.to_owned()])? {
            let mut one = self.client.call("Why", json!({"unit": unit}))?;
            let units = one["units"].as_array_mut().map(std::mem::take).unwrap_or_default();
            answer["units"].as_array_mut().expect("it is a list").extend(units);
            answer["log_withheld"] = one["log_withheld"].take();
        }
        Ok(answer)
    }

    fn devices(&mut self) -> Result<i32> {
        let answer = self.client.call("Devices", json!({}))?;
        match (self.global.json, answer["seeing"].as_bool()) {
            (true, _) => print_json(answer),
            (false, Some(true)) => print(&crate::devices::tree(&answer, self.style)),
            (false, _) => print(&crate::devices::nobody(&self.why_nobody_looks()?)),
        }
        Ok(0)
    }

    /// What `Why` answers of the device daemon; nothing if it is not there.
    fn why_nobody_looks(&mut self) -> Result<Value> {
        match self.client.call("Why", json!({"unit": crate::devices::DAEMON})) {
            Err(e) if e.is_no_such_unit() => Ok(Value::Null),
            other => Ok(other?),
        }
    }

    /// One word for each unit; 0 when at least one is in the state.
    fn is_state(&mut self, units: &[String], state: &str, otherwise: i32) -> Result<i32> {
        let mut status = otherwise;
        for unit in self.expand(units)? {
            let answer = match self.client.call("Status", json!({"unit": unit})) {
                Err(e) if e.is_no_such_unit() => json!({"active": "inactive"}),
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    continue;
                }
                other => other?,
            };
            let active = answer["active"].as_str().unwrap_or("unknown");
            let up_too = state == "active" && active == "reloading";
            if active == state || up_too {
                status = 0;
            }
            match self.global {
                Global { quiet: true, .. } => {}
                Global { json: true, .. } => print_json(json!({"unit": unit, "active": active})),
                _ => print(&format!("{active}\n")),
            }
        }
        Ok(status)
    }

    fn reset_failed(&mut self, units: &[String]) -> Result<i32> {
        if units.is_empty() {
            return self.plain("ResetFailed", json!({}));
        }
        self.for_each("ResetFailed", units, drop)
    }

    fn totals(&mut self) -> Result<i32> {
        let answer = self.client.call("Totals", json!({}))?;
        match self.global.json {
            true => print_json(answer),
            false => print(&render::totals(&answer, self.style)),
        }
        Ok(0)
    }

    fn unit_files(&mut self, wanted: &Wanted) -> Result<i32> {
        for unit in wanted.masked().iter().filter(|_| !self.global.quiet) {
            let answer = self.client.call("FileState", json!({"unit": unit}))?;
            if answer["state"].is_null() {
                complain!("{}", does_not_exist(unit));
            }
        }
        let answer = self.client.call("UnitFiles", wanted.parameters());
        if answer.is_err() && wanted.verb == "preset-all" {
            // The other units were done. Why not all were says more than that they do not count yet.
            let _ = self.client.call("ReloadConfiguration", json!({}));
        }
        wanted.print(&answer?, self.global.json, self.global.quiet);
        // The links count from now on, as after systemctl's, whoever has heard of them.
        self.client.call("ReloadConfiguration", json!({}))?;
        self.now(wanted)
    }

    /// One word for each unit; 0 when at least one is enabled, and none is refused.
    fn is_enabled(&mut self, units: &[String]) -> Result<i32> {
        let (mut states, mut refused) = (Vec::new(), 0);
        for unit in self.expand(units)? {
            let answer = match self.client.call("FileState", json!({"unit": unit})) {
                Err(error @ CallError::Refused(..)) => {
                    complain_of(&error);
                    refused = 1;
                    continue;
                }
                other => other?,
            };
            let state = answer["state"].as_str().unwrap_or("not-found").to_owned();
            states.push((unit, state));
        }
        Ok(print_states(states.into_iter(), &self.global).max(refused))
    }

    fn now(&mut self, wanted: &Wanted) -> Result<i32> {
        let (args, units) = (&wanted.args, wanted.units());
        match (args.now, wanted.verb) {
            (true, "enable" | "reenable") => self.jobs("start", &units, false),
            (true, "disable" | "mask") => self.stop(&units, args.comment.as_deref()),
            _ => Ok(0),
        }
    }
}

/// One line of JSON, with the version of its form.
pub(crate) fn print_json(mut value: Value) {
    set_format(&mut value);
    print(&format!("{value}\n"));
}

/// The same of what was done, while there is more to do: see [`tell`].
pub(crate) fn tell_json(mut value: Value) {
    set_format(&mut value);
    tell(&format!("{value}\n"));
}

fn set_format(value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert("format".to_owned(), json!(JSON_VERSION));
    }
}

/// Says how the job of a row ended; returns the exit status.
fn job_ended(kind: &str, row: &Value, is_json: bool, machine: Option<&str>) -> i32 {
    let unit = text(&row["unit"]);
    if let Some(error) = row["error"].as_str() {
        let text = clean_lines(row["message"].as_str().unwrap_or(error));
        complain!("Failed to {kind} {unit}: {text}");
        return exit_of_refusal(error, &text);
    }
    // One that is not waited for has a number, and no result yet.
    let otherwise = if row["job"].is_null() { "done" } else { "queued" };
    let result = row["result"].as_str().unwrap_or(otherwise);
    if is_json {
        tell_json(json!({"unit": unit, "type": kind, "result": result}));
    }
    if matches!(result, "done" | "skipped" | "queued") {
        return 0;
    }
    complain!("{}", failed_job(unit, result, machine));
    match result {
        "canceled" => 1,
        "dependency" => EXIT_DEPENDENCY,
        _ => EXIT_OWN_FAULT,
    }
}

/// Where standard output is a terminal.
fn terminal_columns() -> Option<usize> {
    warren_sys::terminal::size(std::io::stdout()).map(|(columns, _)| usize::from(columns))
}

/// What systemctl lists without `--all`: units that are up, in trouble or have a job.
fn is_of_interest(row: &Value) -> bool {
    row["active"] != "inactive" || row["job"].is_object()
}

fn exit_of_status(unit: &Value) -> i32 {
    match (unit["load"].as_str(), unit["active"].as_str()) {
        (Some("not-found"), _) => EXIT_NO_SUCH_UNIT,
        (_, Some("active" | "reloading")) => 0,
        _ => EXIT_NOT_ACTIVE,
    }
}

/// A refusal says at once that the unit cannot get there: for its own sake, or for another's.
fn exit_of_refusal(name: &str, text: &str) -> i32 {
    match name {
        "io.warrener.DependencyRefused" => EXIT_DEPENDENCY,
        NO_SUCH_UNIT => EXIT_NOT_INSTALLED,
        _ if text.contains("not found") => EXIT_NOT_INSTALLED,
        "io.warrener.UnitRefused" => EXIT_OWN_FAULT,
        _ => 1,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn failed_job(unit: &str, result: &str, machine: Option<&str>) -> String {
    let said = match result {
        "failed" => "failed".to_owned(),
        "canceled" => "was cancelled".to_owned(),
        "dependency" => "failed because of a dependency".to_owned(),
        "timeout" => "timed out".to_owned(),
        other => format!("ended with: {other}"),
    };
    format!("Job for {unit} {said}. See '{} why {unit}'.", command(machine))
}

/// The command for a hint to the same manager.
pub(crate) fn command(machine: Option<&str>) -> String {
    machine.map_or_else(|| "warren".to_owned(), |name| format!("warren -M {name}"))
}

/// Says which nested managers there are when the usual one does not answer.
fn with_hint(error: CallError) -> anyhow::Error {
    let names: Vec<String> = machine::all().iter().map(|m| clean(&m.name)).collect();
    let hint = match names.is_empty() {
        true => String::new(),
        false => format!("; nested managers (-M NAME): {}", names.join(", ")),
    };
    anyhow::anyhow!("{error}{hint}")
}

/// A machine that may be entered. Another user's is refused: its programs and libraries are that user's, and a
/// root that enters owns the host's files there.
pub(crate) fn own_machine(name: &str, global: &Global) -> Result<Machine> {
    let machine = find_machine(name, global)?;
    if let Some(uid) = machine.stranger {
        bail!(
            "refusing: commands inside run under the control of user {uid}; run this as that user"
        );
    }
    Ok(machine)
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
            complain!("warren: {program}: not installed");
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
