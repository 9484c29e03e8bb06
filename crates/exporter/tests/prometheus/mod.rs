//! Programs of Debian's package prometheus.

use std::path::{Path, PathBuf};

use warren_testkit::not_run;

/// One of them, as scripts/peers.sh unpacked it: installed it would start a server.
pub fn of_prometheus(program: &str) -> Option<PathBuf> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/usr/bin");
    let found = [peers, PathBuf::from("/usr/bin")].map(|directory| directory.join(program));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        not_run(&format!("needs {program}, not installed"));
    }
    found
}
