//! `warren list --by`: units by how often they were restarted, and by what they use now.
//!
//! What the manager knows comes in one answer; memory and tasks are read from cgroups, as `warren top` does. Sorting and
//! drawing are pure.

use std::path::Path;

use serde::Serialize;
use warren_console::usage::Sampler;
use warren_wire::control::Overview;

use crate::args::By;
use crate::client::{CallError, Client};
use crate::output::{Style, Tone, bytes, clean, span_us, tone_of_state};

/// Rows that are shown unless all are asked for.
const ROWS_SHOWN: usize = 20;

/// A unit with its numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Its state.
    pub active: String,
    /// Its state in the words of its type.
    pub sub: String,
    /// How often `Restart=` started it again since somebody asked for it.
    pub restarts: u32,
    /// Bytes of memory, as its cgroup has them; null where the kernel counts none.
    pub memory: Option<u64>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// When it came into its state, in µs since 1970.
    pub since_us: Option<u64>,
}

/// All units but slices, which use what their units use; those of which there is most first. `root` is the manager's
/// file system.
///
/// # Errors
/// What the manager does not answer.
pub fn ranked(client: &mut Client, root: &Path, by: By) -> Result<Vec<Ranked>, CallError> {
    let answer = client.call(&Overview { changed_since_us: None })?;
    let mut sampler = Sampler::default();
    if let Some(groups) = &answer.cgroup_root {
        sampler.open(&root.join(groups.trim_start_matches('/')));
    }
    let usage = sampler.sweep(true);
    let units = answer.rows.into_iter().filter(|row| !row.name.ends_with(".slice"));
    let mut rows: Vec<Ranked> = units
        .map(|row| {
            let usage = usage.get(&*row.name).copied().unwrap_or_default();
            Ranked {
                active: row.active.as_str().to_owned(),
                sub: row.sub,
                restarts: row.restarts,
                memory: usage.memory,
                tasks: usage.tasks,
                since_us: row.since_us,
                name: row.name,
            }
        })
        .collect();
    sort(&mut rows, by);
    Ok(rows)
}

/// How much there is of it; nothing that is not worth a row.
fn key(row: &Ranked, by: By) -> Option<u64> {
    let much = match by {
        By::Restarts => Some(row.restarts.into()),
        By::Memory => row.memory,
        By::Tasks => row.tasks,
        By::Since => row.since_us,
    };
    much.filter(|much| *much > 0)
}

fn sort(rows: &mut Vec<Ranked>, by: By) {
    rows.retain(|row| key(row, by).is_some());
    rows.sort_by(|a, b| key(b, by).cmp(&key(a, by)).then_with(|| a.name.cmp(&b.name)));
}

/// The rows as a table; the first of them unless `all` are wanted.
pub fn table(rows: &[Ranked], by: By, all: bool, now_us: u64, style: Style) -> String {
    if rows.is_empty() {
        let none = match by {
            By::Restarts => "No unit was restarted by Restart= since its last requested start.",
            By::Memory => {
                "The kernel counts the memory of no unit here: the cgroup controller `memory` is missing."
            }
            By::Tasks => {
                "The kernel counts the tasks of no unit here: the cgroup controller `pids` is missing."
            }
            By::Since => "No unit has changed its state.",
        };
        return format!("{none}\n");
    }
    let heading = format!(
        "{:>8} {:>9} {:>6} {:>10}  {:<13} UNIT",
        "RESTARTS", "MEMORY", "TASKS", "FOR", "STATE"
    );
    let mut out = style.paint(Tone::Strong, &heading) + "\n";
    let shown = if all { rows.len() } else { ROWS_SHOWN };
    for row in rows.iter().take(shown) {
        let memory = row.memory.map_or("-".to_owned(), bytes);
        let tasks = row.tasks.map_or("-".to_owned(), |tasks| tasks.to_string());
        let span = |at: u64| match now_us.saturating_sub(at) / 1_000_000 {
            0 => "0 s".to_owned(),
            seconds => span_us(seconds * 1_000_000),
        };
        let time = row.since_us.map_or("-".to_owned(), span);
        let state = style.paint(tone_of_state(&row.active), &format!("{:<13}", clean(&row.sub)));
        let numbers = format!("{:>8} {memory:>9} {tasks:>6} {time:>10}", row.restarts);
        out += &format!("{numbers}  {state} {}\n", clean(&row.name));
    }
    match rows.len().saturating_sub(shown) {
        0 => out,
        more => out + &format!("{more} more: --all shows them.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, restarts: u32, memory: Option<u64>) -> Ranked {
        let (active, sub) = ("active".to_owned(), "running".to_owned());
        let since_us = Some(1_000_000);
        Ranked {
            name: name.to_owned(),
            active,
            sub,
            restarts,
            memory,
            since_us,
            ..Ranked::default()
        }
    }

    #[test]
    fn what_there_is_most_of_is_first_and_what_there_is_nothing_of_is_left_out() {
        let all =
            [row("b", 2, Some(5)), row("a", 2, None), row("c", 9, Some(7)), row("d", 0, Some(0))];
        let names = |by| {
            let mut rows = all.to_vec();
            sort(&mut rows, by);
            rows.into_iter().map(|row| row.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(By::Restarts), "c a b");
        assert_eq!(names(By::Memory), "c b");
        assert_eq!(names(By::Tasks), "");
    }

    #[test]
    fn the_table_has_twenty_rows_and_says_how_many_more_there_are() {
        let rows: Vec<Ranked> =
            (0..25).map(|n| row(&format!("u{n}.service"), 30 - n, None)).collect();
        let text = |all| table(&rows, By::Restarts, all, 62_000_000, Style::default());
        assert_eq!(text(false).lines().count(), 22, "{}", text(false));
        assert!(text(false).ends_with("5 more: --all shows them.\n"));
        assert_eq!(text(true).lines().count(), 26);
        let first = text(true).lines().nth(1).map(str::to_owned);
        assert_eq!(
            first.as_deref(),
            Some("      30         -      -    1min 1s  running       u0.service")
        );
        assert!(table(&[], By::Memory, false, 0, Style::default()).contains("controller `memory`"));
    }
}
