//! The command line: one table for the program, its help and its manual page.

use std::path::PathBuf;

use clap::Parser;
use warren_http::listen::{Address, parse_address};
use warren_log_show::Place;

/// A page of Warrener's units for browsers.
///
/// Without --listen and without sockets that the manager hands over it listens on 127.0.0.1:19534. Who can connect reads
/// the states and names of units; logs, unit files and plans are shown to those who have the token, and to those who come
/// over a Unix socket. Nothing can be changed without --allow-actions.
#[derive(Debug, Clone, Parser)]
#[command(name = "warren-web", version)]
pub struct Options {
    /// Listen there, too: a port, ADDRESS:PORT, or the path of a Unix socket; may come often. Addresses that other
    /// machines reach need --cert, --key and --token-file.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub listen: Vec<Address>,
    /// The manager's control socket.
    #[arg(long, value_name = "PATH", default_value = "/run/warren/control")]
    pub control: PathBuf,
    /// Speak TLS over TCP, and show the certificate in this file (PEM, the server's own first).
    #[arg(long, value_name = "PATH", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "PATH", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Ask clients that come over TCP for the token in this file, of 20 characters at least.
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Make a token for this run and print an address with it.
    #[arg(long, conflicts_with = "token_file")]
    pub new_token: bool,
    /// Let those who have the token, and those who come over a Unix socket, start, stop, restart and clear units. The
    /// manager takes that only from a daemon that runs as root or as the manager's own user.
    #[arg(long)]
    pub allow_actions: bool,
    /// Answer clients that call this machine by that name, too; may come often. Addresses, localhost and the name of
    /// the host are always answered.
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    /// Which log is shown.
    pub place: Place,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        assert!(Options::try_parse_from(["warren-web", "--cert", "x"]).is_err());
        assert!(
            Options::try_parse_from(["warren-web", "--new-token", "--token-file", "x"]).is_err()
        );
    }
}
