//! Command lines (systemd.service(5), "COMMAND LINES").

use std::borrow::Cow;

use super::fault::Fault;
use super::words::{Words, split};
use crate::config::Command;

/// How many words one command can have.
pub const ARGUMENTS_MAX: usize = 8192;

/// The commands of one setting, separated by `;`. Specifiers are replaced in each word after
/// splitting, so that what they give is never split. A fault of a command with the prefix `-`
/// costs that command only (`Ok` with the faults); any other makes the unit unusable (`Err`).
pub fn commands<'t>(
    text: &'t str,
    expand: &dyn Fn(&str) -> Result<Cow<'_, str>, Fault>,
) -> Result<(Vec<Command>, Vec<Fault>), Fault> {
    let mut words = split(text);
    let (mut out, mut faults) = (Vec::new(), Vec::new());
    loop {
        let first = match words.next() {
            None => break,
            Some(first) => first?,
        };
        if first.1 == ";" {
            continue;
        }
        let lenient = prefixes(&first.1).0.ignore_failure;
        match one_command(first, &mut words, expand) {
            Ok(command) => out.push(command),
            Err(fault) if lenient => {
                faults.push(fault);
                skip_command(&mut words);
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok((out, faults))
}

fn skip_command(words: &mut Words<'_>) {
    while let Some(Ok((_, word))) = words.next() {
        if word == ";" {
            break;
        }
    }
}

type Expand<'a> = &'a dyn Fn(&str) -> Result<Cow<'_, str>, Fault>;

/// Also without `.` parts; those that are `..` stay, as they may lead through links.
fn without_doubled_slashes(program: &str) -> Box<str> {
    if !program.contains("//") && !program.contains("/./") {
        return program.into();
    }
    let parts = program.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.flat_map(|part| ["/", part]).collect::<String>().into()
}

fn one_command(
    (at, first): (usize, String),
    words: &mut Words<'_>,
    expand: Expand<'_>,
) -> Result<Command, Fault> {
    let (mut command, program) = prefixes(&first);
    let program = expand(program).map_err(|f| Fault::new(at, f.message))?;
    check_program(&program).map_err(|m| Fault::new(at, m))?;
    command.path = without_doubled_slashes(&program);
    let mut argv: Vec<Box<str>> = Vec::with_capacity(8);
    if !command.explicit_argv0 {
        argv.push(program.as_ref().into());
    }
    loop {
        match words.peek_raw() {
            "" => break,
            ";" => {
                words.skip_raw(1);
                break;
            }
            r"\;" => {
                words.skip_raw(2);
                argv.push(";".into());
                continue;
            }
            _ => {}
        }
        let (at, word) = words.next().expect("peeking showed a word")?;
        let word = expand(&word).map_err(|f| Fault::new(at, f.message))?;
        argv.push(word.as_ref().into());
        if argv.len() > ARGUMENTS_MAX {
            return Err(Fault::new(at, format!("more than {ARGUMENTS_MAX} arguments")));
        }
    }
    if argv.first().is_none_or(|zeroth| zeroth.is_empty()) {
        return Err(Fault::new(
            at,
            "after the prefix @, a second word must name the program (argv[0])",
        ));
    }
    command.argv = argv.into();
    Ok(command)
}

/// Reads the prefixes off the first word; each can stand once, and of `+`, `!` and `!!` one.
fn prefixes(word: &str) -> (Command, &str) {
    let mut command = Command {
        path: Box::default(),
        argv: Box::default(),
        ignore_failure: false,
        full_privileges: false,
        no_setuid: false,
        ambient_magic: false,
        no_expansion: false,
        explicit_argv0: false,
    };
    let mut rest = word;
    loop {
        let unprivileged = !(command.full_privileges || command.no_setuid || command.ambient_magic);
        let (flag, length) = match rest.as_bytes() {
            [b'-', ..] => (&mut command.ignore_failure, 1),
            [b'@', ..] => (&mut command.explicit_argv0, 1),
            [b':', ..] => (&mut command.no_expansion, 1),
            [b'+', ..] if unprivileged => (&mut command.full_privileges, 1),
            [b'!', b'!', ..] if unprivileged => (&mut command.ambient_magic, 2),
            [b'!', ..] if unprivileged => (&mut command.no_setuid, 1),
            _ => return (command, rest),
        };
        if *flag {
            return (command, rest);
        }
        *flag = true;
        rest = &rest[length..];
    }
}

fn check_program(program: &str) -> Result<(), String> {
    if program.is_empty() {
        return Err("the command names no program".to_owned());
    }
    if program.ends_with('/') {
        return Err(format!("'{program}' is a directory"));
    }
    let relative = !program.starts_with('/') && program.contains('/');
    if relative || program == "." || program == ".." || program.chars().any(char::is_control) {
        return Err(format!("'{program}' is neither an absolute path nor the name of a program"));
    }
    Ok(())
}

/// Whether this is a well-known bus name: two or more elements of letters, digits, `_` and `-`.
pub fn is_bus_name(name: &str) -> bool {
    let element = |e: &str| {
        !e.is_empty()
            && !e.starts_with(|c: char| c.is_ascii_digit())
            && e.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    name.len() <= 255 && name.contains('.') && name.split('.').all(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(word: &str) -> Result<Cow<'_, str>, Fault> {
        match word.strip_suffix("%z") {
            Some(_) => Err(Fault::new(0, "unknown specifier")),
            None => Ok(Cow::Owned(word.replace("%s", "a b"))),
        }
    }

    /// `program <flags> arg|arg ; ...`, then faults.
    fn check(text: &str, want: &str) {
        let got = match commands(text, &expand) {
            Err(f) => format!("! {} {}", f.offset, f.message),
            Ok((commands, faults)) => {
                let shown = commands.iter().map(show).collect::<Vec<_>>();
                let faults = faults.iter().map(|f| format!("({} {})", f.offset, f.message));
                shown.into_iter().chain(faults).collect::<Vec<_>>().join(" ; ")
            }
        };
        assert_eq!(got, want, "{text}");
    }

    fn show(c: &Command) -> String {
        let flags = [
            (c.ignore_failure, "-"),
            (c.explicit_argv0, "@"),
            (c.no_expansion, ":"),
            (c.full_privileges, "+"),
            (c.no_setuid, "!"),
            (c.ambient_magic, "!!"),
        ];
        let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
        format!("{flags}{}<{}>", c.path, c.argv.join("|"))
    }

    #[test]
    fn commands_are_read() {
        check("/bin/x", "/bin/x</bin/x>");
        check(r#"echo one ; echo "two two""#, "echo<echo|one> ; echo<echo|two two>");
        check(r"echo / >/dev/null & \; ls", "echo<echo|/|>/dev/null|&|;|ls>");
        check("echo ';' a", "echo<echo|;|a>");
        check("@-/bin/x y z", "-@/bin/x<y|z>");
        check("-:!!/bin/x %s", "-:!!/bin/x</bin/x|a b>");
        check("+/x $A", "+/x</x|$A>");
        check("/a ; ; ; /b ;", "/a</a> ; /b</b>");
        check("//usr//bin/x/./y a//b", "/usr/bin/x/y<//usr//bin/x/./y|a//b>");
        check("/../x", "/../x</../x>");
        check("", "");
        check(r#""/bin/tr ue" "a"'b'"#, "/bin/tr ue</bin/tr ue|ab>");
    }

    #[test]
    fn faults_cost_the_unit_unless_lenient() {
        check("a/b", "! 0 'a/b' is neither an absolute path nor the name of a program");
        check(
            "-a/b c ; /x",
            "/x</x> ; (0 'a/b' is neither an absolute path nor the name of a program)",
        );
        check("-", "(0 the command names no program)");
        check("@/bin/x", "! 0 after the prefix @, a second word must name the program (argv[0])");
        check("/bin/", "! 0 '/bin/' is a directory");
        check("++/x", "! 0 '+/x' is neither an absolute path nor the name of a program");
        check("+!/x", "! 0 '!/x' is neither an absolute path nor the name of a program");
        check("/x \"a b", "! 3 a quote is not closed: \"a b");
        check("/x %z", "! 3 unknown specifier");
        check("-/x %z", "(4 unknown specifier)");
    }

    #[test]
    fn bus_names() {
        for (name, want) in
            [("a.b", true), ("org.x-y._z", true), ("a", false), ("a..b", false), ("a.1", false)]
        {
            assert_eq!(is_bus_name(name), want, "{name}");
        }
    }
}
