//! Where the running kernel keeps what a program about files reads, by what the kernel says of its own types: BTF
//! (Documentation/bpf/btf.rst), which Linux shows in `/sys/kernel/btf/vmlinux`.
//!
//! The way is followed from the function that the program is attached to, so that a type of the same name elsewhere in
//! the kernel is not taken for it.

/// The function that the kernel calls when a file is opened; programs are attached to it.
const FUNCTION: &str = "bpf_lsm_file_open";

/// Types of a kernel that are looked at; those of today have 150,000.
const TYPES_MAX: usize = 1 << 22;

/// Names, pointers and qualifiers that are followed to the type behind them.
const STEPS_MAX: usize = 32;

/// Structs without a name in one another that are looked into.
const NESTED_MAX: usize = 8;

/// Where things are, in bytes from the beginning of their struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// The kernel's number of the function that a program is attached to.
    pub function: u32,
    /// `f_flags` in `struct file`.
    pub flags: i16,
    /// `f_inode` in `struct file`.
    pub inode: i16,
    /// `i_sb` in `struct inode`.
    pub super_block: i16,
    /// `s_magic` in `struct super_block`.
    pub magic: i16,
}

/// Reads it from the kernel's own description of its types.
///
/// # Errors
/// What is missing, for people.
pub fn file_layout(btf: &[u8]) -> Result<FileLayout, String> {
    let types = Types::read(btf).ok_or("cannot read the kernel's type information (BTF)")?;
    let missing = |what: &str| format!("the kernel's type information (BTF) lacks {what}");
    let function = types.function(FUNCTION).ok_or_else(|| missing(FUNCTION))?;
    let file = types.first_parameter(function).ok_or_else(|| missing("parameter of it"))?;
    let (flags, _) = types.member(file, "f_flags").ok_or_else(|| missing("file.f_flags"))?;
    let (inode, to) = types.member(file, "f_inode").ok_or_else(|| missing("file.f_inode"))?;
    let (super_block, to) = types.member(to, "i_sb").ok_or_else(|| missing("inode.i_sb"))?;
    let (magic, number) =
        types.member(to, "s_magic").ok_or_else(|| missing("super_block.s_magic"))?;
    if types.bytes_of_number(number) != Some(8) {
        return Err("the kernel's superblock magic number is not 64 bits wide".to_owned());
    }
    Ok(FileLayout { function, flags, inode, super_block, magic })
}

/// Kinds of types (linux/btf.h).
mod kind {
    pub const INT: u32 = 1;
    pub const POINTER: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FORWARD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNCTION: u32 = 12;
    pub const PROTOTYPE: u32 = 13;
    pub const VARIABLE: u32 = 14;
    pub const DATA_SECTION: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECLARATION_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM_64: u32 = 19;
}

/// `struct btf_type`
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    info: u32,
    /// Its size, or the number of the type behind it.
    size_or_type: u32,
    /// Where what follows it begins.
    rest: usize,
}

const TYPE_BYTES: usize = 12;

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    /// How many members, parameters or values follow.
    fn count(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Whether offsets of members are in the low 24 bits.
    fn has_bit_fields(self) -> bool {
        self.info >> 31 == 1
    }

    /// Bytes of what follows it; none for a kind that is not known.
    fn rest_bytes(self) -> Option<usize> {
        Some(match self.kind() {
            kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATA_SECTION | kind::ENUM_64 => 12 * self.count(),
            kind::ENUM | kind::PROTOTYPE => 8 * self.count(),
            kind::POINTER | kind::FORWARD | kind::TYPEDEF | kind::VOLATILE | kind::CONST => 0,
            kind::RESTRICT | kind::FUNCTION | kind::FLOAT | kind::TYPE_TAG => 0,
            _ => return None,
        })
    }
}

/// All types, in the order of their numbers, which begin with 1.
struct Types<'a> {
    bytes: &'a [u8],
    /// Where they begin.
    at: Vec<u32>,
    strings: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    four.try_into().ok().map(u32::from_ne_bytes)
}

