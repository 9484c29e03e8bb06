//! The user database, from `/etc/passwd` and `/etc/group`: passwd(5), group(5).
//!
//! Nothing loads name service modules into our processes: users that only a name service knows are looked up
//! by a child (getent(1)), whose output has the same format.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};

/// Users below are of the system: `SYS_UID_MAX` of login.defs(5).
const FIRST_OF_PEOPLE: u32 = 1000;

/// What services get with `DynamicUser=`: systemd.exec(5).
pub const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;

/// Whether a user is a person, or one of those that a person may have (subuid(5)); else it is of the system.
pub fn is_of_people(user: u32) -> bool {
    user >= FIRST_OF_PEOPLE && !DYNAMIC.contains(&user)
}

/// Largest user database read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Home directory.
    pub home: String,
    /// Shell; never empty (`/bin/sh` is meant then).
    pub shell: String,
}

/// A line of group(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Group id.
    pub gid: u32,
    /// Names of the members listed, not of those who have it as primary group.
    pub members: Vec<String>,
}

/// Texts of both files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Database {
    /// Text of `/etc/passwd`.
    pub passwd: String,
    /// Text of `/etc/group`.
    pub group: String,
}

impl Database {
    /// Reads both files; a missing one counts as empty.
    pub fn read() -> Result<Database> {
        Ok(Database { passwd: read_text("/etc/passwd")?, group: read_text("/etc/group")? })
    }

    /// A user by name, or by number when the text is one. The first matching line wins.
    pub fn user(&self, name_or_uid: &str) -> Option<User> {
        let uid = parse_id(name_or_uid);
        users(&self.passwd).find(|u| uid.map_or(u.name == name_or_uid, |id| u.uid == id))
    }

    /// A group by name, or by number when the text is one.
    pub fn group(&self, name_or_gid: &str) -> Option<Group> {
        let gid = parse_id(name_or_gid);
        groups(&self.group).find(|g| gid.map_or(g.name == name_or_gid, |id| g.gid == id))
    }

    /// A user by name or number, of the files or else of the name services, for which this waits. A number
    /// needs no entry; systemd.exec(5), "User=".
    pub fn find_user(&self, name_or_uid: &str) -> Option<User> {
        let served = || users(&served_user(name_or_uid)?).next();
        self.user(name_or_uid).or_else(served).or_else(|| unlisted_user(name_or_uid))
    }

    /// A group by name or number, as [`Database::find_user`] has users.
    pub fn find_group(&self, name_or_gid: &str) -> Option<Group> {
        let served = || groups(&served_group(name_or_gid)?).next();
        self.group(name_or_gid).or_else(served).or_else(|| unlisted_group(name_or_gid))
    }

    /// The groups of a user: the primary one, and those that list it. Name services are asked for those of a user
    /// who is not of the files, and where they may list users of the files in groups of their own.
    pub fn find_groups_of(&self, user: &User, primary: u32) -> Vec<u32> {
        let mut groups = self.groups_of(&user.name, primary);
        if self.user(&user.name).is_none() || SwitchState::read().lists_users_of_files {
            groups.extend(served_groups_of(&user.name));
        }
        groups
    }

    /// Groups of a user as initgroups(3) would set them: the primary one and those that list
    /// the name; sorted.
    pub fn groups_of(&self, user: &str, primary: u32) -> Vec<u32> {
        let listed = |g: &Group| g.members.iter().any(|m| m == user);
        let mut gids: Vec<u32> = groups(&self.group).filter(listed).map(|g| g.gid).collect();
        gids.push(primary);
        gids.sort_unstable();
        gids.dedup();
        gids
    }
}

/// The files, read again when they changed.
#[derive(Debug, Default)]
pub struct Current {
    database: Database,
    seen: Option<[FileId; 2]>,
    switch: SwitchState,
}

/// Whom nsswitch.conf(5) has asked for groups.
#[derive(Debug, Default)]
struct SwitchState {
    seen: Option<[FileId; SWITCH_PATHS.len()]>,
    lists_users_of_files: bool,
}

/// What decides it: the file, and where nss-systemd(8) finds services and records.
const SWITCH_PATHS: [&str; 6] = [
    "/etc/nsswitch.conf",
    "/run/systemd/userdb",
    "/etc/userdb",
    "/run/userdb",
    "/run/host/userdb",
    "/usr/lib/userdb",
];

/// A service of ours in `/run/systemd/userdb`: its users are in no groups but their own.
const DYNAMIC_USERS: &str = "io.systemd.DynamicUser";

impl SwitchState {
    fn read() -> SwitchState {
        let mut state = SwitchState::default();
        state.refresh();
        state
    }

    fn refresh(&mut self) {
        let now = SWITCH_PATHS.map(file_id);
        if self.seen == Some(now) {
            return;
        }
        let [file, directories @ ..] = SWITCH_PATHS;
        let has_records = || {
            let entries = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten();
            entries.flatten().any(|entry| entry.file_name() != DYNAMIC_USERS)
        };
        let text = read_text(file).unwrap_or_default();
        self.lists_users_of_files = lists_users_of_files(&text, has_records);
        self.seen = Some(now);
    }
}

