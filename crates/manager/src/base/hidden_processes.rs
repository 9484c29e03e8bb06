//! Whether users may see the processes of others: an administrator hides them by how /proc is mounted (proc(5),
//! `hidepid=`), and the manager, which sees all, is not to show them.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// Whether /proc hides from users what processes of others do.
pub(crate) fn are_hidden() -> bool {
    File::open("/proc/self/mounts").is_ok_and(|file| is_hiding(BufReader::new(file)))
}

fn is_hiding(mounts: impl BufRead) -> bool {
    let options_of_proc = |line: String| {
        let mut words = line.split(' ').skip(1);
        let is_proc = words.next() == Some("/proc") && words.next() == Some("proc");
        is_proc.then(|| words.next().unwrap_or_default().to_owned())
    };
    // The last one lies over the others.
    let options = mounts.lines().map_while(Result::ok).filter_map(options_of_proc).last();
    let options = options.unwrap_or_default();
    let mode = options.split(',').find_map(|option| option.strip_prefix("hidepid="));
    mode.is_some_and(|mode| !matches!(mode, "0" | "off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_how_proc_is_mounted() {
        let check = |options: &str, expected: bool| {
            let mounts = format!(
                "proc /proc proc rw,hidepid=2 0 0\nproc /srv/proc proc rw,hidepid=2 0 0\nproc /proc proc {options} 0 0\n\
                 tmpfs /proc/x tmpfs rw 0 0\n"
            );
            assert_eq!(is_hiding(mounts.as_bytes()), expected, "{options}");
        };
        check("rw,nosuid", false);
        check("rw,hidepid=0", false);
        check("rw,hidepid=off", false);
        for mode in ["1", "2", "4", "noaccess", "invisible", "ptraceable"] {
            check(&format!("rw,hidepid={mode},gid=3"), true);
        }
        assert!(!is_hiding(&b""[..]));
    }
}
