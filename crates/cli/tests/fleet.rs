//! `warren fleet` and `warren icinga` as programs, without a manager.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use warren_testkit::Scratch;

/// What the host's own Icinga would load with any configuration.
const NO_MORE_FILES: &[&str] =
    &["-D", "Configuration.ZonesDir=none", "-D", "Configuration.DataDir=none"];

/// A directory of rules of this test alone, removed at the end.
struct Rules(Scratch);

impl Rules {
    fn new(test: &str, files: &[(&str, &str)]) -> Rules {
        let path = Scratch::new(&format!("rules-{test}"));
        for (name, text) in files {
            std::fs::write(path.join(name), text).expect("it can be written");
        }
        Rules(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// Runs the command in the directory; what it printed, what it complained of, its status.
    fn warren(&self, arguments: &str, input: &str) -> String {
        use std::io::Write;
        let mut child = Command::new(env!("CARGO_BIN_EXE_warren"))
            .args(arguments.split(' '))
            .args(if arguments.starts_with("icinga ") { NO_MORE_FILES } else { &[] })
            .current_dir(&self.0)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        format!("{out}{err}= {}", output.status.code().unwrap_or(-1))
    }

    #[track_caller]
    fn check(&self, arguments: &str, expected: &str) {
        assert_eq!(self.warren(arguments, ""), expected, "{arguments}");
    }
}

const GOOD: &str = "\
object Container \"shop\" { vars.size = 2 }
apply Service \"web\" to Container {
  ExecStart = \"/bin/web\"
  assign where container.vars.size > 1
}
";

#[test]
fn rules_are_checked() {
    let rules = Rules::new("check", &[("a.conf", GOOD)]);
    rules.check("fleet check .", "The rules make 1 unit file: 1 service.\n= 0");
    rules.check("fleet check . --json", "{\"made\":{\"service\":1},\"format\":1}\n= 0");
    let rules = Rules::new("faulty", &[("a.conf", GOOD), ("b.conf", "x = \n")]);
    let said = rules.warren("fleet check .", "");
    assert!(
        said.starts_with("error: ") && said.contains("./b.conf:1:5") && said.ends_with("= 1"),
        "{said}"
    );
    let said = rules.warren("fleet check . --json", "");
    assert!(said.contains("\"path\":\"./b.conf\",\"line\":1,\"column\":5"), "{said}");
    rules.check("fleet check nowhere", "warren: nowhere: not a directory\n= 1");
    rules.check("fleet check a.conf", "warren: a.conf: not a directory\n= 1");
}

#[test]
fn a_rule_that_fails_for_one_target_names_it() {
    let fails = "object Container \"b\" { vars.size = \"x\" }\n";
    let rules = Rules::new("throws", &[("a.conf", GOOD), ("b.conf", fails)]);
    let said = rules.warren("fleet check .", "");
    assert!(said.contains("evaluating this rule for Container 'b'"), "{said}");
    assert!(said.contains("./a.conf:4") && said.ends_with("= 1"), "{said}");
}

#[test]
fn what_never_ends_is_given_up() {
    let check = |text: &str, expected: &str| {
        let rules = Rules::new("endless", &[("a.conf", text)]);
        let said = rules.warren("fleet check .", "");
        assert!(said.contains(expected) && said.ends_with("= 1"), "{text}: {said}");
    };
    check("function f(n) { return f(n + 1) }; f(1)", "levels deep");
    check("var a = [ 1 ]; while (true) { a = a + a }", "too");
    check("var s = \"x\"; while (true) { s = s + s }", "too long");
    check("include \"*.conf\"", "includes itself");
    check("include \"../nothing.conf\"", "does not exist");
    check("\u{0}\u{1}\u{fffd}", "error");
}

#[test]
fn what_rules_make_is_dumped() {
    let rules = Rules::new("dump", &[("a.conf", GOOD)]);
    let text = "# Made by apply Service \"web\" (./a.conf:2) for Container 'shop' (./a.conf:1)\n\
                [Service]\n# ./a.conf:3\nExecStart=/bin/web\n";
    rules.check("fleet dump .", &format!("# shop-web.service\n{text}\n= 0"));
    rules.check("fleet dump . --unit-files out -q", "= 0");
    assert_eq!(rules.read("out/shop-web.service"), text);
    rules.check("fleet dump . --unit-files out", "warren: out: is not empty\n= 1");
    let said = rules.warren("fleet dump . --objects", "");
    assert!(said.contains("Container shop (./a.conf:1:1)\n"), "{said}");
    assert!(said.contains("  ExecStart = \"/bin/web\" [./a.conf:3:3]\n"), "{said}");
}

#[test]
fn expressions_are_evaluated() {
    let rules = Rules::new("console", &[("a.conf", GOOD)]);
    rules.check("fleet console . -e 1+1 -e len(get_objects(Container))", "2\n1\n= 0");
    rules.check("fleet console . -e 1+1 --json", "{\"value\":2,\"format\":1}\n= 0");
    let said = rules.warren("fleet console . -e 1+ -e 2", "");
    assert!(
        said.starts_with("2\nerror: expected an expression") && said.ends_with("= 1"),
        "{said}"
    );
    let said = rules.warren("fleet console .", "var x = {\n a = 4\n}\nx.a * 2\n\n");
    assert_eq!(said, "null\n8\n= 0");
    // The end comes before the bracket.
    let said = rules.warren("fleet console .", "1 + 1\nlen(\"x\"\n");
    assert!(said.starts_with("2\nerror: expected") && said.ends_with("= 1"), "{said}");
    let faulty = Rules::new("console-faulty", &[("a.conf", "object Nothing {\n")]);
    for (arguments, input) in [("fleet console . -e 1+1", ""), ("fleet console .", "1 + 1\n")] {
        let said = faulty.warren(arguments, input);
        assert!(
            said.contains("error: ") && said.contains("2\n") && said.ends_with("= 1"),
            "{said}"
        );
    }
}

#[test]
fn files_are_laid_out() {
    let (bad, good) = ("x=1 // one\n\n\n\ny = { a=2 }\n", "x = 1 // one\n\ny = { a = 2 }\n");
    let rules = Rules::new("fmt", &[("a.conf", bad), ("b.conf", "x = (\n")]);
    rules.check("fleet fmt --check a.conf", "a.conf would change\n= 1");
    assert_eq!(rules.read("a.conf"), bad);
    rules.check("fleet fmt a.conf", "= 0");
    assert_eq!(rules.read("a.conf"), good);
    rules.check("fleet fmt --check a.conf", "= 0");
    assert_eq!(rules.warren("fleet fmt -", bad), format!("{good}= 0"));
    let said = rules.warren("fleet fmt b.conf", "");
    assert!(said.starts_with("warren: b.conf is not changed") && said.ends_with("= 1"), "{said}");
    assert_eq!(rules.read("b.conf"), "x = (\n");
    assert_eq!(std::fs::read_dir(&rules.0).expect("it is there").count(), 2);
}

const SHOPS: [(&str, &str); 2] = [
    (
        "a.conf",
        "const Shops = inventory(\"shops.csv\")\nfor (shop in Shops) {\n  object Container shop.name use(shop) { vars = shop }\n}\n\
         apply Service \"web\" to Container {\n  ExecStart = \"/bin/web \" + unit_argument(container.vars.word)\n  \
         assign where container.vars.word\n}\n",
    ),
    ("shops.csv", "name,word\nshop,p%nq\nblog,a b\n"),
];

#[test]
fn rules_that_nothing_reads_are_named() {
    let rules =
        Rules::new("unread", &[("a.conf", "object Target \"t\" { Description = NodeName }\n")]);
    std::fs::create_dir(rules.0.join("sub")).expect("made");
    std::fs::write(rules.0.join("sub/b.conf"), "object Target \"u\" { }\n").expect("written");
    rules.check(
        "fleet check .",
        "The rules make 1 unit file: 1 target.\nwarning: ./sub/b.conf is not used: no file of . \
         includes it\n= 0",
    );
    std::fs::write(rules.0.join("c.conf"), "include_recursive \"sub\"\n").expect("written");
    rules.check("fleet check .", "The rules make 2 unit files: 2 target.\n= 0");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let said = rules.warren("fleet dump .", "");
    assert!(said.contains(&format!("Description={}\n", name.trim())), "{said}");
}

#[test]
fn rules_are_tested() {
    let rules = Rules::new("tested", &SHOPS);
    rules.check("fleet test .", "warren: .: no *.test file in it or below it\n= 1");
    let write = |name: &str, text: &str| {
        std::fs::write(rules.0.join(name), text).expect("it can be written");
    };
    write(
        "good.test",
        "object Container \"own\" { vars.word = \"x\" }\n\
         expect(\"three\", () => len(keys(units)) == 3)\n\
         expect(\"quoted\", () => units[\"shop-web.service\"].ExecStart == \"/bin/web \\\"p%%nq\\\"\")\n",
    );
    rules.check(
        "fleet test .",
        "ok ./good.test: 2 of 2\n1 test file: 2 expectations hold, 0 failed\n= 0",
    );
    write("wrong.test", "expect(\"more\", () => len(keys(units)) == 5)\n");
    let found = rules.warren("fleet test .", "");
    assert!(
        found
            .contains("FAILED ./wrong.test: 0 of 1\n2 test files: 2 expectations hold, 1 failed\n"),
        "{found}"
    );
    assert!(
        found.contains("error: more: this is false, not true\n  --> ./wrong.test:1:1\n"),
        "{found}"
    );
    assert!(found.ends_with("= 1"), "{found}");
    write("wrong.test", "\n");
    let found = rules.warren("fleet test .", "");
    assert!(found.contains("FAILED ./wrong.test: it has no expectations\n"), "{found}");
    assert!(found.ends_with("= 1"), "{found}");
}

#[test]
fn a_checkout_is_compared_with_other_rules() {
    let base = Rules::new("base", &SHOPS);
    let rules = Rules::new("candidate", &SHOPS);
    let plan = format!("fleet plan . --against {}", base.path(""));
    rules.check(&plan, "No differences.\n= 0");
    std::fs::write(rules.0.join("shops.csv"), "name,word\nshop,new\nmore,a b\n").expect("written");
    rules.check(
        &plan,
        "+ more-web.service  apply Service \"web\" (./a.conf:5) for Container 'more' (./a.conf:3)\n\
         ~ shop-web.service  apply Service \"web\" (./a.conf:5) for Container 'shop' (./a.conf:3)\n\
         - blog-web.service\nPlan: 1 added, 1 changed, 1 removed.\n= 0",
    );
    let found = rules.warren(&format!("{plan} --diff"), "");
    assert!(found.contains("-ExecStart=/bin/web \"p%%nq\"\n+ExecStart=/bin/web new\n"), "{found}");
    std::fs::write(rules.0.join("b.conf"), "object Service \"x\" { MemoryMax = \"12X\" }")
        .expect("written");
    let found = rules.warren(&plan, "");
    assert!(
        found.contains("error: x.service: MemoryMax=: '12X' is not a size in bytes\n"),
        "{found}"
    );
    assert!(found.ends_with("= 1"), "{found}");
}

#[test]
fn configurations_of_icinga_are_checked() {
    let text = "include <lib.conf>\nobject Host \"h\" { import \"base\" }\n\
                apply Service \"s\" { check_command = Command; assign where host.name == \"h\" }\n";
    let library = "template Host \"base\" { check_command = Command }\n\
                   object CheckCommand \"dummy\" { command = [ \"/bin/true\" ] }\n";
    let rules = Rules::new("icinga", &[("main.conf", text), ("lib.conf", library)]);
    rules.check(
        "icinga check main.conf -I . -D Command=dummy",
        "Instantiated 1 CheckCommand.\nInstantiated 1 Host.\nInstantiated 1 Service.\n\
         Instantiated 1 IcingaApplication.\nConfiguration is valid.\n= 0",
    );
    let said = rules.warren("icinga check main.conf -I . -D Command=other", "");
    assert!(said.contains("Object 'other' of type 'CheckCommand' does not exist."), "{said}");
    let said = rules.warren("icinga objects main.conf -I . -D Command=dummy --json", "");
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.contains("\"max_check_attempts\":3,"), "{said}");
    let file = rules.path("objects");
    let write = "icinga objects main.conf -I . -D Command=dummy --objects-file";
    assert_eq!(rules.warren(&format!("{write} {file}"), ""), "= 0");
    assert!(rules.read("objects").ends_with("\"type\":\"IcingaApplication\"},"));
    let said = rules.warren("icinga objects main.conf -I . -D Command=dummy", "");
    assert!(said.contains("Service h!s (main.conf:3:1)\n"), "{said}");
    let some = "icinga objects main.conf -I . -D Command=dummy --type serv* --name s";
    let said = rules.warren(some, "");
    assert!(said.starts_with("Service h!s ") && !said.contains("Host h"), "{said}");
    let said = rules.warren(&some.replace("--name s", "--name x!s"), "");
    assert_eq!(said, "= 0");
    let said = rules.warren("icinga check main.conf -I .", "");
    assert!(said.contains("Command") && said.ends_with("1 errors, 0 warnings.\n= 1"), "{said}");
    let path = rules.path("nothing.conf");
    let said = rules.warren(&format!("icinga check {path}"), "");
    assert!(said.contains("No such file") && said.ends_with("= 1"), "{said}");
}

