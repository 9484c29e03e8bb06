//! `warren-hosts`: what an operator does with many hosts.
//!
//! - Owns: the words on the command line, and what is printed.
//! - Must not: decide; `warren-hosts` (the crate) does, from what lies in the store.
//! - Start at [`run`].

mod apps;
mod change;
mod drain;
mod drive;
mod over_ssh;
mod plans;
mod progress;
mod revisions;
mod show;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use warren_hosts::names::HostId;
use warren_hosts::waves::Step;

use crate::settings::{PATH, Settings};
use crate::site::Site;
use crate::store::Store;
use crate::{manual, service};

/// Sees and changes what many hosts run.
#[derive(Debug, Parser)]
#[command(name = "warren-hosts", version, max_term_width = 100)]
pub struct Cli {
    /// File of settings.
    #[arg(long, value_name = "PATH", default_value = PATH, global = true)]
    config: PathBuf,
    /// Print JSON, one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List hosts: what each has in force, and what is wrong with it
    List {
        /// Only hosts with this label, `NAME=VALUE`; may be given again
        #[arg(long, short, value_name = "LABEL")]
        label: Vec<String>,
        /// Only hosts that have units of this container, or of containers of this group; how many is a column
        #[arg(long, value_name = "APP")]
        app: Option<String>,
        /// Only hosts that are not as they should be
        #[arg(long)]
        bad: bool,
    },
    /// Say what is wrong, by root cause over all hosts
    Why {
        /// Only units of this container, or of containers of this group
        app: Option<String>,
    },
    /// Show the logs of many hosts, each by its own log access over ssh(1)
    Logs(over_ssh::LogsArgs),
    /// Show what is under way and what is wrong, again and again; with --json in a line every 2 s
    Top {
        /// Print it once
        #[arg(long)]
        once: bool,
    },
    /// Store a directory of rules as a revision
    Push {
        /// The directory
        dir: PathBuf,
        /// What for
        #[arg(long, short, default_value = "")]
        message: String,
        /// Store it though something in it looks like a secret
        #[arg(long)]
        allow_secrets: bool,
    },
    /// List revisions, the newest first
    Log,
    /// Show how the rules of two revisions differ
    Diff {
        /// A revision, or the first digits of its name
        old: String,
        /// Another one
        new: String,
    },
    /// Say what a revision or a directory would change on all hosts
    Plan {
        /// A directory of rules, or a revision
        new: String,
        /// The revision to compare with; else the one that hosts have now
        #[arg(long, value_name = "REVISION")]
        against: Option<String>,
        /// List every unit
        #[arg(long, short)]
        all: bool,
    },
    /// Sign a release of a revision and begin to roll it out
    Release(ReleaseArgs),
    /// Release the revision that hosts had before the current one
    Rollback(RolloutArgs),
    /// Show the rollout that is under way, or was last
    Status,
    /// Halt the rollout
    Pause {
        /// Why
        #[arg(long, short, default_value = "paused by an operator")]
        message: String,
    },
    /// Go on with a rollout that was paused or stopped; hosts that are sick now are borne
    Resume,
    /// Have all hosts of the rollout go back
    Back {
        /// Why
        #[arg(long, short, default_value = "an operator went back")]
        message: String,
    },
    /// End the rollout; hosts stay as they are
    Stop {
        /// Why
        #[arg(long, short, default_value = "stopped by an operator")]
        message: String,
    },
    /// Take a host out of service: its copies move to other hosts, and no release waits for it
    Drain {
        /// The host
        host: HostId,
        /// What for
        #[arg(long, short, value_name = "TEXT", default_value = "")]
        reason: String,
        /// Return when the host has no copies any more; fail if it has some after so long
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u64>,
    },
    /// Put a host into service again
    Undrain {
        /// The host
        host: HostId,
    },
    /// Drive rollouts, as a service: one of all that run does, another one goes on when it is gone
    Drive {
        /// Run when a wave is healthy: 0 lets the next one begin, 1 has it wait, all else fails the rollout
        #[arg(long, value_name = "COMMAND")]
        gate: Option<String>,
        /// Return when the rollout is over
        #[arg(long)]
        until_over: bool,
    },
    /// Make a key to sign releases with, and print the line for /etc/warren/trusted-keys
    Keygen {
        /// Where the key is written
        file: PathBuf,
        /// Print the line of a key that is there
        #[arg(long)]
        show: bool,
    },
    /// Let a host in: a user of the store that may read what is desired, and write what is this host's alone
    Admit {
        /// The host
        host: HostId,
        /// Where the password is written
        file: PathBuf,
        /// Give a host that was let in before another password; it is shut out until it has that one
        #[arg(long)]
        again: bool,
    },
    /// Let a host in no more, and forget what it said
    Expel {
        /// The host
        host: HostId,
    },
    /// Write the manual pages of warren-hosts and warren-agent
    #[command(hide = true)]
    Man {
        /// Into this directory
        dir: PathBuf,
    },
    /// Show who did what, the newest last
    Audit,
    /// Remove revisions and releases that nothing names any more
    Prune {
        /// How many of the newest revisions stay in any case
        #[arg(long, default_value_t = 20)]
        keep: usize,
    },
}

