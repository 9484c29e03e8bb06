//! Every reason code can be met: for each there is a case in which `warren why` shows it, and a line
//! of the documentation.

use std::collections::BTreeSet;

use warren_core::model::ids::UnitId;
use warren_core::model::reason::{Code, documentation};
use warren_core::view::View;
use warren_sim::kernel::{Kernel, MS};
use warren_sim::random::Random;
use warren_sim::script::Plan;
use warren_sim::world::World;

/// A unit without default dependencies needs no targets around it.
const ALONE: &str = "\n[Unit]\nDefaultDependencies=no\n";

struct Case<'a> {
    code: &'a str,
    unit: &'a str,
    at: u64,
    plan: Plan,
}

fn cases() -> impl Iterator<Item = Case<'static>> {
    include_str!("reasons.txt").split("\n== ").skip(1).map(|text| {
        let (head, text) = text.split_once('\n').expect("a case has files");
        let words: Vec<&str> = head.split(' ').collect();
        let &[code, unit, "at", at] = words.as_slice() else { panic!("means nothing: {head}") };
        let (files, actions) = text.split_once("\n--\n").unwrap_or_else(|| panic!("no --: {head}"));
        let files: String = files.lines().map(alone).collect();
        let plan = Plan::parse(&format!("{files}\n==\n{actions}"));
        let plan = plan.unwrap_or_else(|line| panic!("{head}: means nothing: {line}"));
        Case { code, unit, at: at.parse().expect("milliseconds"), plan }
    })
}

/// A line of a unit file; its first section has one before it.
fn alone(line: &str) -> String {
    let sections =
        ["[Service]", "[Socket]", "[Mount]", "[Swap]", "[Automount]", "[Timer]", "[Path]"];
    match line {
        "[Unit]" => format!("{}\n", ALONE.trim_end()),
        _ if sections.contains(&line) => format!("{ALONE}{line}\n"),
        _ => format!("{line}\n"),
    }
}

/// The codes that an answer about the unit has: of its state, and of its last job if that came to
/// nothing.
fn shown(view: &View, unit: UnitId) -> Vec<String> {
    let lost = view.run(unit).history.as_ref().and_then(|history| history.lost_job);
    let codes = [Some(view.reason(unit).code), lost.map(|job| job.reason.code)];
    codes.into_iter().flatten().map(Code::id).collect()
}

fn check(case: &Case<'_>) -> Result<(), String> {
    let kernel = Kernel::new(Random::new(1), case.plan.faults);
    let mut world = World::new(case.plan.units.clone(), kernel, 1);
    let begin = world.kernel.now;
    for (at, action) in &case.plan.actions {
        world.run_until(begin + at * MS);
        action.perform(&mut world);
    }
    world.run_until(begin + case.at * MS);
    let log = world.log.join("\n");
    let Some(unit) = world.unit(case.unit) else { return Err(format!("no such unit\n{log}")) };
    let shown = shown(&world.core.view(), unit);
    match shown.iter().any(|code| code == case.code) && world.wrong.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("{} {} shows {shown:?}: {:?}\n{log}\n", case.code, case.unit, world.wrong))
        }
    }
}

#[test]
fn each_code_is_shown_where_its_case_says() {
    let wrong: Vec<String> = cases().filter_map(|case| check(&case).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_code_has_a_case_and_a_line_of_the_documentation() {
    let cases: Vec<&str> = cases().map(|case| case.code).collect();
    let unique: BTreeSet<&str> = cases.iter().copied().collect();
    assert_eq!(cases.len(), unique.len(), "a code has two cases");
    let all: Vec<String> = Code::ALL.iter().map(|code| code.id()).collect();
    assert_eq!(cases, all, "codes and cases, both by number");
    let page = include_str!("../../../docs/src/reference/reasons.md");
    assert_eq!(page, documentation(), "`cargo xtask docs` writes it");
    for code in &all {
        assert_eq!(page.matches(&format!("| [`{code}`](#")).count(), 1, "{code}");
        assert_eq!(page.matches(&format!("\n## {code}\n")).count(), 1, "{code}");
    }
}
