//! `--root`: the same steps by `warren` and by systemctl on two images; both must look the same
//! after each. The pure plans are compared step by step in `warren-unit`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use warren_testkit::Scratch;

/// An image that goes away with it.
struct Image(Scratch);

impl Image {
    /// A merged image, as distributions make them: `/lib` is a link.
    fn new(label: &str) -> Image {
        let image = Image(Scratch::new(&format!("image-{label}")));
        for (path, text) in [
            ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
            ("etc/systemd/system-preset/10.preset", "enable b.service\ndisable *\n"),
            (
                "usr/lib/systemd/system/a.service",
                "[Install]\nWantedBy=x.target\nAlias=al.service\n",
            ),
            ("usr/lib/systemd/system/b.service", "[Install]\nRequiredBy=on-%m.target\n"),
            ("usr/lib/systemd/system/t@.service", "[Install]\nWantedBy=x.target\n"),
            ("usr/lib/systemd/system/s.service", "[Service]\nExecStart=/bin/true\n"),
            ("usr/lib/systemd/system/u.service", "[Install]\nWantedBy=x.target\n"),
            ("usr/lib/systemd/system/x.target", "[Unit]\n"),
            ("opt/l.service", "[Install]\nWantedBy=x.target\n"),
        ] {
            image.write(path, text);
        }
        symlink("usr/lib", image.0.join("lib")).expect("a link can be made");
        fs::create_dir_all(image.0.join("etc/systemd/system")).expect("a directory can be made");
        image.link("etc/systemd/system/other-name.service", "/opt/l.service");
        // By the path that is not searched first.
        let unit = "/usr/lib/systemd/system/u.service";
        image.link("etc/systemd/system/x.target.wants/u.service", unit);
        image.link("etc/systemd/system/u-other.service", unit);
        image
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        symlink(target, path).expect("a link can be made");
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        fs::write(path, text).expect("a file can be written");
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(program);
        let root = format!("--root={}", self.0.display());
        let (verb, rest) = arguments.split_first().expect("a verb");
        let out = command.arg(verb).arg(root).args(rest).env("LC_ALL", "C").output();
        let out = out.expect("it was there before");
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Every link with its target.
    fn links(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.links_below(&self.0, &mut found);
        found.sort();
        found
    }

    fn links_below(&self, directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).expect("it can be listed").flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("a type is known");
            if kind.is_symlink() {
                let target = fs::read_link(&path).expect("a link can be read");
                let inside = path.strip_prefix(&self.0).expect("it is below");
                found.push(format!("{} -> {}", inside.display(), target.display()));
            } else if kind.is_dir() {
                self.links_below(&path, found);
            }
        }
    }
}

const WARREN: &str = env!("CARGO_BIN_EXE_warren");

#[test]
fn an_image_is_changed_as_systemctl_changes_it() {
    if !Command::new("systemctl").arg("--version").output().is_ok_and(|out| out.status.success()) {
        warren_testkit::not_run("there is no systemctl");
        return;
    }
    let (ours, theirs) = (Image::new("ours"), Image::new("theirs"));
    for arguments in [
        &["is-enabled", "u.service", "u-other.service"][..],
        &["enable", "u.service"],
        &["enable", "a.service"],
        &["enable", "a.service"],
        &["enable", "t@one.service", "b.service"],
        &["is-enabled", "a.service", "t@one.service", "s.service", "al.service"],
        &["mask", "s.service"],
        &["enable", "s.service"],
        &["is-enabled", "s.service"],
        &["unmask", "s.service"],
        &["link", "/opt/l.service"],
        &["enable", "l.service"],
        &["is-enabled", "l.service"],
        &["is-enabled", "other-name.service"],
        &["preset", "a.service", "b.service"],
        &["disable", "t@one.service", "l.service"],
        &["enable", "--runtime", "a.service"],
        &["reenable", "a.service"],
        &["preset-all"],
        &["is-enabled", "b.service"],
        &["enable", "none.service"],
        &["preset", "none.service"],
        &["mask", "a.service"],
        &["preset", "a.service", "b.service"],
        &["preset-all"],
    ] {
        let own: Vec<&str> = match arguments {
            ["preset-all"] => vec!["preset", "--all"],
            other => other.to_vec(),
        };
        let (our_end, our_words) = ours.run(WARREN, &own);
        let (their_end, their_words) = theirs.run("systemctl", arguments);
        assert_eq!(our_end, their_end, "{arguments:?}");
        if arguments[0] == "is-enabled" {
            assert_eq!(our_words, their_words, "{arguments:?}");
        }
        assert_eq!(ours.links(), theirs.links(), "{arguments:?}");
    }
}

