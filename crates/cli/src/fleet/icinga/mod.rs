//! `warren icinga`: configurations of Icinga 2, loaded by the same engine with its schema.

mod configuration;
mod installation;

use anyhow::{Context, Result};
use serde_json::json;
use warren_fleet::dump::{self, Only};
use warren_fleet::dump_icinga::Dump;
use warren_fleet::{Place, Severity};

use super::messages::tell;
use crate::args::{Global, IcingaArgs, IcingaObjectsArgs};
use crate::output::print;
use configuration::Configuration;

/// As `icinga2 daemon -C` does: what is wrong, else how many objects there are.
pub(super) fn check(args: &IcingaArgs, global: &Global) -> Result<i32> {
    let configuration = Configuration::load(args, global)?;
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
    let configuration = Configuration::load(&args.configuration, global)?;
    // What is printed is the objects alone.
    if tell(&configuration.messages(), &Global { json: false, ..global.clone() }) {
        return Ok(1);
    }
    let only = Only { of_type: args.r#type.as_deref(), name: args.name.as_deref() };
    let dump = Dump {
        world: &configuration.fleet.world,
        types: &configuration.types,
        modules: &configuration.modules,
        only,
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
    print(&dump::objects(&configuration.fleet.world, &configuration.types, only, &describe));
    Ok(0)
}
