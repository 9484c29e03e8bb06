//! Options of TemporaryFileSystem=.

use super::arrange::attribute;
use super::model::Tmpfs;

/// What a file system is mounted with unless its options say otherwise (systemd.exec(5), "TemporaryFileSystem=").
/// The bounds are those of systemd 252, which the manual does not name.
const DEFAULTS: &str = "nodev,strictatime,mode=0755,size=10%,nr_inodes=400k";

/// Attributes by the names of mount(8): what a name sets and clears.
const ATTRIBUTES: [(&str, u64, u64); 17] = [
    ("ro", attribute::READ_ONLY, 0),
    ("rw", 0, attribute::READ_ONLY),
    ("nosuid", attribute::NO_SET_UID, 0),
    ("suid", 0, attribute::NO_SET_UID),
    ("nodev", attribute::NO_DEVICES, 0),
    ("dev", 0, attribute::NO_DEVICES),
    ("noexec", attribute::NO_EXECUTE, 0),
    ("exec", 0, attribute::NO_EXECUTE),
    ("strictatime", attribute::STRICT_ATIME, attribute::NO_ATIME),
    ("nostrictatime", 0, attribute::STRICT_ATIME),
    ("noatime", attribute::NO_ATIME, attribute::STRICT_ATIME),
    ("atime", 0, attribute::NO_ATIME),
    ("relatime", 0, attribute::STRICT_ATIME | attribute::NO_ATIME),
    ("norelatime", 0, 0),
    ("nodiratime", attribute::NO_DIRECTORY_ATIME, 0),
    ("diratime", 0, attribute::NO_DIRECTORY_ATIME),
    ("defaults", 0, 0),
];

impl Tmpfs {
    /// A file system with these options of mount(8), separated by commas, over the defaults.
    pub fn with_options(text: &str) -> Tmpfs {
        let mut out = Tmpfs::default();
        for option in DEFAULTS.split(',').chain(text.split(',')).filter(|o| !o.is_empty()) {
            out.take(option);
        }
        out
    }

    fn take(&mut self, option: &str) {
        if let Some((_, set, clear)) = ATTRIBUTES.iter().find(|(name, ..)| *name == option) {
            self.attributes = self.attributes & !clear | set;
            return;
        }
        let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let own = key(option);
        // tmpfs takes what is said last; some of its options exclude one another.
        self.options.retain(|before| key(before) != own);
        self.options.push(option.to_owned());
    }
}