#[test]
fn a_preset_for_all_does_the_rest_where_one_alias_is_taken() {
    let image = Image::new("taken");
    let units = image.0.join("usr/lib/systemd/system");
    for name in ["dm-one.service", "dm-two.service"] {
        let text = "[Service]\nExecStart=/bin/true\n[Install]\nAlias=dm.service\n";
        fs::write(units.join(name), text).expect("a file can be written");
    }
    fs::create_dir_all(image.0.join("etc/systemd/system-preset")).expect("it can be made");
    fs::write(image.0.join("etc/systemd/system-preset/1.preset"), "enable *\n").expect("written");
    let (is_well, _) = image.run(WARREN, &["preset", "--all"]);
    let links = image.links();
    assert!(!is_well, "one of two could not have the alias");
    for link in ["dm.service", "x.target.wants/a.service"] {
        let begin = format!("etc/systemd/system/{link} -> ");
        assert!(links.iter().any(|row| row.starts_with(&begin)), "{link}: {links:?}");
    }
}

/// Whoever lets the policies of a host decide does not open its log to everybody.
#[test]
fn what_shows_the_log_to_others_is_not_enabled_by_installing_it() {
    let image = Image::new("installed");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::remove_file(image.0.join("etc/systemd/system-preset/10.preset")).expect("it is there");
    for (from, to) in
        [("units", "usr/lib/systemd/system"), ("presets", "usr/lib/systemd/system-preset")]
    {
        let list = |directory: &Path| fs::read_dir(directory).expect("it can be listed").flatten();
        let mut places: Vec<_> = list(&top.join(from)).map(|entry| entry.path()).collect();
        while let Some(place) = places.pop() {
            if place.is_dir() {
                places.extend(list(&place).map(|entry| entry.path()));
                continue;
            }
            let name = place.strip_prefix(top.join(from)).expect("it is below").display();
            image.write(&format!("{to}/{name}"), &fs::read_to_string(&place).expect("text"));
        }
    }
    let (is_well, _) = image.run(WARREN, &["preset", "--all"]);
    let links = image.links();
    assert!(
        is_well && links.iter().any(|row| row.contains("x.target.wants/a.service")),
        "{links:?}"
    );
    assert!(
        !links.iter().any(|row| row.contains("warren-journal") || row.contains("warren-exporter")),
        "{links:?}"
    );
    let name = "warren-journal-gatewayd.socket";
    assert_eq!(image.run(WARREN, &["is-enabled", name]).1.trim(), "disabled", "it is known");
    assert!(image.run(WARREN, &["enable", name]).0);
}

#[test]
fn what_one_unit_lacks_keeps_the_others_from_nothing() {
    let image = Image::new("left-out");
    for unit in ["log1", "log2"] {
        let text = "[Install]\nWantedBy=x.target\nAlias=log.service\n";
        image.write(&format!("usr/lib/systemd/system/{unit}.service"), text);
    }
    assert!(image.run(WARREN, &["enable", "log1.service"]).0);
    let (is_well, said) =
        image.run(WARREN, &["enable", "--json", "b.service", "log2.service", "u.service"]);
    assert!(!is_well && said.contains("x.target.wants/log2.service"), "{said}");
    assert!(said.contains("/b.service"), "{said}");
    let links = image.links();
    let alias = links.iter().find(|row| row.starts_with("etc/systemd/system/log.service "));
    assert!(alias.is_some_and(|row| row.ends_with("/log1.service")), "{links:?}");
}

#[test]
fn what_was_changed_before_a_failure_is_printed() {
    let image = Image::new("halfway");
    image.write("usr/lib/systemd/system/both.service", "[Install]\nWantedBy=y.target z.target\n");
    // No directory can be made there.
    image.write("etc/systemd/system/z.target.wants", "");
    let (is_well, said) = image.run(WARREN, &["enable", "--json", "both.service"]);
    let path = "/etc/systemd/system/y.target.wants/both.service";
    assert!(!is_well && said.contains(path) && !said.contains("z.target.wants"), "{said}");
    assert!(image.links().iter().any(|row| row.starts_with(&path[1..])));
}

#[test]
fn what_an_image_lacks_is_said() {
    let image = Image::new("lacks");
    image.write(
        "usr/lib/systemd/system/w.service",
        "[Install]\nWantedBy=x.target\nAlso=no.service\n",
    );
    let (is_well, said) = image.run(WARREN, &["enable", "--json", "w.service"]);
    let remark = "Failed to enable auxiliary unit no.service, ignoring.";
    assert!(is_well && said.contains(remark), "{said}");
}

#[test]
fn links_of_an_image_lead_nowhere_out_of_it() {
    let image = Image::new("hostile");
    let outside = Image::new("outside");
    let etc = image.0.join("etc/systemd");
    fs::remove_dir_all(&etc).expect("it is there");
    symlink(outside.0.join("etc/systemd"), &etc).expect("a link can be made");
    let before = outside.links();
    // The link's target is looked for inside, where nothing is.
    let (_, _) = image.run(WARREN, &["enable", "a.service"]);
    assert_eq!(outside.links(), before);
}
