//! Which files every user may read.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether every user may read a file: it, and each directory on the way to it, lets all others in. What
/// cannot be looked at is not open.
pub(crate) fn is_open_to_all(file: &File) -> bool {
    const READ_BY_OTHERS: u32 = 0o004;
    const SEARCHED_BY_OTHERS: u32 = 0o001;
    // Where the file is that was opened: links may lead elsewhere by now.
    let Ok(path) = std::fs::read_link(warren_sys::file::descriptor_path(file.as_fd())) else {
        return false;
    };
    let is_searched = |directory: &Path| {
        directory.metadata().is_ok_and(|found| found.mode() & SEARCHED_BY_OTHERS != 0)
    };
    file.metadata().is_ok_and(|found| found.mode() & READ_BY_OTHERS != 0)
        && path.ancestors().skip(1).all(is_searched)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn a_file_is_open_to_all_if_others_may_read_it_and_reach_it() {
        let scratch = Scratch::new("open-to-all");
        let directory = scratch.0.join("units");
        fs::create_dir(&directory).expect("it is made");
        let path = directory.join("a.service");
        fs::write(&path, "x").expect("it is written");
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&path, &link).expect("it is made");
        let check = |of_directory, of_file, expect| {
            let set = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
            set(&directory, of_directory).and_then(|()| set(&path, of_file)).expect("it is ours");
            for path in [&path, &link] {
                let file = File::open(path).expect("it is there");
                assert_eq!(is_open_to_all(&file), expect, "{of_directory:o} {of_file:o}");
            }
        };
        check(0o755, 0o644, true);
        check(0o711, 0o604, true);
        check(0o755, 0o600, false);
        check(0o755, 0o640, false);
        check(0o750, 0o644, false);
    }
}
