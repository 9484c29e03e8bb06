//! `warren icinga`: configurations of Icinga 2, loaded by the same engine with its schema.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use warren_fleet::engine::{Fleet, Options, load};
use warren_fleet::modules::Modules;
use warren_fleet::schema::icinga;
use warren_fleet::session::Message;
use warren_fleet::types::Types;
use warren_fleet::{Place, Severity, Source, dump};
use warren_fleet_files::Files;

use super::{rules, tell};
use crate::args::{Global, IcingaArgs};
use crate::output::print;

/// A loaded configuration.
struct Configuration {
    types: Types,
    modules: Modules,
    fleet: Fleet,
}

impl Configuration {
    fn load(args: &IcingaArgs) -> Result<Configuration> {
        let (types, modules) = (Types::new(icinga::types()), Modules::default());
        let defines: Vec<(&str, &str)> = args
            .define
            .iter()
            .map(|word| word.split_once('=').with_context(|| format!("{word}: not NAME=VALUE")))
            .collect::<Result<_>>()?;
        let threads = usize::from(args.threads);
        let options = Options { threads, constants: &defines, ..rules::options() };
        let is_directory = args.path.is_dir();
        let directory = match is_directory {
            true => args.path.clone(),
            false => args.path.parent().map(Path::to_path_buf).unwrap_or_default(),
        };
        let mut files = Files::new(directory, false).with_search_path(args.include.clone());
        let root = if is_directory { files.root() } else { read(&args.path)? };
        let mut log = |line: &str| eprintln!("{line}");
        let fleet = files.read(&mut log, |reading| {
            rules::deep(|| load(root, &types, &modules, Box::new(reading), &options))
        });
        Ok(Configuration { types, modules, fleet })
    }

    fn messages(&self) -> Vec<Message> {
        let all = self.fleet.faults.iter().chain(&self.fleet.warnings);
        all.map(|fault| Message::of(fault, &self.modules)).collect()
    }

    /// How many objects there are of each type.
    fn counts(&self) -> Vec<(&str, usize)> {
        let of_types = self.fleet.world.by_type.iter();
        of_types.map(|(id, all)| (self.types.get(*id).name.as_str(), all.len())).collect()
    }

    fn describe(&self, place: Place) -> String {
        let source = self.modules.source(place.file.0);
        source.map_or("?".to_owned(), |source| source.describe(place.span.start))
    }
}

fn read(path: &PathBuf) -> Result<Source> {
    let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    Ok(Source::new(&path.to_string_lossy(), &text))
}

/// As `icinga2 daemon -C` does: what is wrong, else how many objects there are.
pub(super) fn check(args: &IcingaArgs, global: &Global) -> Result<i32> {
    let configuration = Configuration::load(args)?;
    let messages = configuration.messages();
    let is_faulty = tell(&messages, global);
    let warnings = messages.iter().filter(|message| message.severity != Severity::Error).count();
    let counts = configuration.counts();
    if is_faulty {
        eprintln!("{} errors, {warnings} warnings.", messages.len() - warnings);
        return Ok(1);
    }
    if global.json {
        let counts: serde_json::Map<String, serde_json::Value> =
            counts.into_iter().map(|(name, n)| (name.to_owned(), json!(n))).collect();
        print(&format!("{}\n", json!({"objects": counts, "format": crate::verbs::JSON_VERSION})));
    } else if !global.quiet {
        let plural = |(name, n): (&str, usize)| match n {
            1 => format!("Instantiated 1 {name}.\n"),
            n if name.ends_with('y') => {
                format!("Instantiated {n} {}ies.\n", &name[..name.len() - 1])
            }
            n => format!("Instantiated {n} {name}s.\n"),
        };
        let lines: String = counts.into_iter().map(plural).collect();
        print(&format!("{lines}Configuration is valid.\n"));
    }
    Ok(0)
}

/// Every object, its attributes, and the places that set them.
pub(super) fn objects(args: &IcingaArgs, global: &Global) -> Result<i32> {
    let configuration = Configuration::load(args)?;
    if tell(&configuration.messages(), global) {
        return Ok(1);
    }
    let describe = |place: Place| configuration.describe(place);
    print(&dump::objects(&configuration.fleet.world, &configuration.types, &describe));
    Ok(0)
}
