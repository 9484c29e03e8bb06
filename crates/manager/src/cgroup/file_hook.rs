//! What the kernel gives for programs that are asked when a file is opened (`RestrictFileSystems=`): looked up when the
//! first unit asks, since the kernel's description of its types has some megabytes.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sandbox::bpf::Instruction;
use warren_sandbox::bpf::file_system::{self, FileSystems};
use warren_sandbox::bpf::kernel_types::{self, FileLayout};
use warren_sys::bpf::{self, Hook};
use warren_sys::child::SEAL_FLAGS;
use warren_sys::errno::{EINVAL, ENOENT};

/// The kernel's description of its own types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Where files are in the kernel, and the map in which processes mark themselves.
pub struct FileHook {
    layout: FileLayout,
    marks: OwnedFd,
}

impl FileHook {
    /// Asks the kernel.
    ///
    /// # Errors
    /// Why it gives no such programs, for people.
    pub fn of_kernel() -> Result<FileHook, String> {
        // A program is taken and attached there too, and never asked.
        match bpf::are_asked_of_files() {
            Some(true) => {}
            Some(false) => {
                return Err("the kernel asks no BPF programs about files: its list of security \
                            modules (`lsm=` on its command line) is without `bpf`"
                    .to_owned());
            }
            None => {
                return Err("the kernel does not say whether it asks BPF programs about files: \
                            there is no /sys/kernel/security/lsm"
                    .to_owned());
            }
        }
        let types = fs::read(TYPES).map_err(|e| match e.raw_os_error() {
            Some(ENOENT) => format!("the kernel does not describe its types: no {TYPES}"),
            _ => format!("{TYPES}: {e}"),
        })?;
        let layout = kernel_types::file_layout(&types)?;
        let marks = bpf::marks_map().map_err(|e| refused(&e))?;
        Ok(FileHook { layout, marks })
    }

    /// The map in which processes mark themselves.
    pub fn marks(&self) -> BorrowedFd<'_> {
        self.marks.as_fd()
    }

    /// The program for a list of file systems.
    pub fn program(&self, list: &FileSystems) -> Vec<Instruction> {
        file_system::program(list, self.layout, SEAL_FLAGS.cast_unsigned())
    }

    /// Loads it.
    ///
    /// # Errors
    /// Why the kernel does not take it, for people.
    pub fn load(&self, code: &[u8]) -> Result<OwnedFd, String> {
        let (map, function) = (Some(self.marks()), self.layout.function);
        let program = bpf::Program { code, map, only_counts: false, function };
        bpf::load(Hook::FileOpen, program).map_err(|e| refused(&e))
    }
}

fn refused(error: &warren_sys::Error) -> String {
    match error.errno {
        EINVAL => format!(
            "this kernel has no BPF programs about files for cgroups: Linux 6.0 has them ({error})"
        ),
        _ if bpf::is_refused(error) => {
            format!("this machine does not allow BPF programs on cgroups ({error})")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_where_its_files_are_or_that_it_asks_nobody() {
        let Ok(types) = fs::read(TYPES) else {
            return warren_testkit::not_run("a kernel that describes its types");
        };
        match kernel_types::file_layout(&types) {
            Ok(layout) => {
                let places = [layout.inode, layout.super_block, layout.magic];
                assert!(layout.function > 0 && places.iter().all(|place| *place > 0), "{layout:?}");
            }
            // One that has no such hook.
            Err(e) => assert!(e.contains("bpf_lsm_file_open"), "{e}"),
        }
    }
}
