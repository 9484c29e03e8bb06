//! Small crates as text: what uses what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{circles, names, rooms, source};

/// Reads a crate written as `--- FILE` and its text; its roots are lib.rs, or main.rs.
fn crate_of(text: &str) -> source::Source {
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for part in text.split("--- ").skip(1) {
        let (name, body) = part.split_once('\n').unwrap();
        files.insert(Path::new("src").join(name.trim()), body.to_owned());
    }
    let roots = ["src/lib.rs", "src/main.rs"].map(PathBuf::from);
    let roots: Vec<PathBuf> = roots.into_iter().filter(|root| files.contains_key(root)).collect();
    source::read(Path::new("src"), &roots, &|path| Ok(files.get(path).cloned())).unwrap()
}

/// Checks the arrows of a crate, as `FROM TO` without `.rs`.
#[track_caller]
fn check(text: &str, arrows: &[&str]) {
    let source = crate_of(text);
    let stem = |file: &str| file.trim_end_matches(".rs").to_owned();
    let mut found: Vec<String> = source
        .arrows
        .iter()
        .map(|arrow| format!("{} {}", stem(&arrow.from), stem(&arrow.to)))
        .collect();
    found.dedup();
    assert_eq!(found, arrows, "{text}");
}

#[test]
fn paths_lead_to_the_files_of_their_modules() {
    let files = "--- lib.rs\nmod a; mod b;\n--- b.rs\npub mod c; pub struct B;\n--- b/c.rs\npub struct C; pub fn f() {}\n";
    for (a, arrows) in [
        ("use crate::b::c::C;", &["a b/c"][..]),
        ("use crate::b::{B, c::{self, C}};", &["a b", "a b/c"]),
        ("use super::b::B;", &["a b"]),
        ("fn f() { crate::b::c::f() }", &["a b/c"]),
        ("use crate::b; fn f() { b::c::f() }", &["a b", "a b/c"]),
        ("use crate::b::c as other; fn f(_: other::C) {}", &["a b/c"]),
        ("fn f() { use crate::b; let _ = b::B; }", &["a b"]),
        ("fn f() { println!(\"{}\", crate::b::c::f()) }", &["a b/c"]),
        ("mod inner { use super::super::b::B; }", &["a b"]),
        ("mod inner { pub use self::x::X; mod x { pub struct X; } }", &[]),
        ("use std::fmt; use serde::b::B;", &[]),
        ("fn f(b: u32) -> u32 { b }", &[]),
        ("pub(crate) struct A;", &[]),
    ] {
        check(&format!("{files}--- a.rs\n{a}\n"), arrows);
    }
}

#[test]
fn folders_with_mod_rs_and_stated_paths_are_read() {
    check(
        "--- main.rs\nmod a; #[path = \"other/d.rs\"] mod d;\n--- a/mod.rs\nmod b;\nuse b::f;\n--- a/b.rs\npub fn f() { super::super::d::g() }\n\
         --- other/d.rs\npub fn g() { crate::a::b::f() }\n",
        &["a/b other/d", "a/mod a/b", "other/d a/b"],
    );
}

#[test]
fn what_only_tests_have_is_left_out() {
    check(
        "--- lib.rs\nmod a; mod b;\n--- b.rs\n\n--- a.rs\n#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)] mod tests { use crate::b::B; }\n\
         #[cfg(all(test, unix))] fn g() { crate::b::f() }\nimpl X { #[cfg(test)] fn f() { crate::b::f() } }\n#[cfg(test)] mod others;\n",
        &[],
    );
    check(
        "--- lib.rs\nmod a; mod b;\n--- b.rs\n\n--- a.rs\n#[cfg(not(test))]\nuse crate::b::B;\n",
        &["a b"],
    );
}

#[test]
fn reexports_are_followed_to_the_file_behind_them() {
    let files = "--- lib.rs\nmod a; mod b; pub use b::c::C;\n--- b.rs\nmod c; pub use c::C; pub use c::deep::*;\npub struct B;\n\
                 --- b/c.rs\npub mod deep; pub struct C;\n--- b/c/deep.rs\npub struct Deep;\n";
    for (a, arrow) in [
        ("use crate::C;", "a b/c"),
        ("use crate::b::C;", "a b/c"),
        ("use crate::b::Deep;", "a b/c/deep"),
        ("use crate::b::B;", "a b"),
        ("use crate::unknown;", "a lib"),
    ] {
        check(&format!("{files}--- a.rs\n{a}\n"), &[arrow, "b b/c", "b b/c/deep"]);
    }
}

