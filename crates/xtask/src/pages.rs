//! What the pages lead to: each link to a place that is there, each page from the table of contents, each command of
//! `warren` to one that it has.
//!
//! Must not: run a command, ask the network, or change a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser as _;
use clap::error::ErrorKind;
use warren_cli::args::Cli;

use crate::command::root;

/// Where the book is, and its table of contents.
const BOOK: &str = "docs/src";
const CONTENTS: &str = "docs/src/SUMMARY.md";

/// What ends a command in a line for a shell: two spaces stand before what it is for.
const ENDS: [&str; 9] = ["  ", " | ", " > ", " >> ", " && ", " || ", "; ", " # ", " <"];

/// Fails when a page leads to nothing.
pub fn check() -> Result<()> {
    let pages = pages()?;
    let (mut faults, mut links, mut commands) = (Vec::new(), 0, 0);
    for (page, text) in &pages {
        let parts = Parts::of(text);
        for link in parts.links() {
            links += 1;
            if let Err(why) = lead(page, &link, &pages) {
                faults.push(format!("{page}: {link}: {why}"));
            }
        }
        for command in parts.commands() {
            commands += 1;
            if let Err(why) = is_known(&command) {
                faults.push(format!("{page}: {command}: {why}"));
            }
        }
    }
    faults.extend(unlisted(&pages).map(|page| format!("{page}: not in {CONTENTS}")));
    ensure!(faults.is_empty(), "pages lead to nothing:\n  {}", faults.join("\n  "));
    println!("pages: {} with {links} links and {commands} commands", pages.len());
    Ok(())
}

/// All pages by their paths from the root.
fn pages() -> Result<BTreeMap<String, String>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut directories = vec![root(), root().join(BOOK)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() && path.starts_with(root().join(BOOK)) {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(root())?.to_string_lossy().into_owned();
        Ok((name, text))
    };
    paths.into_iter().map(read).collect()
}

/// Pages of the book that its table of contents does not have.
fn unlisted(pages: &BTreeMap<String, String>) -> impl Iterator<Item = &String> {
    let listed: Vec<String> = pages
        .get(CONTENTS)
        .map(|text| Parts::of(text).links().iter().map(|link| format!("{BOOK}/{link}")).collect())
        .unwrap_or_default();
    pages.keys().filter(move |page| {
        page.starts_with(BOOK) && page.as_str() != CONTENTS && !listed.contains(page)
    })
}

/// A page without its code, and its code.
struct Parts {
    /// Paragraphs, each on one line, with inline code in its backticks.
    paragraphs: Vec<String>,
    /// Lines of blocks for a shell; those that go on are joined.
    shell: Vec<String>,
    /// Headings.
    headings: Vec<String>,
}

impl Parts {
    fn of(text: &str) -> Parts {
        let mut parts =
            Parts { paragraphs: vec![String::new()], shell: Vec::new(), headings: Vec::new() };
        let (mut fence, mut goes_on): (Option<String>, bool) = (None, false);
        for line in text.lines() {
            let is_fence = line.trim_start().starts_with("```");
            match (&fence, is_fence) {
                // Behind the language stands what a test does with the block.
                (None, true) => {
                    let info = line.trim().trim_matches('`');
                    fence = Some(info.split(' ').next().unwrap_or_default().to_owned());
                }
                (Some(_), true) => fence = None,
                (Some(language), false) if ["", "sh", "console"].contains(&language.as_str()) => {
                    let (own, more) = match line.strip_suffix('\\') {
                        Some(own) => (own, true),
                        None => (line, false),
                    };
                    match parts.shell.last_mut().filter(|_| goes_on) {
                        Some(last) => last.push_str(own.trim_start()),
                        None => parts.shell.push(own.to_owned()),
                    }
                    goes_on = more;
                }
                (Some(_), false) => {}
                (None, false) if line.starts_with('#') => {
                    parts.headings.push(line.trim_start_matches('#').trim().to_owned());
                    parts.paragraphs.push(String::new());
                }
                // Each row of a table and each item of a list has its own.
                (None, false)
                    if line.is_empty() || line.trim_start().starts_with(['|', '-', '*']) =>
                {
                    parts.paragraphs.push(line.to_owned());
                }
                (None, false) => {
                    let last = parts.paragraphs.last_mut().expect("there is one from the begin");
                    last.push(' ');
                    last.push_str(line.trim());
                }
            }
        }
        parts
    }

