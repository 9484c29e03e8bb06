//! Where the log daemon keeps its files and its control socket, by namespace.
//! What must not be here: a look at the disk; the daemon decides what it uses, the reader what it opens.
//! Pure: runs on any thread.

/// Below the root: in memory, and on disk.
pub const VOLATILE: &str = "run/log/warren/journal";
/// On disk.
pub const PERSISTENT: &str = "var/log/warren";

/// Longest name of a namespace, bytes: it is a part of file names.
const NAMESPACE_BYTES_MAX: usize = 64;

/// Whether a namespace may have this name.
pub fn is_namespace(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    (1..=NAMESPACE_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(allowed)
}

/// Where the sockets of a namespace are, below the root.
pub fn socket_directory(namespace: Option<&str>) -> String {
    match namespace {
        Some(name) => format!("run/systemd/journal.{name}"),
        None => "run/systemd/journal".to_owned(),
    }
}

/// Name of the daemon's control socket, in the directory of its sockets.
pub const CONTROL_SOCKET: &str = "io.warrener.journal";

/// Begins the name of each file of the mirror: the `.journal` files that the daemon writes for
/// systemd's readers, and that our own reader passes by.
pub const MIRROR_NAME: &str = "system@warren";

/// Begins those of the mirror of a user, before the number of the user; and what is behind that.
pub const MIRROR_OF_USER: &str = "user-";
/// What is behind the number of the user.
pub const MIRROR_ENDING: &str = "@warren";

/// Whether a file is one of a mirror.
pub fn is_mirror(name: &str) -> bool {
    let of_user = |name: &str| {
        let (uid, _) = name.strip_prefix(MIRROR_OF_USER)?.split_once(MIRROR_ENDING)?;
        uid.bytes().all(|byte| byte.is_ascii_digit()).then_some(())
    };
    name.starts_with(MIRROR_NAME) || of_user(name).is_some()
}
