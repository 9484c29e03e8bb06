//! What the user database has of the names of a run (`DynamicUser=`, systemd.exec(5)). A worker asks, since name
//! services may take their time.

use std::collections::BTreeMap;
use warren_core::model::dynamic_user::{DynamicName, DynamicUser};
use warren_core::protocol::event::NamesFound;
use warren_sys::passwd::{self, Database};

/// Entries by name and by number.
#[derive(Default)]
struct Known {
    by_name: BTreeMap<String, u32>,
    by_number: BTreeMap<u32, String>,
}

impl Known {
    fn of(entries: impl Iterator<Item = (String, u32)>) -> Known {
        let mut known = Known::default();
        for (name, number) in entries {
            known.by_number.entry(number).or_insert_with(|| name.clone());
            known.by_name.entry(name).or_insert(number);
        }
        known
    }

    /// Whether it has the name with another number than the one that we gave: name services know our own.
    fn has(&self, of: &DynamicName) -> bool {
        self.by_name.get(&*of.name).is_some_and(|&number| of.given() != Some(number))
    }

    /// Whether the number is another's.
    fn has_number_of(&self, of: &DynamicName) -> bool {
        let name = of.given().and_then(|number| self.by_number.get(&number));
        name.is_some_and(|name| **name != *of.name)
    }
}

/// Looks up the names of a run, and the numbers that were given to them. This waits for name services.
pub(crate) fn look_up(user: &DynamicUser) -> NamesFound {
    let files = match Database::read() {
        Ok(files) => files,
        Err(e) => {
            let refused = Some(format!("reading the user database: {}", e.message()).into());
            return NamesFound { refused, ..NamesFound::default() };
        }
    };
    let mut keys: Vec<String> = Vec::new();
    for of in user.names() {
        keys.push(of.name.to_string());
        keys.extend(of.given().map(|number| number.to_string()));
    }
    // The first entry of a name counts, and so those of the files.
    let users = files.passwd + "\n" + &passwd::served("passwd", &keys);
    let groups = files.group + "\n" + &passwd::served("group", &keys);
    compare(
        user,
        &Known::of(passwd::users(&users).map(|user| (user.name, user.uid))),
        &Known::of(passwd::groups(&groups).map(|group| (group.name, group.gid))),
    )
}

fn compare(user: &DynamicUser, users: &Known, groups: &Known) -> NamesFound {
    let mut found = NamesFound::default();
    let mut look = |of: &DynamicName, known: &Known, others: &Known, [kind, other]: [&str; 2]| {
        let name = &of.name;
        match (known.has(of), others.has(of)) {
            (true, _) => found.known.push(name.clone()),
            (false, true) => {
                let text = format!("there is a {other} {name}, but no {kind} of that name");
                found.refused.get_or_insert(text.into());
            }
            (false, false) if known.has_number_of(of) || others.has_number_of(of) => {
                found.taken.extend(of.given());
            }
            (false, false) => {}
        }
    };
    look(&user.user, users, groups, ["user", "group"]);
    if let Some(group) = &user.group {
        look(group, groups, users, ["group", "user"]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_core::model::dynamic_user::Number;

    #[track_caller]
    fn check(user: &str, group: &str, expected: &str) {
        let entries = |text: &[(&str, u32)]| {
            Known::of(
                text.iter()
                    .map(|&(name, number)| (name.to_owned(), number))
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        };
        let users =
            entries(&[("root", 0), ("web", 33), ("ours", 61200), ("ldap", 61201), ("u", 70)]);
        let groups = entries(&[("root", 0), ("web", 33), ("adm", 4), ("ours", 61200)]);
        let name = |text: &str| {
            let (name, number) = text.split_once('=').expect("a name and a number");
            let number = Number::Given(number.parse().expect("a number"));
            DynamicName { name: name.into(), number }
        };
        let group = (!group.is_empty()).then(|| name(group));
        let user = DynamicUser { user: name(user), group, refused: None };
        let found = compare(&user, &users, &groups);
        let refused = found.refused.as_deref().unwrap_or("-");
        assert_eq!(format!("{:?} {:?} {refused}", found.known, found.taken), expected);
    }

    #[test]
    fn who_is_in_the_user_database_is_not_made() {
        check("new=61300", "", "[] [] -");
        check("ours=61200", "", "[] [] -");
        check("web=61300", "", "[\"web\"] [] -");
        check("new=61300", "adm=61301", "[\"adm\"] [] -");
        check("new=61300", "more=61301", "[] [] -");
        check("new=61201", "", "[] [61201] -");
        check("new=61300", "more=61201", "[] [61201] -");
        check("adm=61300", "", "[] [] there is a group adm, but no user of that name");
        check("new=61300", "u=61301", "[] [] there is a user u, but no group of that name");
    }
}
