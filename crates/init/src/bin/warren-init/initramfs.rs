//! The way back into the initial RAM file system that has set up the root: where it was unpacked at
//! `/run/initramfs`, its program `shutdown` has the last word. It unmounts the old root, which it finds at
//! `/oldroot`, and takes apart what that lies on; dracut-shutdown.service(8).
//!
//! Must not: come back. What it is to do is its only argument, as `poweroff`.

use std::ffi::CString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use warren_sys::errno::EINVAL;

use warren_init::protocol::control::PowerAction;
use warren_sys::child::{self, ExecStrings};
use warren_sys::{Error, Result, root};

use crate::environment::environment;
use crate::finish::word;
use crate::place::Place;

/// Where it is unpacked.
const INITRAMFS: &str = "/run/initramfs";

/// Its program, from there.
const PROGRAM: &str = "/shutdown";

/// Where the old root is then.
const OLD_ROOT: &str = "oldroot";

/// Whether a host is to end there: a machine that goes on is not.
pub fn has_last_word(action: PowerAction, place: &Place) -> bool {
    let is_end = place.is_host && action != PowerAction::SoftReboot;
    is_end && is_program(Path::new(&format!("{INITRAMFS}{PROGRAM}")))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Goes there and executes it. Returns only on failure, with the old root in force unless its program cannot
/// be executed.
pub fn give_last_word(action: PowerAction) -> Error {
    let ready = strings(word(action)).and_then(|strings| {
        root::enter_root(Path::new(INITRAMFS), OLD_ROOT)?;
        Ok(strings)
    });
    match ready {
        Ok((path, argv, env)) => child::exec(&path, &argv, &env).on(PROGRAM),
        Err(error) => error,
    }
}

fn strings(word: &str) -> Result<(CString, ExecStrings, ExecStrings)> {
    let path = CString::new(PROGRAM).map_err(|_| Error::at("execve", PROGRAM, EINVAL))?;
    let mut argv = ExecStrings::with_capacity(2);
    [PROGRAM, word].iter().try_for_each(|text| argv.push(text))?;
    argv.finish();
    let mut env = ExecStrings::with_capacity(0);
    environment(&[]).iter().try_for_each(|entry| env.push(entry))?;
    env.finish();
    Ok((path, argv, env))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_program_is_a_file_that_can_be_executed() {
        let file = std::env::temp_dir().join(format!("warren-initramfs-{}", std::process::id()));
        assert!(!is_program(&file));
        fs::write(&file, "").expect("it can be written");
        for (mode, is) in [(0o644, false), (0o755, true), (0o100, true)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(is_program(&file), is, "{mode:o}");
        }
        fs::remove_file(&file).expect("it is there");
        assert!(!is_program(&std::env::temp_dir()));
    }
}
