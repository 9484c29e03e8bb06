//! `warren fleet dump`: what the rules make, as text or as files that systemd reads.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warren_fleet::made::Product;
use warren_fleet::session::{Loaded, Products};

use super::messages::tell;
use super::rules;
use crate::args::{DumpArgs, Global};
use crate::output::print;

pub(super) fn run(args: &DumpArgs, global: &Global) -> Result<i32> {
    let Loaded { session, messages } = rules::load(&args.rules, global)?;
    let is_faulty = tell(&messages, &Global { json: false, ..global.clone() });
    let Some(session) = session else { return Ok(1) };
    match &args.unit_files {
        Some(out) => write(out, session.products(), global)?,
        None if args.objects => print(&session.objects()),
        None => show(session.products(), global),
    }
    Ok(i32::from(is_faulty))
}

fn text(path: &str, product: &Product) -> String {
    Product::unit_type(path).map(|unit_type| product.text(unit_type)).unwrap_or_default()
}

fn show(products: &Products, global: &Global) {
    for (path, product) in products {
        let text = text(path, product);
        match global.json {
            true => {
                let version = crate::output::JSON_VERSION;
                print(&format!("{}\n", json!({"path": path, "text": text, "format": version})));
            }
            false => print(&format!("# {path}\n{text}\n")),
        }
    }
}

/// Writes all files. The directory must be empty: what is written is all that is there.
fn write(out: &Path, products: &Products, global: &Global) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let is_empty = fs::read_dir(out)?.next().is_none();
    ensure!(is_empty, "{}: is not empty", out.display());
    for (path, product) in products {
        let place = out.join(&**path);
        let parent = place.parent().unwrap_or(out);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&place, text(path, product)))
            .with_context(|| format!("{}", place.display()))?;
    }
    if !global.quiet {
        complain!(
            "{} files written. Enable the units with an [Install] section: \
             systemctl --root=... preset-all, or enable.",
            products.len()
        );
    }
    Ok(())
}
