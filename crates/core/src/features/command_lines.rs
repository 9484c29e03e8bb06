//! Which command stood at which place of a unit's lists when it was run: an edit puts another there, and what is
//! known of the one that was run does not speak of that.

use crate::model::command_line::CommandLine;
use crate::model::ids::UnitId;
use crate::model::process::{COMMAND_ENDS_MAX, CommandList};
use crate::model::state::History;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use crate::settings::Compiled;
use warren_unit::config::Command;

impl History {
    fn keep_line(&mut self, line: CommandLine) {
        let mut lines = std::mem::take(&mut self.lines).into_vec();
        lines.retain(|kept| !kept.is_at(&line));
        if lines.len() == COMMAND_ENDS_MAX {
            lines.remove(0);
        }
        lines.push(line);
        self.lines = lines.into();
    }

    /// Whether another command than this one was run at its place since the unit was last started, as far as is
    /// known.
    pub fn ran_another(&self, list: CommandList, index: u16, command: &Command) -> bool {
        let line = CommandLine::of(list, index, command);
        self.lines.iter().any(|kept| kept.is_at(&line) && *kept != line)
    }
}

/// Notes the command that is about to be run.
pub(crate) fn note_line(
    units: &mut Units,
    unit: UnitId,
    list: CommandList,
    index: u16,
    settings: &Compiled,
) {
    if let Some(command) = settings.commands(list).get(usize::from(index)) {
        let line = CommandLine::of(list, index, command);
        units.history_mut(unit).keep_line(line);
    }
}

/// Where the command that was run at this place stands now: an edit may have moved it. Nothing, if it is
/// not in the list any more.
pub(crate) fn place_now(
    units: &Units,
    unit: UnitId,
    list: CommandList,
    index: u16,
    settings: &Compiled,
) -> Option<u16> {
    let line = |place: u16| {
        let command = settings.commands(list).get(usize::from(place))?;
        Some(CommandLine::of(list, index, command))
    };
    let history = units.run(unit).history.as_ref();
    let ran = history.and_then(|history| {
        history.lines.iter().find(|line| (line.list, line.index) == (list, index))
    });
    let Some(ran) = ran else { return Some(index) };
    let places = 0..settings.commands(list).len() as u16;
    std::iter::once(index).chain(places).find(|&place| line(place).as_ref() == Some(ran))
}

/// The command after the one that was run at this place, if that is still in the list and not the last of
/// it.
pub(crate) fn next_place(
    core: &mut Core,
    unit: UnitId,
    list: CommandList,
    index: u16,
) -> Option<u16> {
    let settings = unit_settings::compiled(core, unit);
    let next = place_now(&core.units, unit, list, index, &settings)? + 1;
    (usize::from(next) < settings.commands(list).len()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::part::Part;
    use crate::model::state::{TypeState, UnitRun};
    use crate::persist::run_state;

    fn command(words: &str) -> Command {
        let (mut commands, _) =
            warren_unit::value::commands(words, &|word| Ok(word.into())).expect("it is a command");
        commands.remove(0)
    }

    /// A history in which `true` was run, as the next incarnation reads it.
    fn written_and_read(history: History) -> History {
        let state = TypeState::Target(true);
        let run = UnitRun { state, job: None, history: Some(Part::new(history)) };
        let mut file = run_state::header();
        run_state::write_unit(&mut file, UnitId(0), &run, None);
        let mut restored = run_state::read(&file).expect("it was just written");
        let run = restored.runs.remove(&UnitId(0)).expect("it was just written");
        History::clone(&run.history.expect("it was just written"))
    }

    #[test]
    fn what_was_run_is_told_from_what_an_edit_put_in_its_place() {
        let mut history = History::default();
        let ran = command("/bin/test a bc");
        history.keep_line(CommandLine::of(CommandList::Start, 0, &ran));
        let history = written_and_read(history);
        let another = |words| history.ran_another(CommandList::Start, 0, &command(words));
        assert!(!another("/bin/test a bc") && !another("-/bin/test a bc"), "the same words");
        assert!(another("/bin/test ab c") && another("/bin/tes ta bc") && another("/bin/test a"));
        assert!(!history.ran_another(CommandList::Start, 1, &command("/bin/x")), "not known");
        assert!(!history.ran_another(CommandList::Stop, 0, &command("/bin/x")), "not known");
    }

    #[test]
    fn the_last_command_of_a_place_counts_and_the_oldest_are_forgotten_first() {
        let mut history = History::default();
        let keep = |history: &mut History, at: usize, words| {
            history.keep_line(CommandLine::of(CommandList::Start, at as u16, &command(words)));
        };
        (0..=COMMAND_ENDS_MAX).for_each(|at| keep(&mut history, at, "/bin/a"));
        keep(&mut history, 2, "/bin/b");
        assert_eq!(history.lines.len(), COMMAND_ENDS_MAX);
        let another = |at| history.ran_another(CommandList::Start, at, &command("/bin/b"));
        assert_eq!([0, 1, 2].map(another), [false, true, false]);
    }
}
