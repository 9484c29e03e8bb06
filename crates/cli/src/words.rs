//! The command line as it is typed, before the table of [`crate::args`] is asked.

use std::ffi::OsString;

use clap::CommandFactory;
use warren_log_show::args::complete;

use crate::args::Cli;

/// The command line, with what the options of the command `logs` leave out put in; see
/// [`warren_log_show::args::complete`].
pub fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let Some(at) = place_of_command(&words).filter(|&at| words[at] == "logs") else {
        return words;
    };
    let options = words.split_off(at + 1);
    let text = options.into_iter().map(|word| word.to_string_lossy().into_owned());
    words.extend(complete(text).into_iter().map(OsString::from));
    words
}

/// Where the command is: behind the program's name and what comes before it of options.
fn place_of_command(words: &[OsString]) -> Option<usize> {
    let table = <Cli as CommandFactory>::command();
    let valued: Vec<&clap::Arg> =
        table.get_arguments().filter(|option| option.get_action().takes_values()).collect();
    // Whether the next word is its value: `--machine x` and `-qM x`, not `--machine=x` or `-Mx`.
    let takes_next = |word: &str| match word.strip_prefix("--") {
        Some(long) => valued.iter().any(|option| option.get_long() == Some(long)),
        None => {
            let is_valued = |c| valued.iter().any(|option| option.get_short() == Some(c));
            let letters = word.chars().skip(1);
            letters.clone().position(is_valued).is_some_and(|at| at + 1 == letters.count())
        }
    };
    let mut at = 1;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        match word.strip_prefix('-') {
            None => return Some(at),
            Some(_) => at += 1 + usize::from(takes_next(&word)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_logs_without_their_values() {
        let all =
            words(["warren", "-M", "x", "logs", "-b", "web", "-n"].map(OsString::from).into_iter());
        assert_eq!(
            all,
            ["warren", "-M", "x", "logs", "-b", "0", "web", "-n", "10"].map(OsString::from)
        );
        let of_others = [
            ["warren", "status", "logs", "-b"],
            ["warren", "enter", "logs", "-n"],
            ["warren", "-M", "logs", "-b"],
            ["warren", "--machine", "logs", "-b"],
            ["warren", "-qM", "logs", "-b"],
        ];
        for line in of_others {
            let line = line.map(OsString::from);
            assert_eq!(words(line.clone().into_iter()), line);
        }
        for options in [["-q", "--json"], ["-Mx", "--user"], ["-M", "logs"], ["--socket", "x"]] {
            let line = [&["warren"], &options[..], &["logs", "-b"]].concat();
            let all = words(line.iter().map(OsString::from));
            assert_eq!(all[3..], ["logs", "-b", "0"].map(OsString::from), "{options:?}");
        }
    }
}
