//! Where output goes (systemd.exec(5), StandardOutput=).

use super::fault::Fault;
use super::paths::path;
use crate::config::Output;

/// The value of StandardOutput= or StandardError=.
pub fn output(text: &str) -> Result<Output, Fault> {
    if let Some((kind, rest)) = text.split_once(':') {
        match kind {
            "file" => return path(rest).map(Into::into).map(Output::File),
            "append" => return path(rest).map(Into::into).map(Output::Append),
            "truncate" => return path(rest).map(Into::into).map(Output::Truncate),
            "fd" => return Ok(Output::Fd(rest.into())),
            _ => {}
        }
    }
    Ok(match text {
        "inherit" => Output::Inherit,
        "null" => Output::Null,
        "tty" => Output::Tty,
        // syslog is an old name of journal.
        "journal" | "syslog" => Output::Journal,
        "kmsg" => Output::Kmsg,
        "journal+console" | "syslog+console" => Output::JournalConsole,
        "kmsg+console" => Output::KmsgConsole,
        "socket" => Output::Socket,
        "fd" => Output::Fd(Box::default()),
        _ => {
            return Err(Fault::new(
                0,
                format!("'{text}' is not a value of StandardOutput= or StandardError="),
            ));
        }
    })
}
