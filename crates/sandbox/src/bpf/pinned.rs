//! Programs that somebody else loaded and pinned in a file system of BPF (systemd.resource-control(5), "BPFProgram=").

/// Places where a program is asked, by the names of bpftool(8), and `enum bpf_attach_type` of linux/bpf.h.
const PLACES: [(&str, u32); 18] = [
    ("ingress", 0),
    ("egress", 1),
    ("sock_create", 2),
    ("sock_ops", 3),
    ("device", 6),
    ("bind4", 8),
    ("bind6", 9),
    ("connect4", 10),
    ("connect6", 11),
    ("post_bind4", 12),
    ("post_bind6", 13),
    ("sendmsg4", 14),
    ("sendmsg6", 15),
    ("sysctl", 18),
    ("recvmsg4", 19),
    ("recvmsg6", 20),
    ("getsockopt", 21),
    ("setsockopt", 22),
];

/// Programs of one setting of a unit: the kernel takes 64 of a group at each place, of which some are ours.
pub const PINNED_MAX: usize = 32;

/// A program in a file, and where it is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pinned {
    /// `enum bpf_attach_type`
    pub place: u32,
    /// Absolute and simple.
    pub path: Box<str>,
}

impl Pinned {
    /// `PLACE:PATH`
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Pinned, String> {
        let (name, path) = text.split_once(':').ok_or("lacks a path after the colon")?;
        let known = PLACES.iter().find(|(known, _)| *known == name);
        let (_, place) =
            known.ok_or_else(|| format!("has '{name}', which is not an attach type"))?;
        Ok(Pinned { place: *place, path: crate::paths::simple(path)?.into() })
    }

    /// The name of the place.
    pub fn name(&self) -> &'static str {
        PLACES.iter().find(|(_, place)| *place == self.place).map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_place_and_a_path() {
        let found = Pinned::parse("connect4:/sys/fs/bpf//a/./b").expect("it is one");
        assert_eq!((found.name(), &*found.path), ("connect4", "/sys/fs/bpf/a/b"));
        for wrong in ["", "egress", "egress:", "egress:rel", "nowhere:/a", "egress:/a/../b", ":/a"]
        {
            assert!(Pinned::parse(wrong).is_err(), "{wrong}");
        }
    }
}
