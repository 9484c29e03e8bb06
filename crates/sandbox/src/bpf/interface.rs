//! Which network devices a unit may use (systemd.resource-control(5), "RestrictNetworkInterfaces=").

use super::DENY;
use super::instruction::{CONTEXT, Instruction, R, answer, load, skip_if, skip_unless, to_end};

/// Most names of a list.
pub const NAMES_MAX: usize = 1024;

/// Longest name, IFNAMSIZ without its end.
const NAME_BYTES_MAX: usize = 15;

/// Network devices by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interfaces {
    /// Those that are listed may be used, and no others; else it is the other way round.
    pub is_allowed: bool,
    /// Their names, each once and in order.
    pub names: Vec<Box<str>>,
}

/// Whether it can be the name of a network device.
pub fn is_name(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    (1..=NAME_BYTES_MAX).contains(&word.len())
        && word.bytes().all(is_plain)
        && !matches!(word, "." | ".." | "all" | "default")
        && !is_number
}

impl Interfaces {
    /// Takes in another assignment: the first one says which kind of list it is (systemd.resource-control(5)).
    pub fn take(list: &mut Option<Interfaces>, inverted: bool, names: Vec<Box<str>>) {
        let is_allowed = !inverted;
        let list = list.get_or_insert(Interfaces { is_allowed, names: Vec::new() });
        match list.is_allowed == is_allowed {
            true => list.names.extend(names),
            false => list.names.retain(|name| !names.contains(name)),
        }
        list.names.sort_unstable();
        list.names.dedup();
    }
}

/// The number of a network device.
const INDEX: R = R(7);

/// `struct __sk_buff`
const INDEX_AT: i16 = 40;

/// The begin of a program for packets: those of devices that may not be used are refused. `indexes`: of the devices
/// that are there.
pub(super) fn refusals(is_allowed: bool, indexes: &[u32]) -> Vec<Instruction> {
    let mut out = vec![load(INDEX, CONTEXT, INDEX_AT)];
    match is_allowed {
        true => {
            let all = indexes.len() + answer(DENY).len();
            let skip =
                |(at, index): (usize, &u32)| skip_if(INDEX, index.cast_signed(), to_end(at, all));
            out.extend(indexes.iter().enumerate().map(skip));
            out.extend(answer(DENY));
        }
        false => {
            for index in indexes {
                let refusal = answer(DENY);
                let skip = to_end(0, refusal.len() + 1);
                out.push(skip_unless(INDEX, index.cast_signed(), skip));
                out.extend(refusal);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_devices() {
        for name in ["lo", "eth0.5", "wlp3s0", "a-b_c"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "sixteen-letters-", "a/b", "a b", ".", "all", "12", "a%d", "a:1"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_first_assignment_says_which_kind_of_list_it_is() {
        let check = |lines: &[&str], expected: &str| {
            let mut list = None;
            for line in lines {
                let (inverted, names) =
                    line.strip_prefix('~').map_or((false, *line), |l| (true, l));
                let names = names.split_whitespace().map(Into::into).collect();
                Interfaces::take(&mut list, inverted, names);
            }
            let list = list.expect("something is assigned");
            let sign = if list.is_allowed { "" } else { "~" };
            assert_eq!(format!("{sign}{}", list.names.join(" ")), expected);
        };
        check(&["eth1", "eth2"], "eth1 eth2");
        check(&["~eth1 eth2"], "~eth1 eth2");
        check(&["eth1 eth2", "~eth1"], "eth2");
        check(&["~b a", "a", "~c b"], "~b c");
    }
}
