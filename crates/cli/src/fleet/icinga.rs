//! `warren icinga`: configurations of Icinga 2, loaded by the same engine with its schema.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use warren_fleet::dump_icinga::Dump;
use warren_fleet::engine::{Fleet, Options, load};
use warren_fleet::modules::Modules;
use warren_fleet::schema::icinga;
use warren_fleet::session::Message;
use warren_fleet::types::Types;
use warren_fleet::{Place, Severity, Source, dump};
use warren_fleet_files::Files;

use super::messages::tell;
use super::rules;
use crate::args::{Global, IcingaArgs, IcingaObjectsArgs};
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
        let host = host();
        let mut constants: Vec<(&str, &str)> =
            host.iter().map(|(name, value)| (*name, value.as_str())).collect();
        constants.extend(DIRECTORIES);
        constants.extend(
            defines
                .iter()
                .map(|(name, value)| (name.strip_prefix("Configuration.").unwrap_or(name), *value)),
        );
        let before = icinga::before();
        let (constants, before) = (&constants[..], Some(&before));
        let in_sequence = args.sequential;
        let options = Options { threads, constants, before, in_sequence, ..rules::options() };
        let is_directory = args.path.is_dir();
        let directory = match is_directory {
            true => args.path.clone(),
            false => args.path.parent().map(Path::to_path_buf).unwrap_or_default(),
        };
        let mut files = Files::new(directory, false).with_search_path(args.include.clone());
        let root = if is_directory { files.root() } else { read(&args.path)? };
        let mut log = |line: &str| complain!("{line}");
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

/// The constants of Debian's package ("Language Reference", "Icinga 2 Specific Constants").
const DIRECTORIES: [(&str, &str); 24] = [
    ("PrefixDir", "/usr"),
    ("SysconfDir", "/etc"),
    ("ConfigDir", "/etc/icinga2"),
    ("ZonesDir", "/etc/icinga2/zones.d"),
    ("LocalStateDir", "/var"),
    ("RunDir", "/run"),
    ("InitRunDir", "/run/icinga2"),
    ("LogDir", "/var/log/icinga2"),
    ("DataDir", "/var/lib/icinga2"),
    ("CacheDir", "/var/cache/icinga2"),
    ("SpoolDir", "/var/spool/icinga2"),
    ("PkgDataDir", "/usr/share/icinga2"),
    ("IncludeConfDir", "/usr/share/icinga2/include"),
    ("RunAsUser", "nagios"),
    ("RunAsGroup", "nagios"),
    ("StatePath", "/var/lib/icinga2/icinga2.state"),
    ("ModAttrPath", "/var/lib/icinga2/modified-attributes.conf"),
    ("ObjectsPath", "/var/cache/icinga2/icinga2.debug"),
    ("VarsPath", "/var/cache/icinga2/icinga2.vars"),
    ("PidPath", "/run/icinga2/icinga2.pid"),
    ("ApiBindHost", "::"),
    ("ApiBindPort", "5665"),
    ("ApplicationVersion", "r2.13.6-1"),
    ("PlatformKernel", "Linux"),
];

/// What the installed program says of this host.
fn host() -> [(&'static str, String); 5] {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |path: &str| read(path).trim().to_owned();
    let release = read("/etc/os-release");
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or("Unknown").trim_matches(['"', '\'']).to_owned()
    };
    [
        ("NodeName", line("/proc/sys/kernel/hostname")),
        ("PlatformName", field("NAME=")),
        ("PlatformVersion", field("VERSION=")),
        ("PlatformKernelVersion", line("/proc/sys/kernel/osrelease")),
        ("PlatformArchitecture", std::env::consts::ARCH.to_owned()),
    ]
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
        complain!("{} errors, {warnings} warnings.", messages.len() - warnings);
        return Ok(1);
    }
    if global.json {
        let counts: serde_json::Map<String, serde_json::Value> =
            counts.into_iter().map(|(name, n)| (name.to_owned(), json!(n))).collect();
        print(&format!("{}\n", json!({"objects": counts, "format": crate::output::JSON_VERSION})));
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
pub(super) fn objects(args: &IcingaObjectsArgs, global: &Global) -> Result<i32> {
    let configuration = Configuration::load(&args.configuration)?;
    if tell(&configuration.messages(), global) {
        return Ok(1);
    }
    let dump = Dump {
        world: &configuration.fleet.world,
        types: &configuration.types,
        modules: &configuration.modules,
    };
    if let Some(path) = &args.objects_file {
        let written = std::fs::write(path, dump.file());
        return written.with_context(|| format!("{}", path.display())).map(|()| 0);
    }
    if global.json {
        for text in dump.all() {
            print(&format!("{}\n", String::from_utf8_lossy(&text)));
        }
        return Ok(0);
    }
    let describe = |place: Place| configuration.describe(place);
    print(&dump::objects(&configuration.fleet.world, &configuration.types, &describe));
    Ok(0)
}
