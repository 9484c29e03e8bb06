//! What units see of the file system: plans of mounts, made once for each content, and what a spawn adds to one.

use std::convert::Infallible;
use std::sync::Arc;

use warren_init::protocol::exec::{Directories, LOG_SOCKETS, Missing, View};
use warren_sandbox::credentials::{self, Credential};
use warren_sandbox::mounts::{Access, Content, Entry, Plan, Shared, Tmpfs};
use warren_sys::tree::PRIVATE;
use warren_unit::config::{ExecConfig, Label, SandboxSetting};

use crate::base::by_content::ByContent;
use crate::spawn::namespaces;
use warren_unit::value::plain_words;

/// Contents that are kept; then all are made anew.
const KEPT_MAX: usize = 1024;

/// What stands for a content: the settings and their values.
type AskedFor = Vec<(&'static str, Box<str>)>;

/// The plans of the units that were started, by what they ask for.
pub(crate) struct Views {
    plans: ByContent<AskedFor, Arc<Plan>>,
}

impl Default for Views {
    fn default() -> Views {
        Views { plans: ByContent::new(KEPT_MAX) }
    }
}

impl Views {
    /// The plan for what a unit asks for; an empty one if it asks for nothing.
    pub(crate) fn plan(&mut self, exec: &ExecConfig) -> Arc<Plan> {
        // Credentials are no part of a plan, and seldom the same in two units.
        let of_plan = exec.protections.iter().filter(|s| !credentials::concerns(s.setting));
        let asked: AskedFor = of_plan.map(|s| (s.setting, s.value.clone())).collect();
        if asked.is_empty() {
            return Arc::default();
        }
        let made = self.plans.get(asked, |asked| Ok::<_, Infallible>(Arc::new(compile(asked))));
        made.unwrap_or_else(|never| match never {})
    }
}

/// What settings ask for. Their words were found good or wrong when the unit was compiled.
fn compile(settings: &AskedFor) -> Plan {
    let (mut plan, mut problems) = (Plan::default(), Vec::new());
    for (setting, value) in settings {
        let words = plain_words(value);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        plan.take(setting, &words, &mut problems);
    }
    plan
}

/// What one process sees, besides what its unit's plan says.
#[derive(Default)]
pub(crate) struct Own<'a> {
    /// Directories that the manager makes for the unit: it has them whatever lies over them.
    pub(crate) directories: &'a [Directories],
    /// The notify socket, below a root directory.
    pub(crate) notify_socket: Option<&'a str>,
    /// The directory of the sockets of its journal namespace.
    pub(crate) log_sockets: Option<String>,
    /// Where its temporary files are; none for a unit that nobody cleans up after.
    pub(crate) private_tmp: Option<String>,
    /// What the machine cannot give prevents the start.
    pub(crate) must_hold: bool,
    /// What it is given of secrets.
    pub(crate) credentials: Vec<Credential>,
    /// The unit, whose credentials have a directory of that name.
    pub(crate) unit: &'a str,
    /// A file that it writes to, whatever it has read-only above it.
    pub(crate) writable: Option<&'a str>,
    /// Where the copy of its root is, if it has one of the run's own.
    pub(crate) ephemeral_root: Option<String>,
    /// Which fds are the store of the run's namespaces.
    pub(crate) store: Option<[u16; 2]>,
}

/// The credentials that settings ask for.
pub(crate) fn credentials(exec: &ExecConfig) -> Vec<Credential> {
    let asked = exec.protections.iter().filter(|asked| credentials::concerns(asked.setting));
    let lines = asked.flat_map(|asked| asked.value.lines().map(|line| (asked.setting, line)));
    // What is wrong was told when the unit was compiled.
    lines.filter_map(|(setting, line)| credentials::parse(setting, line).ok()).collect()
}

/// What a process sees. `has_root`: it has a root directory.
pub(crate) fn view(plan: &Plan, own: Own<'_>, has_root: bool) -> View {
    let mut plan = plan.clone();
    let mut entries = Vec::new();
    if has_root || plan.has_mounts() {
        entries.extend(own.directories.iter().flat_map(|set| made_directories(set, has_root)));
    }
    if let Some(path) = own.notify_socket.filter(|_| has_root) {
        entries.push(bound(path.to_owned(), path.to_owned(), true));
    }
    if let Some(source) = own.log_sockets {
        entries.push(bound(source, LOG_SOCKETS.to_owned(), false));
    }
    if !own.credentials.is_empty() {
        let path = credentials::DIRECTORY.to_owned();
        let content = Content::Credentials;
        entries.push(Entry { path, in_root: true, optional: false, content });
    }
    if let Some(path) = own.writable.filter(|_| has_root || plan.has_mounts()) {
        let content = Content::Access(Access { write: Some(true), execute: None });
        entries.push(Entry { path: path.to_owned(), in_root: true, optional: true, content });
    }
    entries.append(&mut plan.entries);
    plan.entries = entries;
    if plan.private_tmp && own.private_tmp.is_none() {
        plan.disconnected_tmp();
    }
    let private_tmp = own.private_tmp.filter(|_| plan.private_tmp).unwrap_or_default();
    let store = own.store.filter(|_| namespaces::are_asked_for(&plan));
    View {
        plan,
        private_tmp,
        must_hold: own.must_hold,
        credentials: own.credentials,
        unit: own.unit.to_owned(),
        store,
        ephemeral_root: own.ephemeral_root.filter(|_| has_root).unwrap_or_default(),
    }
}