    /// Where links lead, those of pictures too.
    fn links(&self) -> Vec<String> {
        let without_code = |paragraph: &String| -> String {
            paragraph.split('`').step_by(2).collect::<Vec<_>>().join("``")
        };
        let mut out = Vec::new();
        for paragraph in self.paragraphs.iter().map(without_code) {
            let mut rest = paragraph.as_str();
            while let Some((_, behind)) = rest.split_once("](") {
                let Some((link, behind)) = behind.split_once(')') else { break };
                out.push(link.to_owned());
                rest = behind;
            }
        }
        out
    }

    /// Commands of `warren` in blocks and in running text.
    fn commands(&self) -> Vec<String> {
        let lines = self.shell.iter().map(|line| {
            let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
            let end = ENDS.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
            line[..end].to_owned()
        });
        let inline = self.paragraphs.iter().flat_map(|paragraph| {
            paragraph.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        });
        lines.chain(inline).filter(|line| line.starts_with("warren ")).collect()
    }
}

/// The anchor of a heading, as mdBook and others make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Whether a link of a page leads somewhere.
fn lead(page: &str, link: &str, pages: &BTreeMap<String, String>) -> Result<(), String> {
    if link.starts_with("http://") || link.starts_with("https://") || link.starts_with("mailto:") {
        return Ok(());
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&Path::new(page).parent().unwrap_or(Path::new("")).join(file)),
    };
    if !root().join(&target).exists() {
        return Err("there is no such file".to_owned());
    }
    // A page of the book that leads out of it leads nowhere on the site.
    if heading.is_empty() {
        return Ok(());
    }
    let has_it = pages
        .get(&target)
        .is_some_and(|text| Parts::of(text).headings.iter().any(|known| anchor(known) == heading));
    has_it.then_some(()).ok_or_else(|| format!("{target} has no such heading"))
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = out.pop(),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

/// Words of a line, as a shell splits plain ones.
fn words(line: &str) -> Vec<String> {
    let (mut out, mut word, mut quote): (Vec<String>, Option<String>, Option<char>) =
        (Vec::new(), None, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => out.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

/// Whether `warren` has this command with these options. What stands for something, as `UNIT`, may be missing or wrong.
fn is_known(line: &str) -> Result<(), String> {
    let words = words(line);
    // A part of a command, or one that goes on.
    if words.iter().any(|word| word.contains("...") || word.contains('\u{2026}')) {
        return Ok(());
    }
    let Err(error) = Cli::try_parse_from(&words) else { return Ok(()) };
    let is_wrong = matches!(
        error.kind(),
        ErrorKind::UnknownArgument
            | ErrorKind::InvalidSubcommand
            | ErrorKind::ArgumentConflict
            | ErrorKind::TooManyValues
    );
    match is_wrong {
        true => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page, with `code`
See [here](other.md#a-b) and `warren why UNIT`, [not `this](x.md)`].

```sh run exits=1
$ warren list --failed | head
warren stop a \\
  b   # both
echo warren x
```

| `warren --no-such` | ![p](p.png) |
";

    #[test]
    fn links_and_commands_are_found_and_code_is_no_link() {
        let parts = Parts::of(PAGE);
        assert_eq!(parts.links(), ["other.md#a-b", "p.png"]);
        let expected =
            ["warren list --failed", "warren stop a b", "warren why UNIT", "warren --no-such"];
        assert_eq!(parts.commands().iter().map(|c| c.trim()).collect::<Vec<_>>(), expected);
        assert_eq!(anchor(&parts.headings[0]), "a-page-with-code");
    }

    #[test]
    fn commands_that_there_are_not_are_faults() {
        for line in
            ["warren why UNIT", "warren list --failed", "warren -M NAME status", "warren fleet"]
        {
            assert_eq!(is_known(line), Ok(()), "{line}");
        }
        for line in ["warren lsit", "warren list --no-such", "warren fleet chekc"] {
            assert!(is_known(line).is_err(), "{line}");
        }
        assert_eq!(words("a 'b c' \"\" d"), ["a", "b c", "", "d"]);
    }

    #[test]
    fn links_lead_from_where_they_stand() {
        let pages =
            BTreeMap::from([("docs/src/design.md".to_owned(), "# A  b\n## C\n".to_owned())]);
        let check = |link: &str| lead("docs/src/howto/why.md", link, &pages).is_ok();
        assert!(check("../design.md") && check("../design.md#c") && check("https://example.org/x"));
        assert!(!check("design.md") && !check("../design.md#d") && !check("../../no.md"));
    }
}