impl<'a> Types<'a> {
    fn read(btf: &'a [u8]) -> Option<Types<'a>> {
        const MAGIC: u16 = 0xeb9f;
        const VERSION: u8 = 1;
        let magic = u16::from_ne_bytes(btf.get(..2)?.try_into().ok()?);
        if magic != MAGIC || *btf.get(2)? != VERSION {
            return None;
        }
        let header = word(btf, 4)? as usize;
        let section = |offset: usize, length: usize| {
            let begin = header.checked_add(word(btf, offset)? as usize)?;
            btf.get(begin..begin.checked_add(word(btf, length)? as usize)?)
        };
        let (bytes, strings) = (section(8, 12)?, section(16, 20)?);
        let mut types = Types { bytes, at: Vec::new(), strings };
        let mut at = 0;
        while at < bytes.len() {
            if types.at.len() == TYPES_MAX {
                return None;
            }
            types.at.push(u32::try_from(at).ok()?);
            let one = types.at_offset(at)?;
            at = one.rest.checked_add(one.rest_bytes()?)?;
        }
        (at == bytes.len()).then_some(types)
    }

    fn at_offset(&self, at: usize) -> Option<Type> {
        let rest = at + TYPE_BYTES;
        Some(Type {
            name: word(self.bytes, at)?,
            info: word(self.bytes, at + 4)?,
            size_or_type: word(self.bytes, at + 8)?,
            rest,
        })
    }

    fn get(&self, number: u32) -> Option<Type> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.at_offset(*self.at.get(index)? as usize)
    }

