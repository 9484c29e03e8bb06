//! `--list-boots`.

use std::io::Write;

use serde_json::{Value, json};

use crate::args::Args;
use crate::failure::Failure;
use crate::report::report;
use warren_log_store::query::BootSpan;
use warren_log_store::query::Union;
use warren_log_store::time;

/// Lists the boots that the log is of: a table, or an array for outputs in JSON.
pub fn list(journal: &Union, args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let (spans, damage) = journal.boots()?;
    report(&damage);
    let last = spans.len() as i64 - 1;
    let mut rows: Vec<(i64, BootSpan)> =
        spans.into_iter().enumerate().map(|(at, span)| (at as i64 - last, span)).collect();
    if args.reverse {
        rows.reverse();
    }
    match args.output.starts_with("json") {
        true => put_json(&rows, args.output == "json-pretty", out)?,
        false => put_table(&rows, args, out)?,
    }
    Ok(true)
}

fn put_table(rows: &[(i64, BootSpan)], args: &Args, out: &mut dyn Write) -> std::io::Result<()> {
    const PATTERN: &str = "%a %Y-%m-%d %H:%M:%S %Z";
    const HEAD: [&str; 4] = ["IDX", "BOOT ID", "FIRST ENTRY", "LAST ENTRY"];
    if rows.is_empty() {
        return Ok(());
    }
    let zone = args.zone();
    let print = |us| time::print(us, &zone, PATTERN);
    let cells = rows.iter().map(|(index, span)| {
        let times = [span.realtime_min_us, span.realtime_max_us].map(print);
        [vec![index.to_string(), span.boot.to_string()], times.to_vec()].concat()
    });
    let mut lines: Vec<Vec<String>> = cells.collect();
    if !args.quiet && args.output != "cat" {
        lines.insert(0, HEAD.map(str::to_owned).to_vec());
    }
    let width = |column: usize| lines.iter().map(|cells| cells[column].len()).max().unwrap_or(0);
    let (index, boot, first) = (width(0), width(1), width(2));
    for line in &lines {
        let [at, id, from, to] = &line[..] else { continue };
        writeln!(out, "{at:>index$} {id:<boot$} {from:<first$} {to}")?;
    }
    Ok(())
}

fn put_json(rows: &[(i64, BootSpan)], pretty: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let object = |(index, span): &(i64, BootSpan)| {
        json!({
            "index": index,
            "boot_id": span.boot.to_string(),
            "first_entry": span.realtime_min_us,
            "last_entry": span.realtime_max_us,
        })
    };
    let rows: Value = rows.iter().map(object).collect();
    if pretty { writeln!(out, "{rows:#}") } else { writeln!(out, "{rows}") }
}
