//! The fd store: fds by unique name, in tables whose size never changes.
//!
//! Entries are sorted by name; the names are in one arena, squeezed into a second one of the
//! same size when it is full.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::descriptors::Allowance;

use warren_init::protocol::control::{
    KEPT_FOR_UNITS, Refusal, STORE_FDS_MAX, STORE_NAME_BYTES_MAX, STORE_NAMES_BYTES_MAX,
};

use crate::closing::Closing;

struct Entry {
    start: u32,
    bytes: u16,
    fd: OwnedFd,
}

/// The store.
pub struct Store {
    entries: Vec<Entry>,
    names: Vec<u8>,
    spare: Vec<u8>,
    names_in_use: usize,
    fds_max: usize,
    /// What is to be closed.
    pub closing: Closing,
}

impl Store {
    /// An empty store with its bounds from the protocol.
    pub fn new() -> Store {
        Store::with_bounds(STORE_FDS_MAX, STORE_NAMES_BYTES_MAX)
    }

    fn with_bounds(fds_max: usize, names_bytes_max: usize) -> Store {
        Store {
            entries: Vec::with_capacity(fds_max),
            names: Vec::with_capacity(names_bytes_max),
            spare: Vec::with_capacity(names_bytes_max),
            names_in_use: 0,
            fds_max,
            closing: Closing::new(fds_max),
        }
    }

    /// Fds kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps an fd, closing the one that had the name; a refused one is closed.
    pub fn put(&mut self, name: &str, fd: OwnedFd) -> Result<(), Refusal> {
        let bytes = u16::try_from(name.len()).unwrap_or(u16::MAX);
        match self.find(name) {
            Ok(at) => self.closing.close(std::mem::replace(&mut self.entries[at].fd, fd)),
            Err(_) if is_for_unit(name) && !Allowance::of_process().covers(fd.as_fd()) => {
                self.closing.close(fd);
                return Err(Refusal::StoreFull);
            }
            Err(at) => match self.add_name(name) {
                Ok(start) => self.entries.insert(at, Entry { start, bytes, fd }),
                Err(why) => {
                    self.closing.close(fd);
                    return Err(why);
                }
            },
        }
        Ok(())
    }

    fn add_name(&mut self, name: &str) -> Result<u32, Refusal> {
        const _: () = assert!(STORE_NAME_BYTES_MAX <= u16::MAX as usize);
        if name.is_empty() || name.len() > STORE_NAME_BYTES_MAX {
            return Err(Refusal::BadName);
        }
        let fits = self.names_in_use + name.len() <= self.names.capacity();
        if self.entries.len() + self.closing.waiting() >= self.fds_max || !fits {
            return Err(Refusal::StoreFull);
        }
        if self.names.len() + name.len() > self.names.capacity() {
            self.squeeze();
        }
        let start = self.names.len() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.names_in_use += name.len();
        Ok(start)
    }

    fn squeeze(&mut self) {
        self.spare.clear();
        for entry in &mut self.entries {
            let start = self.spare.len() as u32;
            let old = entry.start as usize..entry.start as usize + entry.bytes as usize;
            self.spare.extend_from_slice(&self.names[old]);
            entry.start = start;
        }
        std::mem::swap(&mut self.names, &mut self.spare);
    }

    /// The fd with this name.
    pub fn by_name(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.find(name).ok().map(|at| self.entries[at].fd.as_fd())
    }

    /// Closes the fd with this name, if there is one.
    pub fn drop_fd(&mut self, name: &str) {
        if let Ok(at) = self.find(name) {
            self.closing.close(self.entries.remove(at).fd);
            self.names_in_use -= name.len();
        }
    }

    /// The entry at a position in the order of names.
    pub fn get(&self, at: usize) -> Option<(&str, BorrowedFd<'_>)> {
        let entry = self.entries.get(at)?;
        let name = std::str::from_utf8(self.name(entry)).expect("names were stored from a str");
        Some((name, entry.fd.as_fd()))
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.start as usize..entry.start as usize + entry.bytes as usize]
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|e| self.name(e).cmp(name.as_bytes()))
    }
}

fn is_for_unit(name: &str) -> bool {
    KEPT_FOR_UNITS.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+name` puts, `-name` drops; the names afterwards, `!` for each refusal.
    #[track_caller]
    fn check(script: &str, expected: &str) {
        let mut store = Store::with_bounds(3, 8);
        let mut out = String::new();
        for op in script.split(' ') {
            let (kind, name) = op.split_at(1);
            let fd = std::fs::File::open("/dev/null").expect("/dev/null").into();
            match kind {
                "+" if store.put(name, fd).is_err() => out.push('!'),
                "+" => {}
                _ => store.drop_fd(name),
            }
        }
        let names = (0..store.len()).filter_map(|at| store.get(at)).map(|(name, _)| name);
        assert_eq!(out + &names.collect::<Vec<_>>().join(","), expected, "{script}");
        assert_eq!((store.entries.capacity(), store.names.capacity()), (3, 8), "no growth");
    }

    #[test]
    fn names_are_unique_and_sorted() {
        check("+b +a +b", "a,b");
        check("+b +a -b -x", "a");
    }

    #[test]
    fn the_store_is_bounded() {
        check("+a +b +c +d", "!a,b,c");
        check("+aaaa +bbbb +c", "!aaaa,bbbb");
        check("+", "!");
    }

    #[test]
    fn the_room_of_dropped_names_is_used_again() {
        check("+aaaa +bbb -aaaa +cccc -bbb +ddd", "cccc,ddd");
    }
}