    fn is_named(&self, offset: u32, name: &str) -> bool {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The number of a function.
    fn function(&self, name: &str) -> Option<u32> {
        let numbers = (1..).take(self.at.len());
        numbers.into_iter().find(|&number| {
            self.get(number)
                .is_some_and(|one| one.kind() == kind::FUNCTION && self.is_named(one.name, name))
        })
    }

    /// The type of the first parameter of a function.
    fn first_parameter(&self, function: u32) -> Option<u32> {
        let prototype = self.get(self.get(function)?.size_or_type)?;
        let has_one = prototype.kind() == kind::PROTOTYPE && prototype.count() > 0;
        word(self.bytes, prototype.rest.checked_add(4)?).filter(|_| has_one)
    }

    /// What is behind names, qualifiers and pointers.
    fn behind(&self, number: u32) -> Option<Type> {
        let mut one = self.get(number)?;
        for _ in 0..STEPS_MAX {
            match one.kind() {
                kind::POINTER | kind::TYPEDEF | kind::VOLATILE | kind::CONST => {}
                kind::RESTRICT | kind::TYPE_TAG => {}
                _ => return Some(one),
            }
            one = self.get(one.size_or_type)?;
        }
        None
    }

    /// Where a member of the struct behind a type is, in bytes, and the number of its own type.
    fn member(&self, of: u32, name: &str) -> Option<(i16, u32)> {
        let (bits, number) = self.member_within(self.behind(of)?, name, NESTED_MAX)?;
        let bytes = i16::try_from(bits / 8).ok()?;
        (bits % 8 == 0).then_some((bytes, number))
    }

    fn member_within(&self, of: Type, name: &str, depth: usize) -> Option<(u32, u32)> {
        const BITS: u32 = 0xff_ffff;
        if !matches!(of.kind(), kind::STRUCT | kind::UNION) {
            return None;
        }
        let mut nested = Vec::new();
        for index in 0..of.count() {
            let at = of.rest + index * TYPE_BYTES;
            let field = |which: usize| word(self.bytes, at + which * 4);
            let (named, number, offset) = (field(0)?, field(1)?, field(2)?);
            let bits = if of.has_bit_fields() { offset & BITS } else { offset };
            if self.is_named(named, name) {
                return Some((bits, number));
            }
            if self.is_named(named, "") {
                nested.push((bits, number));
            }
        }
        let depth = depth.checked_sub(1)?;
        nested.into_iter().find_map(|(bits, number)| {
            let (within, number) = self.member_within(self.behind(number)?, name, depth)?;
            Some((bits.checked_add(within)?, number))
        })
    }

    /// How many bytes a number has.
    fn bytes_of_number(&self, number: u32) -> Option<u32> {
        let one = self.behind(number)?;
        (one.kind() == kind::INT).then_some(one.size_or_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes such a description.
    #[derive(Default)]
    struct Made {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Made {
        fn new() -> Made {
            Made { strings: vec![0], ..Made::default() }
        }

        fn text(&mut self, text: &str) -> u32 {
            if text.is_empty() {
                return 0;
            }
            let at = self.strings.len() as u32;
            self.strings.extend(text.as_bytes());
            self.strings.push(0);
            at
        }

        fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, rest: &[u32]) -> u32 {
            let name = self.text(name);
            let words = [name, kind << 24 | count, size];
            self.types.extend(words.iter().chain(rest).flat_map(|word| word.to_ne_bytes()));
            self.count += 1;
            self.count
        }

        /// A struct of these members: name, type, bytes from its beginning.
        fn record(&mut self, name: &str, members: &[(&str, u32, u32)]) -> u32 {
            let mut rest = Vec::new();
            for (name, number, bytes) in members {
                rest.extend([self.text(name), *number, bytes * 8]);
            }
            self.add(name, kind::STRUCT, members.len() as u32, 400, &rest)
        }

        fn bytes(&self) -> Vec<u8> {
            let mut out = vec![0x9f, 0xeb, 1, 0];
            if cfg!(target_endian = "big") {
                out = vec![0xeb, 0x9f, 1, 0];
            }
            let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
            let header = [24, 0, types, types, strings];
            out.extend(header.iter().flat_map(|word: &u32| word.to_ne_bytes()));
            out.extend(&self.types);
            out.extend(&self.strings);
            out
        }
    }

    fn kernel(change: impl Fn(&mut Made) -> (u32, u32)) -> Vec<u8> {
        let mut made = Made::new();
        // Kinds that have something behind them, to be passed over.
        made.add("an", kind::ENUM, 1, 4, &[0, 7]);
        made.add("arr", kind::ARRAY, 0, 0, &[1, 1, 3]);
        made.add("tag", kind::DECLARATION_TAG, 0, 1, &[u32::MAX]);
        let (number, padding) = change(&mut made);
        let block = made.record("super_block", &[("s_list", 1, 0), ("s_magic", number, 96)]);
        let pointer = made.add("", kind::POINTER, 0, block, &[]);
        let inode = made.record("inode", &[("i_mode", 1, 0), ("i_sb", pointer, 40)]);
        let qualified = made.add("", kind::CONST, 0, inode, &[]);
        let pointer = made.add("", kind::POINTER, 0, qualified, &[]);
        let inner = made.record("", &[("f_inode", pointer, 8)]);
        let file = made.record("file", &[("f_flags", 1, 4), ("", inner, padding)]);
        made.record("file", &[("f_inode", pointer, 300)]);
        let pointer = made.add("", kind::POINTER, 0, file, &[]);
        let argument = made.text("file");
        let prototype = made.add("", kind::PROTOTYPE, 1, 1, &[argument, pointer]);
        made.add("bpf_lsm_file_opened", kind::FUNCTION, 0, prototype, &[]);
        made.add("bpf_lsm_file_open", kind::FUNCTION, 0, prototype, &[]);
        made.bytes()
    }

    fn usual(made: &mut Made) -> (u32, u32) {
        let number = made.add("unsigned long", kind::INT, 0, 8, &[64]);
        (made.add("ulong", kind::TYPEDEF, 0, number, &[]), 16)
    }

    #[test]
    fn the_way_begins_with_the_function() {
        let layout = file_layout(&kernel(usual)).expect("it is whole");
        let expected = FileLayout {
            function: layout.function,
            flags: 4,
            inode: 24,
            super_block: 40,
            magic: 96,
        };
        assert_eq!(layout, expected);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        let whole = kernel(usual);
        for length in 0..whole.len() {
            assert!(file_layout(&whole[..length]).is_err(), "{length} bytes of it");
        }
        let check = |change: fn(&mut Made) -> (u32, u32), expected: &str| {
            let error = file_layout(&kernel(change)).expect_err("it is refused");
            assert!(error.contains(expected), "{error}");
        };
        check(|made| (made.add("int", kind::INT, 0, 4, &[32]), 16), "not 64 bits wide");
        check(
            |made| (made.add("odd", 31, 0, 4, &[]), 16),
            "cannot read the kernel's type information",
        );
        check(|_| (99, 16), "not 64 bits wide");
        check(|made| (usual(made).0, 40_000), "lacks file.f_inode");
        // A type that is behind itself.
        check(|made| (made.add("loop", kind::TYPEDEF, 0, 4, &[]), 16), "not 64 bits wide");
    }
}
