//! Why a reading command fails, as the text that it prints on stderr.
//! What must not be here: a status, which the program chooses.
//! Runs on the caller's thread.

use warren_log_store::error::Error;

/// Why the command failed, for stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<warren_sys::Error> for Failure {
    fn from(error: warren_sys::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(format!("write: {error}"))
    }
}
