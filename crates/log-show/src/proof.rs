//! `--setup-keys`, and `--verify` with a key: [`warren_log_store::ledger`] for administrators.

use std::io::Write;

use crate::args::Args;
use crate::failure::Failure;
use crate::stores::Store;
use warren_log_store::ledger::audit::audit;
use warren_log_store::ledger::book::set_up as write_key;
use warren_log_store::ledger::keys::{INTERVAL_DEFAULT_US, INTERVAL_MIN_US, State};
use warren_log_store::ledger::{KEY_NAME, LEDGER_NAME};
use warren_log_store::time;

/// Makes a key and prints what verifies it, alone on standard output.
pub fn set_up(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let directory = args.on_disk();
    if !directory.is_dir() {
        return Err(Failure(format!("{}: no such directory", directory.display())));
    }
    let interval_us = match &args.interval {
        None => INTERVAL_DEFAULT_US,
        Some(text) => time::parse_span(text)
            .filter(|span| *span >= INTERVAL_MIN_US)
            .ok_or_else(|| Failure(format!("Failed to parse '{text}', or it is below a second")))?,
    };
    let halves = [warren_sys::random::u128(), warren_sys::random::u128()];
    let mut secret = [0; 32];
    secret[..16].copy_from_slice(&halves[0].to_le_bytes());
    secret[16..].copy_from_slice(&halves[1].to_le_bytes());
    let state = State::new(secret, time::now_us(), interval_us);
    if !args.force && directory.join(KEY_NAME).exists() {
        let path = directory.join(KEY_NAME);
        let what = "exists already; --force replaces it, and its ledger";
        return Err(Failure(format!("{} {what}", path.display())));
    }
    write_key(&directory, &state, args.force)?;
    if !args.quiet {
        let path = directory.join(KEY_NAME);
        warren_sys::tell!("The key that changes is in {}.", path.display());
        warren_sys::tell!(
            "Keep the following one elsewhere: it is needed to verify, and is nowhere else."
        );
        warren_sys::tell!("Then restart the log daemon.");
    }
    writeln!(out, "{state}")?;
    Ok(())
}

/// Checks the stores that have a ledger; false when something is not as it was.
pub fn verify(args: &Args, stores: &[Store]) -> Result<bool, Failure> {
    let with_ledger = stores.iter().map(|store| store.files.directory());
    let with_ledger: Vec<_> = with_ledger
        .filter(|directory| {
            [LEDGER_NAME, KEY_NAME].iter().any(|name| directory.join(name).exists())
        })
        .collect();
    let Some(key) = &args.verify_key else {
        if !with_ledger.is_empty() && !args.quiet {
            warren_sys::tell!("There is a ledger; it is checked only with --verify-key.");
        }
        return Ok(true);
    };
    let first = State::parse(key).filter(|state| state.key.epoch == 0);
    let key = first.ok_or_else(|| Failure("Failed to parse the verification key".to_owned()))?;
    if with_ledger.is_empty() {
        return Err(Failure("There is no ledger".to_owned()));
    }
    let mut proved = true;
    for directory in with_ledger {
        let report = audit(directory, &key)?;
        proved &= report.faults.is_empty();
        report
            .faults
            .iter()
            .for_each(|fault| warren_sys::tell!("{}: {fault}", directory.display()));
        let result = if report.faults.is_empty() { "PASS" } else { "FAIL" };
        let path = directory.join(LEDGER_NAME);
        warren_sys::tell!("{result}: {}, {} segments as they were", path.display(), report.proved);
        if let Some(until_us) = report.until_us {
            let until = time::print(until_us, &args.zone(), "%a %Y-%m-%d %H:%M:%S %Z");
            warren_sys::tell!("=> Sealed until {until}; what is newer is not proved");
        }
    }
    Ok(proved)
}