/// The directories of a family. Those of a user that was made for the run are all that there is where they lie.
fn made_directories(set: &Directories, has_root: bool) -> Vec<Entry> {
    let Directories { base, private, .. } = set;
    let own = |name: &String| {
        let source =
            if *private { format!("{base}/{PRIVATE}/{name}") } else { format!("{base}/{name}") };
        // Below a root directory there are no links.
        let path = if has_root { format!("{base}/{name}") } else { source.clone() };
        bound(source, path, false)
    };
    let content =
        Content::Tmpfs(Tmpfs::with_options("ro,nosuid,nodev,noexec,size=64k,nr_inodes=1k"));
    let path = format!("{base}/{PRIVATE}");
    let others = Entry { path, in_root: true, optional: false, content };
    let others = (*private && !has_root).then_some(others);
    others.into_iter().chain(set.names.iter().map(own)).collect()
}

fn bound(source: String, path: String, optional: bool) -> Entry {
    let content = Content::Bind { source, recursive: true, read_only: false };
    Entry { path, in_root: true, optional, content }
}

/// The settings of a unit that a process runs without.
pub(crate) fn missing_settings(exec: &ExecConfig, missing: Missing) -> Vec<&'static str> {
    let is_missing = |asked: &&SandboxSetting| {
        let mut plan = Plan::default();
        let words = plain_words(&asked.value);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        plan.take(asked.setting, &words, &mut Vec::new());
        let own = &plan.namespaces;
        missing.mounts && plan.has_mounts()
            || missing.host_name && own.host_name
            || missing.network && own.network != Shared::Host
            || missing.ipc && own.ipc != Shared::Host
            || missing.processes && own.processes
    };
    let labels = [
        ("SELinuxContext", &exec.selinux_context),
        ("AppArmorProfile", &exec.apparmor_profile),
        ("SmackProcessLabel", &exec.smack_label),
    ];
    let has_label = |(_, label): &(&str, &Option<Label>)| label.is_some();
    let labels = labels.into_iter().filter(|label| missing.labels && has_label(label));
    let others = exec.protections.iter().filter(is_missing).map(|asked| asked.setting);
    let merging = missing.page_merging.then_some("MemoryKSM");
    let sets = missing.nft_sets.then_some("NFTSet");
    others.chain(labels.map(|(setting, _)| setting)).chain(merging).chain(sets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(settings: &[(&'static str, &str)]) -> ExecConfig {
        let one = |&(setting, value): &(&'static str, &str)| SandboxSetting {
            setting,
            value: value.into(),
        };
        ExecConfig { protections: settings.iter().map(one).collect(), ..ExecConfig::default() }
    }

    #[test]
    fn units_that_ask_for_the_same_share_a_plan() {
        let mut views = Views::default();
        let asked = [("ProtectSystem", "strict"), ("ReadWritePaths", "/a \"/b c\"\n-/d")];
        let first = views.plan(&exec(&asked));
        assert!(Arc::ptr_eq(&first, &views.plan(&exec(&asked))));
        let with_secret = [asked[0], asked[1], ("SetCredential", "a:secret")];
        assert!(Arc::ptr_eq(&first, &views.plan(&exec(&with_secret))));
        assert!(first.entries.iter().any(|entry| entry.path == "/b c"));
        assert!(views.plan(&exec(&[])).is_empty());
        assert!(views.plan(&exec(&[("LockPersonality", "yes")])).is_empty());
    }

    #[test]
    fn what_is_missing_is_named_by_its_settings() {
        let exec =
            exec(&[("ProtectHostname", "yes"), ("PrivateTmp", "yes"), ("LockPersonality", "yes")]);
        let mounts = Missing { mounts: true, ..Missing::default() };
        assert_eq!(missing_settings(&exec, mounts), ["PrivateTmp"]);
        assert_eq!(missing_settings(&exec, Missing { host_name: true, ..mounts }).len(), 2);
        let merging = Missing { page_merging: true, ..Missing::default() };
        assert_eq!(missing_settings(&exec, merging), ["MemoryKSM"]);
        let sets = Missing { nft_sets: true, ..Missing::default() };
        assert_eq!(missing_settings(&exec, sets), ["NFTSet"]);
    }

    #[test]
    fn who_is_not_cleaned_up_after_leaves_no_temporary_files() {
        let plan = Plan { private_tmp: true, ..Plan::default() };
        let shown = view(&plan, Own::default(), false);
        assert!(!shown.plan.private_tmp && shown.private_tmp.is_empty());
        assert_eq!(shown.plan.entries.len(), 2);
        let own = Own { private_tmp: Some("t".to_owned()), ..Own::default() };
        assert_eq!(view(&plan, own, false).private_tmp, "t");
    }
}
