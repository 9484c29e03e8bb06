//! Everything CI runs, in the order in which it fails fastest.

use anyhow::{Context, Result};

use crate::command::{cargo, cargo_with};
use crate::test_programs::{self, TestProgram};
use crate::{docs, named_tests, not_run, order, pages, purity};

/// Programs of tests that run at once, and threads of each: they start processes of their own, and machines with two
/// cores must do.
const AT_ONCE: (usize, usize) = (2, 3);

/// The same of packages whose tests kill programs at any instant, or follow files that come and go: beside others each
/// step takes longer, and what is given up after so many deaths is given up more often.
const ALONE: (usize, usize) = (1, 4);
const RUN_ALONE: [&str; 2] = ["warren-log-daemon", "warren-manager"];

/// Format, lints, purity, order.
pub fn quick() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    purity::check()?;
    order::check()?;
    named_tests::check()?;
    pages::check()?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Licences, sources and bans of all crates, by cargo-deny (`deny.toml`), and advisories if asked for: those are
/// fetched from github.com, which not every machine reaches, and change without a change here.
pub fn deny(with_advisories: bool) -> Result<()> {
    let advisories = with_advisories.then_some("advisories");
    let kinds = ["bans", "licenses", "sources"].into_iter().chain(advisories);
    let words = ["deny", "--locked", "--all-features", "check", "--hide-inclusion-graph"];
    cargo(&words.into_iter().chain(kinds).collect::<Vec<_>>())
        .context("see deny.toml; `sh scripts/tools.sh deny` installs cargo-deny")
}

/// All of it.
pub fn everything() -> Result<()> {
    quick()?;
    docs::check()?;
    // Tests of whole programs find them in the target directory.
    cargo(&["build", "--locked", "--workspace", "--bins"])?;
    // Not --all-targets: that would leave out the examples which tests run, and run the benches.
    let list = not_run::begin()?;
    let path = list.to_str().context("the path of the workspace is text")?;
    let variables = [(warren_testkit::NOT_RUN_VARIABLE, path)];
    let is_alone = |program: &TestProgram| RUN_ALONE.contains(&program.package.as_str());
    let (alone, others): (Vec<_>, Vec<_>) =
        test_programs::build(&["--workspace"])?.into_iter().partition(is_alone);
    // Each, whatever the one before says.
    let others = test_programs::run(&others, AT_ONCE, &variables);
    let alone = test_programs::run(&alone, ALONE, &variables);
    let passed = others.and(alone).and(cargo(&["test", "--locked", "--workspace", "--doc"]));
    let all_run = not_run::check(&list);
    passed.and(all_run)?;
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo_with(&["doc", "--locked", "--workspace", "--no-deps", "--lib"], &strict)?;
    println!("\nEverything passed.");
    Ok(())
}
