//! A configuration and what is loaded with it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use warren_fleet::engine::{Fleet, Options, load};
use warren_fleet::modules::Modules;
use warren_fleet::schema::icinga::{self, Version};
use warren_fleet::session::Message;
use warren_fleet::types::Types;
use warren_fleet::{Place, Source};
use warren_fleet_files::Files;

use super::super::rules;
use super::installation;
use crate::args::{Global, IcingaArgs, IcingaVersion};

/// A loaded configuration.
pub(super) struct Configuration {
    pub types: Types,
    pub modules: Modules,
    pub fleet: Fleet,
}

/// The main file of a directory that is a whole configuration.
const MAIN_FILE: &str = "icinga2.conf";

/// What is loaded.
struct Sources {
    /// The directory that the first file stands in.
    directory: PathBuf,
    root: Source,
    /// Constants, the last of a name counts.
    constants: Vec<(String, String)>,
    /// It is a main file, with which the program loads more.
    is_main: bool,
}

impl Sources {
    /// A main file; of a directory its `icinga2.conf`, else all its files.
    fn of(args: &IcingaArgs) -> Result<Sources> {
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        let fixed = installation::CONSTANTS.map(|(name, value)| (name, value.to_owned()));
        let mut constants: Vec<(String, String)> =
            installation::host().into_iter().chain(fixed).map(owned).collect();
        let main = args.path.join(MAIN_FILE);
        let given = if !args.path.is_dir() {
            let directory = args.path.parent().map(Path::to_path_buf).unwrap_or_default();
            Sources { directory, root: read(&args.path)?, constants, is_main: true }
        } else if main.exists() {
            let path = |path: &Path| path.to_string_lossy().into_owned();
            constants.push(("Configuration.ConfigDir".to_owned(), path(&args.path)));
            let zones = path(&args.path.join("zones.d"));
            constants.push(("Configuration.ZonesDir".to_owned(), zones));
            Sources { directory: args.path.clone(), root: read(&main)?, constants, is_main: true }
        } else {
            let path = args.path.join("(all files)");
            let root = Source::new(&path.to_string_lossy(), b"include_recursive \"\"\n");
            Sources { directory: args.path.clone(), root, constants, is_main: false }
        };
        given.with(&args.define)
    }

    /// The same with constants of the command line.
    fn with(mut self, defines: &[String]) -> Result<Sources> {
        for word in defines {
            let (name, value) =
                word.split_once('=').with_context(|| format!("{word}: not NAME=VALUE"))?;
            self.constants.push((name.to_owned(), value.to_owned()));
        }
        Ok(self)
    }

    /// A constant that is a path.
    fn path(&self, name: &str) -> PathBuf {
        let mut known = self.constants.iter().rev().filter(|(known, _)| known == name);
        known.next().map(|(_, value)| PathBuf::from(value)).unwrap_or_default()
    }
}

impl Configuration {
    pub(super) fn load(args: &IcingaArgs, global: &Global) -> Result<Configuration> {
        let version = match args.icinga {
            Some(IcingaVersion::V2_13) => Version::V2_13,
            Some(IcingaVersion::V2_16) => Version::V2_16,
            None => installation::library_version(&args.include),
        };
        let (types, modules) = (Types::new(icinga::types(version)), Modules::default());
        let given = Sources::of(args)?;
        let after = match given.is_main {
            true => installation::additions(
                &given.path("Configuration.ZonesDir"),
                &given.path("Configuration.DataDir"),
            ),
            false => Vec::new(),
        };
        let constants: Vec<(&str, &str)> =
            given.constants.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (before, application) = (icinga::before(version), icinga::application());
        let options = Options {
            threads: usize::from(args.threads),
            constants: &constants,
            before: Some(&before),
            after: &after,
            otherwise: &[("IcingaApplication", &application)],
            in_sequence: args.sequential,
            ..rules::options()
        };
        let mut files = Files::new(given.directory, false).with_search_path(args.include.clone());
        let fleet = rules::shown("Loading the configuration", global, |log| {
            files.read(log, |reading| {
                rules::deep(|| load(given.root, &types, &modules, Box::new(reading), &options))
            })
        });
        Ok(Configuration { types, modules, fleet })
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        let all = self.fleet.faults.iter().chain(&self.fleet.warnings);
        all.map(|fault| Message::of(fault, &self.modules)).collect()
    }

    /// How many objects there are of each type.
    pub(super) fn counts(&self) -> Vec<(&str, usize)> {
        let of_types = self.fleet.world.by_type.iter();
        of_types.map(|(id, all)| (self.types.get(*id).name.as_str(), all.len())).collect()
    }

    pub(super) fn describe(&self, place: Place) -> String {
        let source = self.modules.source(place.file.0);
        source.map_or("?".to_owned(), |source| source.describe(place.span.start))
    }
}

fn read(path: &Path) -> Result<Source> {
    let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    Ok(Source::new(&path.to_string_lossy(), &text))
}
