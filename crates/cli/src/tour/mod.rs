//! `warren tour`, what `make run` shows: the main job on made-up units in a nested manager.
//!
//! Writes unit files into a temporary directory, runs a nested manager over them, shows what it
//! does with figures, stops it. Leaves nothing behind. A step that cannot be shown here (no
//! autofs in a user namespace, say) is told in words and is no error.

mod hosting;
pub mod layout;
mod live;
mod steps;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::args::TourArgs;
use crate::nest::started::{Nested, Over};

/// The temporary directory, removed at the end whatever happens.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("warren-tour-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs in a temporary directory are no reason to hide the real error.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Shows the tour; on a terminal it stays up afterwards until it is told to end.
pub fn run(args: &TourArgs) -> Result<i32> {
    let scratch = Scratch::make()?;
    if let Some(rules) = &args.fleet {
        return hosting::run(rules, &scratch.0, args.once);
    }
    let units = scratch.0.join("units");
    let echo = beside("warren-echo")?;
    let (sets, slices) = (args.sets, args.slices);
    let extent = layout::Extent { sets, wanted: sets, slices };
    let count =
        layout::write(&units, extent, &echo).with_context(|| format!("{}", units.display()))?;
    println!("Warrener: {count} unit files, {} sets, in a manager of their own.\n", args.sets);
    let interactive = is_interactive(args.once);
    let over = Over { flag: "--units", directory: &units, target: layout::TARGET, sets: args.sets };
    let mut nested = Nested::over(Path::new("/proc/self/exe"), &scratch.0, &over)?;
    if let Err(error) = show(&mut nested, &units, args, &echo, interactive) {
        nested.kill();
        return Err(error);
    }
    steps::stop(nested)?;
    Ok(0)
}

fn is_interactive(once: bool) -> bool {
    !once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

fn show(nested: &mut Nested, units: &Path, args: &TourArgs, echo: &Path, live: bool) -> Result<()> {
    steps::show(nested, units, args.sets, echo)?;
    if live { live::watch(nested, &live::SETS) } else { Ok(()) }
}

/// A program of ours beside this one, or where it is installed.
fn beside(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let here = own.parent().map(PathBuf::from).unwrap_or_default();
    let places = [here.join(name), here.join("../lib/warren").join(name)];
    places
        .into_iter()
        .find_map(|p| p.canonicalize().ok())
        .with_context(|| format!("{name} is missing"))
}