/// Whether a service other than the files may list a user of theirs in its groups, by the text of nsswitch.conf(5).
/// The module of systemd knows no groups but those of records and services that there are.
fn lists_users_of_files(text: &str, has_records: impl Fn() -> bool) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let databases: Vec<(&str, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, services)| (name.trim(), services))
        .collect();
    let of = |wanted| databases.iter().find(|(name, _)| *name == wanted);
    // nsswitch.conf(5): initgroups is that of group where it is not named.
    let Some((_, services)) = of("initgroups").or_else(|| of("group")) else { return false };
    // Actions in brackets name no service.
    let mut depth = 0;
    let outside = |c: char| {
        depth += i32::from(c == '[');
        let is_outside = depth == 0;
        depth -= i32::from(c == ']');
        if is_outside { c } else { ' ' }
    };
    let services: String = services.chars().map(outside).collect();
    services.split_whitespace().any(|service| match service {
        "files" => false,
        "systemd" => has_records(),
        _ => true,
    })
}

/// Device, inode, size, change time: another value means another content.
type FileId = (u64, u64, u64, i64, i64);

impl Current {
    /// What is in the files now, and whether that is other than the last time.
    pub fn refresh(&mut self) -> Result<bool> {
        let now = ["/etc/passwd", "/etc/group"].map(file_id);
        let is_other = self.seen != Some(now);
        if is_other {
            self.database = match Database::read() {
                // It is there, and can be read later: nobody is unknown for want of it.
                Err(e) if [libc::ENOMEM, libc::ENFILE, libc::EMFILE].contains(&e.errno) => {
                    return Err(e);
                }
                // Another one that cannot be read has no names.
                read => read.unwrap_or_default(),
            };
            self.seen = Some(now);
        }
        Ok(is_other)
    }

    /// Whether name services are to be asked for the groups of a user of the files as well.
    pub fn asks_for_groups_of(&mut self, user: &str) -> bool {
        self.switch.refresh();
        // Root is in no group but its own, as systemd has it.
        self.switch.lists_users_of_files && !matches!(user, "root" | "0")
    }

    /// What was in the files when they were last looked at.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

fn file_id(path: &str) -> FileId {
    let id = |m: fs::Metadata| (m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec());
    fs::metadata(path).map(id).unwrap_or_default()
}

/// The users of a passwd(5) text; damaged lines are skipped.
pub fn users(text: &str) -> impl Iterator<Item = User> + '_ {
    text.lines().filter_map(parse_user)
}

/// The groups of a group(5) text; damaged lines are skipped.
pub fn groups(text: &str) -> impl Iterator<Item = Group> + '_ {
    text.lines().filter_map(parse_group)
}

/// A user of whom no file has an entry: by number.
pub fn unlisted_user(number: &str) -> Option<User> {
    let uid = parse_id(number)?;
    let (home, shell) = ("/".to_owned(), "/bin/sh".to_owned());
    Some(User { name: number.to_owned(), uid, gid: uid, home, shell })
}

/// A group of which no file has an entry: by number.
pub fn unlisted_group(number: &str) -> Option<Group> {
    let gid = parse_id(number)?;
    Some(Group { name: number.to_owned(), gid, members: Vec::new() })
}

/// What the name services say of a user, by name or number: a line of passwd(5). This waits for them.
pub fn served_user(name_or_uid: &str) -> Option<String> {
    getent("passwd", name_or_uid)
}

/// What the name services say of a group, by name or number: a line of group(5). This waits for them.
pub fn served_group(name_or_gid: &str) -> Option<String> {
    getent("group", name_or_gid)
}

/// Groups in which the name services list a user of this name. This waits for them.
pub fn served_groups_of(user: &str) -> Vec<u32> {
    let text = getent("initgroups", user).unwrap_or_default();
    text.split_ascii_whitespace().skip(1).filter_map(field_id).collect()
}

/// What the name services say of several names and numbers: lines of passwd(5) or group(5), of those that they know.
/// This waits for them.
pub fn served(database: &str, keys: &[String]) -> String {
    let is_key = |key: &&String| !key.starts_with('-') && !key.is_empty();
    let mut command = Command::new("getent");
    command.arg(database).args(keys.iter().filter(is_key));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
}

/// The addresses of a host by its name, in the order in which they are to be tried. This waits for the name services.
pub fn served_addresses(host: &str) -> Vec<IpAddr> {
    parse_addresses(&getent("ahosts", host).unwrap_or_default())
}

/// Lines of `getent ahosts`: an address, and which kind of socket it is for. Each comes once for each kind.
fn parse_addresses(text: &str) -> Vec<IpAddr> {
    let of_stream = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        (words.next() == Some("STREAM")).then_some(address)
    };
    text.lines().filter_map(of_stream).collect()
}