#[test]
fn an_arrow_up_is_a_fault() {
    let source = crate_of(
        "--- lib.rs\nmod base; mod top; use top::run;\n--- base.rs\nmod clock; use crate::top::Late;\n--- base/clock.rs\n\n\
         --- top.rs\nuse crate::base::Now;\n",
    );
    let up = "src/base.rs:1: base uses crate::top::Late, but top stands above it";
    for (order, faults) in [
        ("base what all use\ntop\nlib\n", &[up][..]),
        (
            "# none\nbase/clock\ntop\nbase\nlib",
            &["src/top.rs:1: top uses crate::base::Now, but base stands above it"],
        ),
        ("base+top\nlib", &[]),
        ("base\nlib", &["top.rs is in no room of rooms.txt"]),
        ("base\nother\ntop\nlib", &["rooms.txt: other has no files", up]),
    ] {
        assert_eq!(rooms::faults(order, &source), faults, "{order}");
    }
    assert_eq!(rooms::proposal(&source), "base+top\nlib\n");
}

#[test]
fn a_type_has_methods_in_the_room_that_owns_it_alone() {
    let source = crate_of(
        "--- lib.rs\nmod base; mod top;\n--- base.rs\npub struct A; pub struct B;\nimpl B {}\n\
         impl crate::base::A {}\n--- top.rs\nmod more; use crate::base::A;\nimpl A {}\n\
         --- top/more.rs\nimpl Clone for super::A { fn clone(&self) -> Self { A } }\n\
         #[cfg(test)] mod tests { impl super::B {} }\n",
    );
    for (rule, faults) in [
        ("impl B base", &[][..]),
        ("impl A top what it does", &["src/base.rs:3: impl A stands outside top"]),
        (
            "impl A base",
            &[
                "src/top.rs:2: impl A stands outside base",
                "src/top/more.rs:1: impl A stands outside base",
            ],
        ),
        ("impl C base", &["rooms.txt: no file has an impl of C"]),
        ("# impl A base", &[]),
    ] {
        assert_eq!(rooms::faults(&format!("base\ntop\nlib\n{rule}\n"), &source), faults, "{rule}");
    }
}

#[test]
fn circles_are_found_through_other_files() {
    let source = crate_of(
        "--- lib.rs\nmod a; mod b; mod c; mod d; mod e; use a::A;\n--- a.rs\nuse crate::b::B;\n--- b.rs\nuse crate::c::C;\n\
         --- c.rs\nuse crate::a::A; use crate::d::D;\n--- d.rs\nuse crate::e::E;\n--- e.rs\nuse crate::d::D;\n",
    );
    assert_eq!(circles::of(&source), [vec!["a.rs", "b.rs", "c.rs"], vec!["d.rs", "e.rs"]]);
}

#[test]
fn pure_crates_name_nothing_impure() {
    for (code, found) in [
        ("use std::fs;", "1: a pure crate names std::fs"),
        ("use std::{fmt, thread::{self, Builder}};", "1: a pure crate names std::thread"),
        ("fn f() { std::process::exit(1) }", "1: a pure crate names std::process::exit"),
        (
            "use std::time; fn f() { time::Instant::now(); }",
            "1: a pure crate names std::time::Instant::now",
        ),
        ("use std as s;\nfn f() { s::env::args(); }", "1: a pure crate names std"),
        ("use std::sync as y; type M = y::Mutex<u8>;", "1: a pure crate names std::sync::Mutex"),
        ("fn f() { println!(\"x\") }", "1: a pure crate names println!"),
        (
            "fn f() { assert!(std::fs::exists(\"/\").unwrap()) }",
            "1: a pure crate names std::fs::exists",
        ),
        ("use std::time::Duration; use std::sync::Arc; use std::net::Ipv4Addr;", ""),
        ("#[cfg(test)] use std::fs;", ""),
        ("mod fs { pub fn read() {} } fn f() { fs::read() }", ""),
    ] {
        let source = crate_of(&format!("--- lib.rs\n{code}\n"));
        let faults = names::faults("core", &source);
        let first =
            faults.first().map_or("", |fault| fault.trim_start_matches("crates/core/src/lib.rs:"));
        assert_eq!(first, found, "{code}");
        assert!(names::faults("manager", &source).is_empty());
    }
}

#[test]
fn one_crate_alone_opens_sessions_of_pam() {
    for code in [
        "use warren_sys::pam;",
        "use warren_sys::{child, pam::Session};",
        "fn f() { warren_sys::pam::f() }",
    ] {
        let source = crate_of(&format!("--- lib.rs\n{code}\n"));
        for folder in ["manager", "init", "core"] {
            let fault =
                format!("crates/{folder}/src/lib.rs:1: only crates/pam may name warren_sys::pam");
            assert!(names::faults(folder, &source).contains(&fault), "{code}");
        }
        assert!(names::faults("pam", &source).is_empty());
    }
    let other = crate_of("--- lib.rs\nuse warren_sys::pamphlet; use warren_sys::passwd;\n");
    assert!(names::faults("manager", &other).is_empty());
}