#[test]
fn configurations_of_icinga_that_write_to_globals_are_checked_in_sequence() {
    let text = "globals.seen = []\n\
                object CheckCommand \"d\" { command = [ \"x\" ]; globals.seen.add(name) }\n";
    let rules = Rules::new("sequence", &[("main.conf", text)]);
    let said = rules.warren("icinga check main.conf", "");
    assert!(said.contains("main.conf:1:16") && said.contains("main.conf:2:"), "{said}");
    rules.check(
        "icinga check main.conf --sequential",
        "Instantiated 1 CheckCommand.\nInstantiated 1 IcingaApplication.\n\
         Configuration is valid.\n= 0",
    );
}

#[test]
fn a_directory_of_icinga_is_checked_as_a_whole() {
    let rules = Rules::new("whole", &[]);
    let write = |name: &str, text: &str| {
        let path = rules.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it is below")).expect("made");
        std::fs::write(path, text).expect("it can be written");
    };
    let main = "object CheckCommand \"d\" { command = [ \"x\" ] }\nobject Zone \"z\" { }\n";
    write("one/icinga2.conf", main);
    write("one/conf.d/not-included.conf", "no rules here\n");
    write("one/zones.d/z/a.conf", "object Host \"h\" { check_command = \"d\" }\n");
    write("one/zones.d/unknown/a.conf", "no rules here\n");
    let check = "icinga check one -D Configuration.ZonesDir=one/zones.d";
    let said = rules.warren(check, "");
    // The last constant of a name counts: that of these tests.
    assert!(!said.contains("Instantiated 1 Host."), "{said}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
        let output = command.args(arguments).current_dir(&rules.0).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, err) = run(&["icinga", "check", "one", "-D", "Configuration.DataDir=none"]);
    assert!(out.contains("Instantiated 1 Host."), "{out}{err}");
    assert!(
        err.contains("Ignoring directory 'one/zones.d/unknown' for unknown zone 'unknown'."),
        "{err}"
    );
    // Without a main file it is all files below it.
    write("two/b/host.conf", "object Host \"h\" { check_command = \"d\" }\n");
    write("two/a.conf", main);
    let said = rules.warren("icinga check two", "");
    assert!(said.contains("Instantiated 1 Host.\n"), "{said}");
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_example_has_no_faults_and_is_short() {
    let example = repository().join("examples/hosting");
    let rules = Rules::new("example", &[]);
    let said = rules.warren(&format!("fleet check {}", example.display()), "");
    let expected = "The rules make 25122 unit files: 5003 automount, 1 drop-in, 5003 mount, \
                    5056 service, 5004 slice, 5002 socket, 1 target, 52 timer.\n= 0";
    assert_eq!(said, expected);
    let files = std::fs::read_dir(&example).expect("it is there").flatten();
    let lines = files.map(|f| std::fs::read_to_string(f.path()).expect("text").lines().count());
    assert!(lines.sum::<usize>() < 150, "the example is to stay short");
    let said = rules.warren(&format!("fleet fmt --check {}/20-rules.conf", example.display()), "");
    assert_eq!(said, "= 0");
}

/// What stands in the tutorial between fences that say `conf`.
fn tutorial() -> String {
    let text = std::fs::read_to_string(repository().join("docs/src/fleet.md")).expect("text");
    let blocks = text.split("```conf\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn the_tutorial_has_no_faults() {
    let rules = Rules::new("tutorial", &[("hosting.conf", &tutorial())]);
    let said = rules.warren("fleet check .", "");
    assert_eq!(said, "The rules make 11 unit files: 1 drop-in, 6 service, 3 slice, 1 target.\n= 0");
    let wrong = tutorial().replacen("\"gold\"", "\"golden\"", 1);
    let rules = Rules::new("mistake", &[("hosting.conf", &wrong)]);
    let said = rules.warren("fleet check .", "");
    assert!(said.contains("evaluating this rule for Container 'shop'"), "{said}");
    assert!(said.contains("hosting.conf:27:16"), "{said}");
}
