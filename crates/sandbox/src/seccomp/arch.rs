//! Architectures of system calls, and their numbers.

/// A way to call the kernel, named as in `SystemCallArchitectures=`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit x86 with 32-bit pointers. Its calls have the audit number of `X86_64` and bit 30 in theirs.
    X32,
    /// 64-bit ARM.
    Arm64,
    /// 32-bit ARM.
    Arm,
}

/// Names that systemd.exec(5) knows, of architectures whose calls no kernel takes that runs this program.
const FOREIGN: [&str; 16] = [
    "alpha",
    "arc",
    "arc-be",
    "arm-be",
    "cris",
    "ia64",
    "loongarch64",
    "m68k",
    "mips",
    "mips-le",
    "mips64",
    "mips64-le",
    "ppc",
    "ppc64",
    "ppc64-le",
    "riscv64",
];

/// What a word of `SystemCallArchitectures=` means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchWord {
    /// One whose calls this kernel may take.
    Of(Arch),
    /// One that this kernel does not know.
    Foreign,
}

impl Arch {
    /// The architecture that this program was built for; `None` if there are no filters for it.
    pub fn native() -> Option<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Arch::X86_64),
            "aarch64" => Some(Arch::Arm64),
            _ => None,
        }
    }

    /// All whose calls a kernel of this architecture may take.
    pub fn locals(self) -> &'static [Arch] {
        match self {
            Arch::X86_64 | Arch::X86 | Arch::X32 => &[Arch::X86_64, Arch::X86, Arch::X32],
            Arch::Arm64 | Arch::Arm => &[Arch::Arm64, Arch::Arm],
        }
    }

    /// A word of `SystemCallArchitectures=`; `None` if it is none.
    pub fn from_word(word: &str, native: Arch) -> Option<ArchWord> {
        Some(match word {
            "native" => ArchWord::Of(native),
            "x86-64" => ArchWord::Of(Arch::X86_64),
            "x86" => ArchWord::Of(Arch::X86),
            "x32" => ArchWord::Of(Arch::X32),
            "arm64" => ArchWord::Of(Arch::Arm64),
            "arm" => ArchWord::Of(Arch::Arm),
            "s390" | "s390x" | "parisc" | "parisc64" | "riscv32" | "sparc" | "sparc64" | "sh"
            | "sh64" | "tilegx" | "nios2" | "arm64-be" => ArchWord::Foreign,
            word if FOREIGN.contains(&word) => ArchWord::Foreign,
            _ => return None,
        })
    }

    /// `AUDIT_ARCH_*` of linux/audit.h.
    pub fn audit(self) -> u32 {
        match self {
            Arch::X86_64 | Arch::X32 => 0xc000_003e,
            Arch::X86 => 0x4000_0003,
            Arch::Arm64 => 0xc000_00b7,
            Arch::Arm => 0x4000_0028,
        }
    }

    /// The name of a system call; `None` where this architecture has none of that number.
    pub fn name(self, number: u64) -> Option<&'static str> {
        let number = usize::try_from(number).ok()?;
        match self {
            Arch::X86_64 => syscalls::x86_64::Sysno::new(number).map(|call| call.name()),
            Arch::X86 => syscalls::x86::Sysno::new(number).map(|call| call.name()),
            Arch::Arm64 => syscalls::aarch64::Sysno::new(number).map(|call| call.name()),
            Arch::Arm => syscalls::arm::Sysno::new(number).map(|call| call.name()),
            Arch::X32 => None,
        }
    }

    /// The number of a system call; `None` where this architecture has none of that name. Those of `X32` are not
    /// known: no filter lets them through.
    pub fn number(self, name: &str) -> Option<u32> {
        let id = match self {
            Arch::X86_64 => name.parse::<syscalls::x86_64::Sysno>().ok()?.id(),
            Arch::X86 => name.parse::<syscalls::x86::Sysno>().ok()?.id(),
            Arch::Arm64 => name.parse::<syscalls::aarch64::Sysno>().ok()?.id(),
            Arch::Arm => name.parse::<syscalls::arm::Sysno>().ok()?.id(),
            Arch::X32 => return None,
        };
        u32::try_from(id).ok()
    }
}
