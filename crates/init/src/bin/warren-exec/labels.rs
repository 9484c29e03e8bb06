//! Labels of security modules (systemd.exec(5), "SELinuxContext=" and its like).

use std::ffi::CStr;
use std::fs;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SecurityModule, SpawnError};

use crate::fault::failed;

/// A label that the process sets for what it executes, or for itself.
pub struct OwnLabel {
    /// Where it is written to.
    pub file: &'static CStr,
    /// What is written.
    pub text: Vec<u8>,
    /// The process runs without it where it cannot be set.
    pub is_optional: bool,
    /// What a failure is.
    pub step: ExecStep,
}

/// The labels of a process, and whether the kernel is without a module that has one.
pub fn prepare(spec: &ExecSpec) -> Result<(Vec<OwnLabel>, bool), SpawnError> {
    let (mut labels, mut are_missing) = (Vec::new(), false);
    for label in &spec.labels {
        let (step, file, text) = written(label.module, &label.label);
        if is_at_work(label.module) {
            labels.push(OwnLabel { file, text, is_optional: label.is_optional, step });
        } else if spec.view.must_hold && !label.is_optional {
            let message = format!("{}: this kernel does not support these labels", label.label);
            return Err(failed(step, 0, message));
        } else {
            are_missing |= !label.is_optional;
        }
    }
    Ok((labels, are_missing))
}

fn written(module: SecurityModule, label: &str) -> (ExecStep, &'static CStr, Vec<u8>) {
    match module {
        SecurityModule::Selinux => {
            (ExecStep::SelinuxContext, c"/proc/self/attr/exec", label.as_bytes().to_vec())
        }
        SecurityModule::Apparmor => {
            let text = format!("exec {label}");
            (ExecStep::ApparmorProfile, c"/proc/self/attr/exec", text.into_bytes())
        }
        SecurityModule::Smack => {
            (ExecStep::SmackLabel, c"/proc/self/attr/current", label.as_bytes().to_vec())
        }
    }
}

/// Whether the kernel has the module at work.
fn is_at_work(module: SecurityModule) -> bool {
    match module {
        SecurityModule::Selinux => fs::metadata("/sys/fs/selinux/enforce").is_ok(),
        SecurityModule::Apparmor => {
            let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
            enabled.is_ok_and(|text| text.starts_with('Y'))
        }
        SecurityModule::Smack => fs::metadata("/sys/fs/smackfs/load2").is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_init::protocol::exec::{Label, View};

    /// No kernel has two of them at work.
    #[test]
    fn a_label_that_cannot_be_had_is_missing_or_prevents_the_start() {
        use SecurityModule::{Apparmor, Selinux, Smack};
        let absent: Vec<SecurityModule> =
            [Selinux, Apparmor, Smack].into_iter().filter(|&module| !is_at_work(module)).collect();
        assert!(absent.len() >= 2);
        for module in absent {
            let check = |is_optional, must_hold| {
                let labels = vec![Label { module, label: "l".to_owned(), is_optional }];
                let view = View { must_hold, ..View::default() };
                let spec = ExecSpec { labels, view, ..ExecSpec::default() };
                prepare(&spec).map(|(own, are_missing)| (own.len(), are_missing)).ok()
            };
            assert_eq!(check(false, false), Some((0, true)));
            assert_eq!(check(true, false), Some((0, false)));
            assert_eq!(check(false, true), None);
            assert_eq!(check(true, true), Some((0, false)));
        }
    }
}
