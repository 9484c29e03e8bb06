//! What is kept of a run for those who ask: its result, and which commands it had.

use warren_core::model::active_state::ActiveState;
use warren_core::model::process::{CommandList, Outcome};
use warren_sim::kernel::{Kernel, MS};
use warren_sim::random::Random;
use warren_sim::script::Plan;
use warren_sim::world::World;

/// The world when the plan's last action is done.
fn played(plan: &str) -> World {
    let plan = Plan::parse(plan).unwrap_or_else(|line| panic!("means nothing: {line}"));
    let kernel = Kernel::new(Random::new(1), plan.faults);
    let mut world = World::new(plan.units.clone(), kernel, 1);
    let begin = world.kernel.now;
    let mut end = begin;
    for (at, action) in &plan.actions {
        end = begin + at * MS;
        world.run_until(end);
        action.perform(&mut world);
    }
    world.run_until(end + MS);
    assert_eq!(world.wrong, Vec::<String>::new());
    world
}

const RESTARTED: &str = "# a.service\n[Unit]\nDefaultDependencies=no\n\
                         [Service]\nRestart=always\nRestartSec=60\nExecStart=/p sleep:100 exit:1\n==\n\
                         0 start a.service\n";

#[track_caller]
fn check_result(actions: &str, state: ActiveState, outcome: Outcome) {
    let world = played(&format!("{RESTARTED}{actions}"));
    let unit = world.unit("a.service").expect("it has a file");
    let found = (world.core.view().run(unit).active_state(), world.core.view().run(unit).outcome());
    assert_eq!(found, (state, outcome), "{actions}");
}

/// As with systemd 252.
#[test]
fn a_stop_keeps_the_result_of_what_waits_to_restart_and_reset_failed_does_not() {
    check_result("2000 reload\n", ActiveState::Activating, Outcome::ExitCode);
    check_result("2000 stop a.service\n", ActiveState::Inactive, Outcome::ExitCode);
    check_result("2000 reset-failed a.service\n", ActiveState::Activating, Outcome::Success);
    let both = "2000 stop a.service\n3000 reset-failed a.service\n";
    check_result(both, ActiveState::Inactive, Outcome::Success);
}

#[test]
fn a_command_that_was_edited_is_not_the_one_that_was_run() {
    let plan = "# a.service\n[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/p exit:1\n==\n\
                0 start a.service\n2000 edit a.service [Service];Type=oneshot;ExecStart=/p exit:0\n";
    let world = played(plan);
    let unit = world.unit("a.service").expect("it has a file");
    let view = world.core.view();
    let history = view.run(unit).history.as_ref().expect("it was run");
    let ran_another = |text: &str| {
        let parsed = warren_unit::value::commands(text, &|word| Ok(word.into()));
        let command = &parsed.expect("it is a command").0[0];
        history.ran_another(CommandList::Start, 0, command)
    };
    assert!(history.last_main.is_some() && ran_another("/p exit:0") && !ran_another("/p exit:1"));
}
