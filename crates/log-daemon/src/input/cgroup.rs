//! The unit, slice and session that a cgroup path tells of; systemd.journal-fields(7).

use warren_log_store::entry::Fields;

/// Endings of units that have processes.
const UNIT_TYPES: [&str; 4] = [".service", ".scope", ".mount", ".socket"];

/// The path of the service manager's hierarchy in `/proc/PID/cgroup`: the unified one, or on a
/// hybrid host the named one when the unified one is not used.
pub fn path_of(text: &str) -> Option<&str> {
    let after = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix));
    let unified = after("0::").filter(|path| *path != "/");
    let named = || text.lines().find_map(|line| line.split_once(":name=systemd:").map(|(_, p)| p));
    unified.or_else(named).or_else(|| after("0::"))
}

/// Appends what a path tells of.
pub fn put_fields(path: &str, fields: &mut Fields) {
    fields.push(b"_SYSTEMD_CGROUP", path.as_bytes());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).map(unescape).collect();
    let Some(at) = parts.iter().position(|part| is_unit(part)) else { return };
    let unit = parts[at];
    fields.push(b"_SYSTEMD_UNIT", unit.as_bytes());
    fields.push(b"_SYSTEMD_SLICE", last_slice(&parts[..at]).as_bytes());
    if let Some(user) = unit.strip_prefix("user@").and_then(|rest| rest.strip_suffix(".service")) {
        fields.push(b"_SYSTEMD_OWNER_UID", user.as_bytes());
        let own = &parts[at + 1..];
        if let Some(at) = own.iter().position(|part| is_unit(part)) {
            fields.push(b"_SYSTEMD_USER_UNIT", own[at].as_bytes());
            fields.push(b"_SYSTEMD_USER_SLICE", last_slice(&own[..at]).as_bytes());
        }
    } else if let Some(session) = unit.strip_prefix("session-") {
        let session = session.strip_suffix(".scope").unwrap_or(session);
        fields.push(b"_SYSTEMD_SESSION", session.as_bytes());
        let owner = parts[..at]
            .iter()
            .rev()
            .find_map(|slice| slice.strip_prefix("user-")?.strip_suffix(".slice"));
        owner.into_iter().for_each(|uid| fields.push(b"_SYSTEMD_OWNER_UID", uid.as_bytes()));
    }
}

fn is_unit(part: &str) -> bool {
    UNIT_TYPES.iter().any(|ending| part.ends_with(ending) && part.len() > ending.len())
}

/// Names that could be taken for the kernel's own files have a `_` before them.
fn unescape(part: &str) -> &str {
    part.strip_prefix('_').unwrap_or(part)
}

fn last_slice<'a>(parts: &[&'a str]) -> &'a str {
    parts.iter().rev().find(|part| part.ends_with(".slice")).copied().unwrap_or("-.slice")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let mut fields = Fields::new();
        put_fields(path, &mut fields);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown: Vec<String> = fields
            .iter()
            .skip(1)
            .map(|(name, value)| format!("{}={}", text(name).replace("_SYSTEMD_", ""), text(value)))
            .collect();
        assert_eq!(shown.join(" "), expected, "{path}");
    }

    #[test]
    fn paths() {
        check("/", "");
        check("/init.scope", "UNIT=init.scope SLICE=-.slice");
        check("/system.slice/a.service", "UNIT=a.service SLICE=system.slice");
        check(
            "/system.slice/system-b.slice/b@1.service/sub",
            "UNIT=b@1.service SLICE=system-b.slice",
        );
        check("/system.slice/_cpu.service", "UNIT=cpu.service SLICE=system.slice");
        check(
            "/user.slice/user-7.slice/session-3.scope",
            "UNIT=session-3.scope SLICE=user-7.slice SESSION=3 OWNER_UID=7",
        );
        check(
            "/user.slice/user-7.slice/user@7.service/app.slice/x.service",
            "UNIT=user@7.service SLICE=user-7.slice OWNER_UID=7 USER_UNIT=x.service USER_SLICE=app.slice",
        );
    }

    #[test]
    fn hierarchies() {
        assert_eq!(path_of("0::/a.service\n"), Some("/a.service"));
        assert_eq!(path_of("9:name=systemd:/b.service\n0::/\n"), Some("/b.service"));
        assert_eq!(path_of("0::/\n"), Some("/"));
        assert_eq!(path_of("3:cpu:/x\n"), None);
    }
}