/// Asks the name services in a process of their own. `None` when there is no answer.
fn getent(database: &str, key: &str) -> Option<String> {
    // It would take any digits for a number.
    let is_number = key.bytes().all(|b| b.is_ascii_digit());
    if key.starts_with('-') || is_number && parse_id(key).is_none() {
        return None;
    }
    let output = Command::new("getent")
        .args([database, key])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let answered = output.status.success();
    answered.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number of a user or group as a word that may be a name. `4294967295` and `65535` stand for "no id"
/// in the kernel's interfaces and are no ids; with a needless 0 in front it is none, as with systemd 252:
/// `00` is not root.
pub fn parse_id(text: &str) -> Option<u32> {
    let is_plain = text == "0" || !text.starts_with('0');
    is_plain.then(|| field_id(text)).flatten()
}

/// The same in a field that has nothing but numbers.
fn field_id(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten()?;
    (id != u32::MAX && id != 0xffff).then_some(id)
}

fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|n| !n.is_empty() && !n.starts_with('#'))?;
    let uid = field_id(fields.nth(1)?)?;
    let gid = field_id(fields.next()?)?;
    let home = fields.nth(1)?;
    let shell = fields.next().filter(|s| !s.is_empty()).unwrap_or("/bin/sh");
    let home = if home.is_empty() { "/" } else { home };
    Some(User { name: name.into(), uid, gid, home: home.into(), shell: shell.into() })
}

fn parse_group(line: &str) -> Option<Group> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|n| !n.is_empty() && !n.starts_with('#'))?;
    let gid = field_id(fields.nth(1)?)?;
    let members = fields.next().unwrap_or("").split(',').filter(|m| !m.is_empty());
    Some(Group { name: name.into(), gid, members: members.map(str::to_owned).collect() })
}

fn read_text(path: &str) -> Result<String> {
    match fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Ok(m) if m.len() > FILE_BYTES_MAX => return Err(Error::at("read", path, libc::EFBIG)),
        _ => {}
    }
    let bytes = fs::read(path).call_on("read", path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_streams_in_their_order() {
        let text = "2001:db8::7     STREAM logs.example\n2001:db8::7     DGRAM\n2001:db8::7     RAW\n\
                    192.0.2.7       STREAM\n192.0.2.7       DGRAM\nodd STREAM\n\n";
        let found: Vec<String> = parse_addresses(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["2001:db8::7", "192.0.2.7"]);
        assert!(served_addresses("-x").is_empty());
    }

    fn database() -> Database {
        Database {
            passwd: "root:x:0:0:root:/root:/bin/bash\n#old:x:1:1::/:\nweb:x:33:33::/srv:\n\
                     bad:x:many:1::/:/bin/sh\nshort:x:9\nhome:x:40:33:,,,::/bin/false\n"
                .into(),
            group: "root:x:0:\nwww:x:33:\nadm:x:4:web,root\nlog:x:7:web\ncut:x\n".into(),
        }
    }

    #[track_caller]
    fn check_user(name: &str, expected: &str) {
        let text = match database().user(name) {
            Some(u) => format!("{} {} {} {} {}", u.name, u.uid, u.gid, u.home, u.shell),
            None => "none".into(),
        };
        assert_eq!(text, expected, "{name}");
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        check_user("root", "root 0 0 /root /bin/bash");
        check_user("33", "web 33 33 /srv /bin/sh");
        check_user("home", "home 40 33 / /bin/false");
        check_user("bad", "none");
        check_user("short", "none");
        check_user("#old", "none");
        check_user("", "none");
        check_user("4294967295", "none");
    }

    #[test]
    fn a_number_with_a_needless_zero_is_a_name() {
        assert_eq!(database().user("0").map(|user| user.name), Some("root".into()));
        for name in ["00", "033", "65535", "4294967296", "-1", ""] {
            check_user(name, "none");
            assert_eq!((unlisted_user(name), unlisted_group(name)), (None, None), "{name}");
            assert_eq!((served_user(name), served_group(name)), (None, None), "{name}");
        }
        assert_eq!(unlisted_user("4294967294").map(|user| user.uid), Some(4_294_967_294));
    }

    #[test]
    fn groups_are_found_and_collected() {
        let db = database();
        assert_eq!(db.group("adm").map(|g| g.gid), Some(4));
        assert_eq!(db.group("7").map(|g| g.name), Some("log".into()));
        assert_eq!(db.group("cut"), None);
        assert_eq!(db.groups_of("web", 33), [4, 7, 33]);
        assert_eq!(db.groups_of("nobody", 1), [1]);
    }

    #[test]
    fn services_beside_the_files_list_users_of_the_files() {
        let asks = |text: &str| [true, false].map(|records| lists_users_of_files(text, || records));
        for (text, expected) in [
            ("", [false, false]),
            ("group: files", [false, false]),
            ("group: files # sss", [false, false]),
            ("group:files systemd", [true, false]),
            ("group: files [SUCCESS=merge] systemd", [true, false]),
            ("passwd: files sss\ngroup: files\n", [false, false]),
            ("group: files sss", [true, true]),
            ("group: ldap files", [true, true]),
            ("group: compat", [true, true]),
            ("group: files sss\ninitgroups: files\n", [false, false]),
            ("group: files\ninitgroups: files [NOTFOUND=continue] sss\n", [true, true]),
        ] {
            assert_eq!(asks(text), expected, "{text:?}");
        }
    }
}
