//! Whether this machine boots for the first time (machine-id(5)).

use std::path::Path;

/// Is there for as long as the first boot lasts.
pub(crate) const MARK: &str = "/run/systemd/first-boot";

/// Whether this machine boots for the first time.
pub fn is_first_boot() -> bool {
    Path::new(MARK).exists()
}
