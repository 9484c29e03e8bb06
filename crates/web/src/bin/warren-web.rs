//! The page for browsers; see `warren_web`.

use std::process::ExitCode;

use clap::Parser;
use warren_web::options::Options;
use warren_web::server::run;

/// Open files that this program asks for: who follows a log has its files open.
const OPEN_FILES: u64 = 1 << 16;

fn main() -> ExitCode {
    warren_sys::heap::limit_arenas();
    warren_sys::heap::return_large_blocks();
    // With fewer, later clients are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warren_sys::tell!("warren-web: {error}");
            ExitCode::FAILURE
        }
    }
}
