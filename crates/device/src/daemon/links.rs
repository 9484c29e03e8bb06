//! Symbolic links below `/dev`, where no udev makes them: `disk/by-uuid/...` and its like. Names of
//! volumes are made by device-mapper's own programs and left to them. Pure: the executor makes them.

use crate::index::DeviceNumber;
use crate::orders::{ExecutorOrder, LINK_DIRECTORIES};
use std::collections::{BTreeMap, BTreeSet};

/// The links that there are, and who claims them. Who has one keeps it while it is there: a disk that is plugged in with
/// the label of another one takes nothing from it. Of those that wait the lowest number comes next.
#[derive(Debug, Default)]
pub(super) struct Links {
    claims: BTreeMap<String, BTreeMap<DeviceNumber, String>>,
    of: BTreeMap<DeviceNumber, BTreeSet<String>>,
    /// Whose each is, and where it leads.
    made: BTreeMap<String, (DeviceNumber, String)>,
    /// What several claim, to be said.
    clashes: Vec<String>,
}

impl Links {
    /// Makes the links of a device those of `names` (`/dev/...`); returns what is to be done for it.
    pub(super) fn keep<'a>(
        &mut self,
        number: DeviceNumber,
        node: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<ExecutorOrder> {
        let wanted = names.filter_map(|name| name.strip_prefix("/dev/"));
        let wanted: BTreeSet<String> =
            wanted.filter(|link| is_made(link)).map(str::to_owned).collect();
        let had = self.of.insert(number, wanted.clone()).unwrap_or_default();
        let mut orders = Vec::new();
        for link in had.difference(&wanted) {
            self.unclaim(link, number);
            orders.extend(self.settle(link));
        }
        for link in wanted.difference(&had) {
            self.claims.entry(link.clone()).or_default().insert(number, node.to_owned());
            orders.extend(self.settle(link));
            self.note_clash(link, (number, node));
        }
        orders
    }

    /// What several devices claim, since it was last asked for.
    pub(super) fn take_clashes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.clashes)
    }

    fn note_clash(&mut self, link: &str, (number, node): (DeviceNumber, &str)) {
        if let Some((_, owner)) = self.made.get(link).filter(|(owner, _)| *owner != number) {
            let link = crate::bytes::printable(link);
            self.clashes.push(format!("/dev/{link} is {owner}'s, which {node} claims too"));
        }
    }

    /// The device went.
    pub(super) fn drop_all(&mut self, number: DeviceNumber) -> Vec<ExecutorOrder> {
        let had = self.of.remove(&number).unwrap_or_default();
        let mut orders = Vec::new();
        for link in had {
            self.unclaim(&link, number);
            orders.extend(self.settle(&link));
        }
        orders
    }

    fn unclaim(&mut self, link: &str, number: DeviceNumber) {
        if let Some(claims) = self.claims.get_mut(link) {
            claims.remove(&number);
        }
    }

    /// One link is to lead where it should, or to go.
    fn settle(&mut self, link: &str) -> Option<ExecutorOrder> {
        let claims = self.claims.get(link)?;
        let of_owner = self.made.get(link).and_then(|(owner, _)| claims.get_key_value(owner));
        let next = of_owner.or_else(|| claims.iter().next());
        let Some((owner, node)) = next.map(|(number, node)| (*number, node.clone())) else {
            self.claims.remove(link);
            self.made.remove(link);
            return Some(ExecutorOrder::Link(link.to_owned(), None));
        };
        let before = self.made.insert(link.to_owned(), (owner, node.clone()));
        let is_new = before.is_none_or(|(_, before)| before != node);
        is_new.then(|| ExecutorOrder::Link(link.to_owned(), Some(node)))
    }
}

fn is_made(link: &str) -> bool {
    let directory = link.strip_prefix("disk/").and_then(|rest| rest.split_once('/'));
    directory.is_some_and(|(directory, _)| LINK_DIRECTORIES.contains(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 8, minor }
    }

    #[test]
    fn a_link_stays_with_the_first_that_claims_it_and_goes_with_the_last() {
        let mut links = Links::default();
        let x = || ["/dev/disk/by-uuid/x", "/dev/disk/by-id/x", "/dev/vg/lv"].into_iter();
        let to = |node: Option<&str>| {
            vec![ExecutorOrder::Link("disk/by-uuid/x".to_owned(), node.map(str::to_owned))]
        };
        assert_eq!(links.keep(number(16), "sdb", x()), to(Some("sdb")));
        assert_eq!(links.keep(number(16), "sdb", x()), [], "nothing is new");
        assert_eq!(links.take_clashes(), [""; 0]);
        assert_eq!(links.keep(number(32), "sdc", x()), [], "another has it");
        assert_eq!(links.keep(number(0), "sda", x()), [], "a lower number takes nothing away");
        let said =
            ["sdc", "sda"].map(|by| format!("/dev/disk/by-uuid/x is sdb's, which {by} claims too"));
        assert_eq!(links.take_clashes(), said);
        assert_eq!(links.keep(number(32), "sdc", ["/dev/sdc"].into_iter()), []);
        assert_eq!(links.drop_all(number(16)), to(Some("sda")));
        assert_eq!(links.drop_all(number(0)), to(None));
        assert_eq!(links.drop_all(number(0)), []);
    }
}
