//! The language of services (locale.conf(5), kernel-command-line(7)).

use std::path::Path;

use warren_unit::value::environment_file;

use crate::base::environment::Variables;

/// locale.conf(5), "OPTIONS".
const NAMES: [&str; 14] = [
    "LANG",
    "LANGUAGE",
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
];

/// The first that is there counts: the second is where Debian 12 keeps it.
pub(crate) const FILES: [&str; 2] = ["/etc/locale.conf", "/etc/default/locale"];

/// What services have where nothing is said: characters are UTF-8, and no language is chosen. systemd 252 of Debian 12
/// does the same.
const BUILT_IN: (&str, &str) = ("LANG", "C.UTF-8");

/// What `locale.LANG=` and its like say among these words; where none does, what a file says.
pub(crate) fn variables(boot_options: &[String], files: &[&Path]) -> Variables {
    let said = boot_options.iter().filter_map(|word| word.strip_prefix("locale."));
    let said = collect(said.filter_map(|word| word.split_once('=')));
    if !said.is_empty() {
        return said;
    }
    let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let pairs = environment_file(&text);
    let said = collect(pairs.iter().map(|(name, value)| (&**name, &**value)));
    if said.is_empty() { collect([BUILT_IN].into_iter()) } else { said }
}

fn collect<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Variables {
    let known = pairs.filter(|(name, value)| NAMES.contains(name) && !value.is_empty());
    known.map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn a_file_counts_where_the_kernel_was_told_nothing() {
        let scratch = Scratch::new("locale");
        let [first, second] = ["a", "b"].map(|name| scratch.0.join(name));
        let read = |options: &[&str]| -> Vec<String> {
            let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
            let found = variables(&options, &[&first, &second]).into_iter();
            found.map(|(name, value)| format!("{name}={value}")).collect()
        };
        assert_eq!(read(&["quiet"]), ["LANG=C.UTF-8"]);
        std::fs::write(&first, "# nothing\n").expect("a file");
        assert_eq!(read(&[]), ["LANG=C.UTF-8"]);
        std::fs::remove_file(&first).expect("it is there");
        std::fs::write(&second, "LANG=it_IT.UTF-8\n").expect("a file");
        assert_eq!(read(&[]), ["LANG=it_IT.UTF-8"]);
        std::fs::write(&first, "LANG=\"de_DE.UTF-8\"\nLC_ALL=C\nX=1\nLC_TIME=C\n").expect("a file");
        assert_eq!(read(&[]), ["LANG=de_DE.UTF-8", "LC_TIME=C"]);
        assert_eq!(read(&["locale.LC_PAPER=x", "locale.LC_ALL=x", "locale.X=1"]), ["LC_PAPER=x"]);
    }
}
