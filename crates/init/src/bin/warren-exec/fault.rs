//! What is said of a step that failed.

use std::ffi::CString;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::SpawnError;
use warren_sys::Error;
use warren_sys::errno::EINVAL;

/// An error of a step.
pub fn failed(step: ExecStep, errno: i32, message: String) -> SpawnError {
    SpawnError { step, errno, message, pid: None }
}

/// An error of a step that a system call caused.
pub fn wrong(step: ExecStep, error: &Error) -> SpawnError {
    failed(step, error.errno, error.what())
}

/// A terminated string; a NUL inside is an error of the step.
pub fn c_string(text: &str, step: ExecStep) -> Result<CString, SpawnError> {
    CString::new(text).map_err(|_| failed(step, EINVAL, format!("NUL in {text:?}")))
}
