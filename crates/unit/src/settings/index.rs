//! Finding a setting by its name: a hash table that is built when the crate is compiled, because
//! a cold start looks up some 400,000 names.

use super::{ALIASES, Id, SETTINGS};

const SLOTS: usize = 4096;
const EMPTY: u16 = u16::MAX;

static SLOT: [u16; SLOTS] = build();

const fn hash(name: &[u8]) -> usize {
    let mut h: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < name.len() {
        h = (h ^ name[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    ((h ^ (h >> 15)) as usize) % SLOTS
}

/// Entries of the table come first, aliases are numbered after them.
const fn build() -> [u16; SLOTS] {
    let mut slots = [EMPTY; SLOTS];
    let mut i = 0;
    while i < SETTINGS.len() + ALIASES.len() {
        let name =
            if i < SETTINGS.len() { SETTINGS[i].name } else { ALIASES[i - SETTINGS.len()].name };
        let mut at = hash(name.as_bytes());
        while slots[at] != EMPTY {
            at = (at + 1) % SLOTS;
        }
        slots[at] = i as u16;
        i += 1;
    }
    slots
}

/// What each alias stands for.
static ALIAS_IDS: [Id; ALIASES.len()] = alias_ids();

const fn alias_ids() -> [Id; ALIASES.len()] {
    let mut ids = [Id(0); ALIASES.len()];
    let mut i = 0;
    while i < ALIASES.len() {
        ids[i] = Id::of(ALIASES[i].of.0, ALIASES[i].of.1);
        i += 1;
    }
    ids
}

/// Text equality for constant evaluation.
pub(super) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    a.len() == b.len()
}

/// The setting of that name in one of these groups (a bit each).
pub(super) fn find(name: &str, groups: u16) -> Option<Id> {
    let mut at = hash(name.as_bytes());
    loop {
        let entry = SLOT[at];
        if entry == EMPTY {
            return None;
        }
        let index = usize::from(entry);
        if let Some(row) = SETTINGS.get(index) {
            if row.group.bit() & groups != 0 && row.name == name {
                return Some(Id(entry));
            }
        } else if let Some(alias) = ALIASES.get(index - SETTINGS.len())
            && alias.group.bit() & groups != 0
            && alias.name == name
        {
            return ALIAS_IDS.get(index - SETTINGS.len()).copied();
        }
        at = (at + 1) % SLOTS;
    }
}
