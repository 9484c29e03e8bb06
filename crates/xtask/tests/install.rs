//! What `make install` does with a program: it is stripped, runs, and its symbols are where a back-trace finds them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use warren_testkit::Scratch;

#[test]
fn an_installed_program_is_stripped_and_its_symbols_are_beside_it() {
    let scratch = Scratch::new("install");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-program.sh");
    let program = Path::new(env!("CARGO_BIN_EXE_xtask"));
    // Twice: an old one is replaced.
    for _ in 0..2 {
        let status = Command::new("sh").arg(&script).arg(program).arg(scratch.path("bin")).status();
        assert!(status.expect("there is a shell").success());
    }
    let installed = scratch.path("bin/xtask");
    let size = |path: &Path| fs::metadata(path).expect("it is there").len();
    let debug = scratch.path("bin/.debug/xtask.debug");
    assert!(size(&installed) < size(program) / 2, "{} bytes", size(&installed));
    assert!(size(&debug) > size(&installed));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&installed), mode(&debug)), (0o755, 0o644));
    let help = Command::new(&installed).output().expect("it runs");
    assert!(String::from_utf8_lossy(&help.stdout).starts_with("Usage: cargo xtask"));
    assert_eq!(
        fs::read_dir(scratch.path("bin")).expect("a directory").count(),
        2,
        "nothing is left"
    );

    let read = |what: &str, path: &Path| {
        let output = Command::new("readelf").args([what, "--wide"]).arg(path).output();
        String::from_utf8_lossy(&output.expect("binutils are there").stdout).into_owned()
    };
    let sections = read("--sections", &installed);
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_line"), "{sections}");
    assert!(read("--string-dump=.gnu_debuglink", &installed).contains("xtask.debug"));
    assert!(read("--sections", &debug).contains(".debug_line"));
}
