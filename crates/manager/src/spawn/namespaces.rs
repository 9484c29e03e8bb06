//! Stores of the namespaces that the processes of a run share: pairs of sockets, which init keeps too. What is in
//! them is the exec helpers' business (`init::protocol::exec::Stored`).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use warren_core::model::ids::UnitId;
use warren_init::protocol::exec::Stored;
use warren_sandbox::mounts::{Plan, Shared};
use warren_sys::{Result, fdpass};

/// The store of a run.
pub(crate) struct Store {
    /// The run.
    pub(crate) invocation: u128,
    /// Where the message is put, and where it is taken.
    pub(crate) ends: [Rc<OwnedFd>; 2],
}

impl Store {
    /// A store in which no namespace is yet.
    fn new(invocation: u128) -> Result<Store> {
        let (put, take) = fdpass::seqpacket_pair(false)?;
        fdpass::send(put.as_fd(), &Stored::default().packet(), &[])?;
        Ok(Store { invocation, ends: [Rc::new(put), Rc::new(take)] })
    }

    /// For another unit, which joins this one's.
    fn shared_with(&self, invocation: u128) -> Store {
        Store { invocation, ends: self.ends.clone() }
    }
}

/// The stores of all runs that have one.
#[derive(Default)]
pub(crate) struct Stores {
    of: BTreeMap<UnitId, Store>,
    /// Half of one that init kept.
    half: Option<(UnitId, u128, OwnedFd)>,
}

/// Whether processes of this plan have namespaces that the run shares.
pub(crate) fn are_asked_for(plan: &Plan) -> bool {
    let own = &plan.namespaces;
    own.network == Shared::Private || own.ipc == Shared::Private
}

impl Stores {
    /// The store of a run, and whether init has to be given it. It is that of one of `joined` if that has one.
    pub(crate) fn of_run(
        &mut self,
        unit: UnitId,
        invocation: u128,
        joined: impl IntoIterator<Item = UnitId>,
    ) -> Result<(&Store, bool)> {
        let is_new = self.of.get(&unit).is_none_or(|store| store.invocation != invocation);
        if is_new {
            let other = joined.into_iter().find_map(|other| self.of.get(&other));
            let store = match other {
                Some(other) => other.shared_with(invocation),
                None => Store::new(invocation)?,
            };
            self.of.insert(unit, store);
        }
        Ok((&self.of[&unit], is_new))
    }

    /// Forgets that of a run that has ended; returns the run.
    pub(crate) fn forget(&mut self, unit: UnitId) -> Option<u128> {
        self.of.remove(&unit).map(|store| store.invocation)
    }

    /// Takes one end from init, the first before the second.
    pub(crate) fn take_up(&mut self, unit: UnitId, invocation: u128, second: bool, fd: OwnedFd) {
        match self.half.take() {
            Some((of, run, first)) if second && (of, run) == (unit, invocation) => {
                let ends = [Rc::new(first), Rc::new(fd)];
                self.of.insert(unit, Store { invocation, ends });
            }
            _ if !second => self.half = Some((unit, invocation, fd)),
            // Without its other half it is of no use.
            _ => {}
        }
    }
}

/// The names under which init keeps the ends.
pub(crate) fn kept_as(unit: &str, invocation: u128) -> [String; 2] {
    [0, 1].map(|end| format!("namespaces/{unit}/{invocation:032x}/{end}"))
}

/// The unit, the run and whether it is the second end of such a name.
pub(crate) fn parse_kept(name: &str) -> Option<(&str, u128, bool)> {
    let (unit, rest) = name.strip_prefix("namespaces/")?.split_once('/')?;
    let (invocation, end) = rest.split_once('/')?;
    let second = match end {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some((unit, u128::from_str_radix(invocation, 16).ok()?, second))
}

impl Store {
    /// Its ends for init.
    pub(crate) fn borrowed(&self) -> [BorrowedFd<'_>; 2] {
        [self.ends[0].as_fd(), self.ends[1].as_fd()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_one_store_and_shares_that_of_who_it_joins() {
        let mut stores = Stores::default();
        let (a, b) = (UnitId(1), UnitId(2));
        let first = stores.of_run(a, 7, []).expect("made");
        let end = first.0.ends[0].clone();
        assert!(first.1);
        let again = stores.of_run(a, 7, [b]).expect("there");
        assert!(!again.1 && Rc::ptr_eq(&end, &again.0.ends[0]));
        let joined = stores.of_run(b, 8, [a]).expect("shared");
        assert!(joined.1 && Rc::ptr_eq(&end, &joined.0.ends[0]));
        let next = stores.of_run(a, 9, []).expect("made");
        assert!(next.1 && !Rc::ptr_eq(&end, &next.0.ends[0]));
        assert_eq!([stores.forget(a), stores.forget(a)], [Some(9), None]);
    }

    #[test]
    fn what_init_kept_is_taken_up_by_its_name() {
        let names = kept_as("a@b.service", 0xabc);
        assert_eq!(parse_kept(&names[0]), Some(("a@b.service", 0xabc, false)));
        assert_eq!(parse_kept(&names[1]), Some(("a@b.service", 0xabc, true)));
        assert_eq!(parse_kept("namespaces/a/xyz/0"), None);
        let mut stores = Stores::default();
        let (put, take) = fdpass::seqpacket_pair(false).expect("made");
        stores.take_up(UnitId(1), 5, false, put);
        stores.take_up(UnitId(1), 5, true, take);
        assert!(!stores.of_run(UnitId(1), 5, []).expect("there").1);
    }
}