#[derive(Debug, Args)]
struct ReleaseArgs {
    /// The revision, or the first digits of its name
    revision: String,
    #[command(flatten)]
    how: RolloutArgs,
}

#[derive(Debug, Args)]
struct RolloutArgs {
    /// The key to sign with
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// What for
    #[arg(long, short, default_value = "")]
    message: String,
    /// A wave: `5` hosts, `10%`, `role=canary`, `each rack`; may be given again. What is left over comes last
    #[arg(long = "wave", value_name = "WAVE")]
    waves: Vec<Step>,
    /// Hosts of a wave that may be unavailable at once; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_unavailable: u32,
    /// Units of a container, or of a group of containers, that may be unavailable at once on all hosts together; `*=N` for
    /// each container; may be given again
    #[arg(long, value_name = "APP=N", value_parser = read_bound)]
    max_unavailable_of: Vec<(String, u32)>,
    /// How long a wave has to be healthy, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    soak: u64,
    /// How long a host may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
    /// Sick hosts with which the rollout goes on
    #[arg(long, value_name = "N", default_value_t = 0)]
    failures: u32,
    /// Units of a host with which it is healthy: failed ones, above those that it had before, and restarted ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    failed_units: u32,
    /// Stop instead of going back when a rollout fails
    #[arg(long)]
    stay: bool,
}

/// `shop=3`
fn read_bound(text: &str) -> Result<(String, u32), String> {
    let (app, most) = text.rsplit_once('=').ok_or("APP=N is expected, such as shop=3")?;
    let most = most.parse().map_err(|_| format!("'{most}' is not a number"))?;
    match app.is_empty() {
        true => Err("the name of the application is missing".to_owned()),
        false => Ok((app.to_owned(), most)),
    }
}

/// Runs the command line.
///
/// # Errors
/// What is to be printed.
pub fn run(cli: Cli) -> Result<i32> {
    match &cli.command {
        Verb::Keygen { file, show } => return change::keygen(file, *show),
        Verb::Man { dir } => {
            manual::write(dir, Cli::command(), service::command())
                .context("cannot write the manual pages")?;
            return Ok(0);
        }
        _ => {}
    }
    let prints_json = matches!(
        cli.command,
        Verb::List { .. }
            | Verb::Why { .. }
            | Verb::Top { .. }
            | Verb::Drain { .. }
            | Verb::Log
            | Verb::Plan { .. }
            | Verb::Status
            | Verb::Audit
    );
    ensure!(prints_json || !cli.json, "this command prints no JSON");
    let settings = Settings::read(&cli.config).map_err(|why| anyhow!(why))?;
    let store = Store::new(&settings.endpoints).map_err(|why| anyhow!(why))?;
    let site = Site::new(store);
    match cli.command {
        Verb::List { label, app, bad } => {
            let listed = show::Listed { labels: &label, app: app.as_deref(), bad };
            show::list(&site, &listed, cli.json)
        }
        Verb::Why { app } => show::why(&site, app.as_deref(), cli.json),
        Verb::Logs(args) => over_ssh::logs(&site, &args),
        Verb::Top { once } => show::top(&site, once, cli.json),
        Verb::Push { dir, message, allow_secrets } => {
            change::push(&site, &dir, &message, allow_secrets)
        }
        Verb::Log => progress::log(&site, cli.json),
        Verb::Diff { old, new } => plans::diff(&site, &old, &new),
        Verb::Plan { new, against, all } => {
            plans::plan(&site, &new, against.as_deref(), all, cli.json)
        }
        Verb::Release(args) => change::release(&site, &args.revision, &args.how),
        Verb::Rollback(how) => change::rollback(&site, &how),
        Verb::Status => progress::status(&site, cli.json),
        Verb::Pause { message } => {
            change::rollout(&site, "pause", &message, |rollout| rollout.pause(message.clone()))
        }
        Verb::Resume => change::rollout(&site, "resume", "", |rollout| rollout.go_on()),
        Verb::Back { message } => {
            change::rollout(&site, "back", &message, |rollout| rollout.go_back(message.clone()))
        }
        Verb::Stop { message } => {
            change::rollout(&site, "stop", &message, |rollout| rollout.stop(message.clone()))
        }
        Verb::Drain { host, reason, wait } => {
            drain::drain(&site, &author(), &host, &reason, wait, cli.json)
        }
        Verb::Undrain { host } => drain::undrain(&site, &author(), &host),
        Verb::Drive { gate, until_over } => drive::run(&site, gate.as_deref(), until_over),
        Verb::Admit { host, file, again } => change::admit(&site, &host, &file, again),
        Verb::Expel { host } => change::expel(&site, &host),
        Verb::Audit => show::audit(&site, cli.json),
        Verb::Prune { keep } => change::prune(&site, keep),
        Verb::Keygen { .. } | Verb::Man { .. } => unreachable!("done above"),
    }
}

/// Who is at the keyboard.
fn author() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user =
        variable("SUDO_USER").or_else(|| variable("USER")).unwrap_or_else(|| "root".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}")
}
