//! Which log a program that sends entries on reads: the options that the gateway and the upload
//! share.

use std::path::PathBuf;

use clap::Parser;

use crate::Args;

/// Where the log is; without any of them, the system's.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Place {
    /// Read the log in this directory.
    #[arg(short = 'D', long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Read these files: logs, segments, systemd's `.journal` files; may come often.
    #[arg(long, value_name = "GLOB", conflicts_with = "directory")]
    pub file: Vec<PathBuf>,
    /// Read the log of the system below this directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["directory", "file"])]
    pub root: Option<PathBuf>,
    /// Read another namespace; `*`: all of them; `+NAME`: it and the default one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["directory", "file"])]
    pub namespace: Option<String>,
    /// Read all stores that there are; this is always so.
    #[arg(short, long)]
    pub merge: bool,
}

impl From<Place> for Args {
    /// The options of a reader that reads there.
    fn from(place: Place) -> Args {
        let Place { directory, file, root, namespace, merge: _ } = place;
        Args { directory, file, root, namespace, ..Args::parse_from(["reader"]) }
    }
}
