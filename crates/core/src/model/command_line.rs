//! A checksum of a command as it ran, to detect that its file was edited since.

use crate::model::process::CommandList;
use serde::{Deserialize, Serialize};
use warren_unit::config::Command;

/// A command that was run since the unit was last started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandLine {
    pub(crate) list: CommandList,
    pub(crate) index: u16,
    /// Of the program and its arguments, CRC-32.
    checksum: u32,
}

impl CommandLine {
    pub(crate) fn of(list: CommandList, index: u16, command: &Command) -> CommandLine {
        let mut words = crc32fast::Hasher::new();
        for word in std::iter::once(&command.path).chain(&command.argv) {
            words.update(word.as_bytes());
            words.update(&[0]);
        }
        CommandLine { list, index, checksum: words.finalize() }
    }

    pub(crate) fn is_at(&self, other: &CommandLine) -> bool {
        (self.list, self.index) == (other.list, other.index)
    }
}
