//! Which server a start waits for that has come to no process yet: one on the way to what is looked at
//! before there is one. The kernel's mount table says so; no server is asked.

use warren_bus::backend::Backend;
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobKind;
use warren_core::settings::Compiled;
use warren_core::view::View;
use warren_sys::mount;
use warren_unit::UnitType;
use warren_unit::config::{ServiceConfig, WorkingDirectory};

use crate::base::server_mounts::server_of;
use crate::published::shared::Shared;

/// The server of a unit that is at its start, stop or reload without a process, or whose conditions are
/// being looked at.
pub(crate) fn server(view: &View, shared: &Shared, unit: UnitId) -> Option<String> {
    let run = view.run(unit);
    let has_process = run.control_pid().is_some() || run.main_process().is_some();
    let job = view.job(unit).filter(|job| job.blockers == 0 && !has_process)?;
    let settings = shared.compiled(view.definition(unit));
    let is_service = view.graph.name(unit).unit_type() == UnitType::Service;
    let paths = match view.active_state(unit).is_down() {
        true if job.running && job.kind == JobKind::Start => looked_at(&settings),
        false if job.running && is_service => opened(settings.service()),
        _ => Vec::new(),
    };
    let paths = paths.iter().filter(|path| path.starts_with('/'));
    let table = mount::table().unwrap_or_default();
    paths.into_iter().find_map(|path| server_of(&table, path))
}

/// What conditions and assertions look at.
fn looked_at(settings: &Compiled) -> Vec<String> {
    let section = &settings.section;
    let all = section.conditions.iter().chain(&section.asserts);
    all.map(|condition| condition.parameter.to_string()).collect()
}

/// What is read or entered before a program is executed, and programs, also those that are searched for.
fn opened(config: &ServiceConfig) -> Vec<String> {
    let exec = &config.exec;
    let files = exec.environment_files.iter().map(|file| file.path.to_string());
    let directory = match &exec.working_directory {
        Some(WorkingDirectory::Path(path)) => Some(path.to_string()),
        _ => None,
    };
    let lists = [&config.exec_condition, &config.exec_start_pre, &config.exec_start];
    let more = [&config.exec_start_post, &config.exec_reload, &config.exec_stop];
    let lists = lists.into_iter().chain(more).chain([&config.exec_stop_post]);
    let programs = lists.flatten().map(|command| command.path.to_string());
    let searched = exec.exec_search_path.iter().map(|directory| directory.to_string());
    files.chain(directory).chain(programs).chain(searched).collect()
}
