//! Symbolic links below `/dev`, where no udev makes them: `disk/by-uuid/...` and its like. Names of
//! volumes are made by device-mapper's own programs and left to them. Pure: the executor makes them.

use crate::index::DeviceNumber;
use crate::orders::{ExecutorOrder, LINK_DIRECTORIES};
use std::collections::{BTreeMap, BTreeSet};

/// The links that there are, and who claims them: of several, the lowest number has it.
#[derive(Debug, Default)]
pub(super) struct Links {
    claims: BTreeMap<String, BTreeMap<DeviceNumber, String>>,
    of: BTreeMap<DeviceNumber, BTreeSet<String>>,
    /// Where each leads.
    made: BTreeMap<String, String>,
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
        }
        orders
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
        let owner = claims.values().next().cloned();
        if owner.is_none() {
            self.claims.remove(link);
            self.made.remove(link);
            return Some(ExecutorOrder::Link(link.to_owned(), None));
        }
        let before = self.made.insert(link.to_owned(), owner.clone()?);
        (before != owner).then(|| ExecutorOrder::Link(link.to_owned(), owner))
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
    fn a_link_leads_to_the_first_that_claims_it_and_goes_with_the_last() {
        let mut links = Links::default();
        let x = || ["/dev/disk/by-uuid/x", "/dev/disk/by-id/x", "/dev/vg/lv"].into_iter();
        let to = |node: Option<&str>| {
            vec![ExecutorOrder::Link("disk/by-uuid/x".to_owned(), node.map(str::to_owned))]
        };
        assert_eq!(links.keep(number(16), "sdb", x()), to(Some("sdb")));
        assert_eq!(links.keep(number(16), "sdb", x()), [], "nothing is new");
        assert_eq!(links.keep(number(32), "sdc", x()), [], "another has it");
        assert_eq!(links.keep(number(0), "sda", x()), to(Some("sda")));
        assert_eq!(links.keep(number(0), "sda", ["/dev/sda"].into_iter()), to(Some("sdb")));
        assert_eq!(links.drop_all(number(32)), []);
        assert_eq!(links.drop_all(number(16)), to(None));
        assert_eq!(links.drop_all(number(16)), []);
    }
}
