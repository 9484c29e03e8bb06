//! A small file, replaced as a whole.

use std::io;
use std::path::Path;

/// Has a file say this, as a whole: whoever is killed over it leaves what it said before.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, path)
}
