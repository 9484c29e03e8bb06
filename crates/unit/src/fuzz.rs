//! What a fuzzer calls: everything that reads text, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_unit::fuzz::unit_file(data));` is a whole target.

use std::sync::Arc;

use crate::compile::Compiler;
use crate::context::{Context, Defaults};
use crate::load::{Sources, load};
use crate::name::{UnitName, UnitType};
use crate::parse::{UnitFile, parse};
use crate::{escape, value};

/// Parses bytes as a file of every type, prints, loads and compiles it.
///
/// # Panics
/// If printing is not stable, or two loads of the same files differ.
pub fn unit_file(data: &[u8]) {
    for unit_type in UnitType::ALL {
        let (file, _) = parse(Arc::from("fuzz"), data, unit_type);
        round_trip(&file, unit_type);
        let file = Arc::new(file);
        for stem in ["a", "srv-x", "a-b@x"] {
            let name = format!("{stem}.{}", unit_type.suffix());
            let name = UnitName::parse(&name).expect("a valid name");
            whole_unit(&name, &file);
        }
    }
}

fn round_trip(file: &UnitFile, unit_type: UnitType) {
    let printed = file.print(unit_type);
    let (again, diagnostics) = parse(Arc::from("again"), printed.as_bytes(), unit_type);
    assert!(diagnostics.is_empty(), "what we print has no faults: {printed:?}");
    assert_eq!(printed, again.print(unit_type), "printing is stable");
}

fn whole_unit(name: &UnitName, file: &Arc<UnitFile>) {
    let (context, defaults) = (Context::system(), Defaults::default());
    let dropins = [file.clone()];
    let sources = Sources { fragment: Some(file), dropins: &dropins, ..Sources::default() };
    let first = load(name, &sources, &context, &defaults);
    assert_eq!(first, load(name, &sources, &context, &defaults), "same files, same unit");
    let compiler = Compiler { name, sources: &sources, context: &context, defaults: &defaults };
    let _ = (compiler.check(), compiler.service(), compiler.socket(), compiler.mount());
}

/// Names and escaping.
///
/// # Panics
/// If something that was escaped does not come back.
pub fn name(text: &str) {
    assert_eq!(escape::unescape(&escape::escape(text)).as_deref(), Ok(text));
    if let Ok(escaped) = escape::path_escape(text) {
        assert_eq!(escape::path_unescape(&escaped).ok(), escape::simplify_path(text));
    }
    let _ = (escape::unescape(text), escape::path_unescape(text), value::span(text));
    if let Ok(name) = UnitName::parse(text) {
        assert_eq!(UnitName::parse(name.as_str()), Ok(name.clone()));
        let _ = (name.template(), name.slice_parent(), name.dash_prefixes().count());
        if let Some(instance) = name.instance() {
            assert_eq!(name.with_instance(instance).as_ref(), Ok(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    /// A fixed sequence of numbers that looks random.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) as usize % bound
        }
    }

    const VALUES: &[&str] = &[
        "",
        "yes",
        "no",
        "1",
        "-1",
        "0",
        "infinity",
        "5s",
        "99999999999999999999",
        "50%",
        "10K:5",
        "a b",
        "\"",
        "'a\" b'",
        "\\x41 \\q \\",
        "%i%z",
        "%n",
        "%%",
        "%",
        "/a/b",
        "../x",
        "-/x y ; /z \\; q",
        "~",
        "@",
        "/",
        "[::1]:80",
        "vsock:1:2",
        "SIGTERM",
        "é😀",
        "a.service b@.socket",
        "CAP_KILL",
        "~CAP_X",
        "0-3,9",
        "|!/x",
        "A=b \"C=d e\"",
        "tty",
        "file:/x",
        "aGk=",
        "idle",
        "$A ${B}",
        "/dev/sda 5M",
    ];

    fn text(numbers: &mut Numbers) -> String {
        let mut out = String::new();
        for _ in 0..numbers.below(12) {
            if numbers.below(3) == 0 {
                let sections =
                    ["Unit", "Install", "Service", "Socket", "Mount", "X-Warren", "Slice", "Timer"];
                out.push_str(&format!("[{}]\n", sections[numbers.below(sections.len())]));
            }
            let setting = SETTINGS[numbers.below(SETTINGS.len())].name;
            let values =
                [numbers.below(VALUES.len()), numbers.below(VALUES.len())].map(|i| VALUES[i]);
            out.push_str(&format!("{setting}={}{}\n", values[0], values[1]));
        }
        out
    }

    #[test]
    fn made_up_files_do_no_harm() {
        let mut numbers = Numbers(7);
        for _ in 0..300 {
            unit_file(text(&mut numbers).as_bytes());
        }
    }

    #[test]
    fn every_setting_takes_every_value() {
        for unit_type in UnitType::ALL {
            let mut out = format!("[Unit]\n[{}]\n", unit_type.section());
            for setting in SETTINGS {
                for value in VALUES {
                    out.push_str(&format!("{}={value}\n", setting.name));
                }
            }
            for header in ["[Unit]\n", "[Service]\n"] {
                let (file, _) =
                    parse("x".into(), out.replacen("[Unit]\n", header, 1).as_bytes(), unit_type);
                let name = UnitName::parse(&format!("a@b.{unit_type}")).expect("a valid name");
                whole_unit(&name, &Arc::new(file));
            }
        }
    }

    #[test]
    fn made_up_bytes_do_no_harm() {
        let mut numbers = Numbers(3);
        for length in 0..400 {
            let bytes: Vec<u8> =
                (0..length).map(|_| b"[]=\\\n #;\"'%a/\xc3\xa9\0\r"[numbers.below(17)]).collect();
            unit_file(&bytes);
            name(&String::from_utf8_lossy(&bytes));
        }
    }
}
