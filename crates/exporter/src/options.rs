//! The command line: one table for the program, its help and its manual page.

use std::path::PathBuf;

use clap::Parser;
use warren_http::listen::{Address, parse_address};

/// Metrics of Warrener's manager for Prometheus.
///
/// Answers GET /metrics over HTTP, in Prometheus' text format or in OpenMetrics. Without --listen and without sockets
/// that the manager hands over it listens on 127.0.0.1:19533. There is no TLS and no login: who can connect reads the
/// states and the names of units.
#[derive(Debug, Clone, Parser)]
#[command(name = "warren-exporter", version)]
pub struct Options {
    /// Listen there, too: a port, ADDRESS:PORT, or the path of a Unix socket; may come often.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub listen: Vec<Address>,
    /// The manager's control socket.
    #[arg(long, value_name = "PATH", default_value = "/run/warren/control")]
    pub control: PathBuf,
    /// Where the cgroups of the units lie; without it, where the manager says they lie.
    #[arg(long, value_name = "DIR")]
    pub cgroups: Option<PathBuf>,
    /// Show the use of that many units that used the most CPU time, and of that many that use the most memory.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=500))]
    pub top: u16,
    /// Show the use of that many slices: those nearest to the root, and of one depth those that use most.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u16).range(0..=500))]
    pub slices: u16,
    /// Show that many timers: those that missed most runs, then those that elapse next.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub timers: u16,
    /// Show the state of each unit whose name matches, as a shell has patterns; may come often.
    #[arg(long = "unit", value_name = "PATTERN")]
    pub units: Vec<String>,
    /// Show the states of that many units at most.
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u16).range(0..=4000))]
    pub units_max: u16,
    /// Answer clients that call this machine by that name, too; may come often. Addresses, localhost and the name of
    /// the host are always answered.
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        assert!(Options::try_parse_from(["warren-exporter", "--top", "501"]).is_err());
        assert!(Options::try_parse_from(["warren-exporter", "--listen", "x"]).is_err());
    }
}
