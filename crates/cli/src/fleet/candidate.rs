//! `warren fleet plan DIR`: what rules that are not in force would change. Both sides are evaluated
//! here, so that it needs no manager, as in a check of a checkout.

use std::path::PathBuf;

use anyhow::{Context, Result};
use warren_fleet::made::{Origin, Product};
use warren_fleet::session::{Loaded, Products};
use warren_wire::control::{FileText, ReloadAnswer, RuleOrigin, RuleTarget};

use super::messages::tell;
use super::{changes, rules};
use crate::args::{FleetPlanArgs, Global, RulesArgs};
use crate::output::{Style, print, print_json};

/// What the rules of a directory make; `None` if they have faults, which are printed.
fn products(dir: Option<PathBuf>, global: &Global) -> Result<Option<Products>> {
    let Loaded { session, messages } = rules::load(&RulesArgs { dir }, global)?;
    // What is printed is the plan alone.
    tell(&messages, &Global { json: false, ..global.clone() });
    Ok(session.map(|session| session.products().clone()))
}

pub(super) fn plan(args: &FleetPlanArgs, global: &Global) -> Result<i32> {
    let before = products(args.against.clone(), global)
        .context("cannot read the rules to compare with; name others with --against")?;
    let Some(before) = before else { return Ok(1) };
    let Some(after) = products(args.dir.clone(), global)? else { return Ok(1) };
    let answer = compare(&before, &after);
    if global.json {
        print_json(&answer);
    } else if !global.quiet {
        let style = Style::from_environment();
        print(&changes::candidate(&answer, args.plan.all, style));
        if args.diff {
            print(&changes::diff(&answer, &[], style));
        }
    }
    Ok(0)
}

/// What differs, by the paths of unit files.
fn compare(before: &Products, after: &Products) -> ReloadAnswer {
    let mut out = ReloadAnswer::default();
    let text = |path: &str, product: &Product| {
        Product::unit_type(path).map(|unit_type| product.file.print(unit_type))
    };
    for (path, product) in after {
        let old = before.get(path).and_then(|old| text(path, old));
        let new = text(path, product);
        if old == new {
            continue;
        }
        let list = if before.contains_key(path) { &mut out.changed } else { &mut out.added };
        list.push(path.to_string());
        out.made_by.push(origin(path, &product.origin));
        out.texts.push(FileText { path: path.to_string(), before: old, after: new });
    }
    for (path, product) in before.iter().filter(|(path, _)| !after.contains_key(*path)) {
        out.removed.push(path.to_string());
        let before = text(path, product);
        out.texts.push(FileText { path: path.to_string(), before, after: None });
    }
    out
}

fn origin(path: &str, origin: &Origin) -> RuleOrigin {
    let target = origin.target.as_ref().map(|(name, spot)| RuleTarget {
        name: name.to_string(),
        path: spot.path.to_string(),
        line: spot.line,
    });
    RuleOrigin {
        rule: origin.head.to_string(),
        path: origin.spot.path.to_string(),
        line: origin.spot.line,
        target,
        unit: Some(path.to_owned()),
        through: None,
    }
}
