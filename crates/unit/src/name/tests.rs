use super::*;

/// `name -> type prefix instance|-|@ slice-parent|-` or `name -> ! error`.
fn check_names(table: &str) {
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (name, want) = line.split_once(" -> ").expect("a row has an arrow");
        let got = match UnitName::parse(name) {
            Err(e) => format!("! {e}"),
            Ok(n) => {
                let instance = match n.instance() {
                    _ if n.is_template() => "@",
                    Some(i) => i,
                    None => "-",
                };
                let parent = n.slice_parent().map_or("-".into(), |p| p.to_string());
                format!("{} {} {instance} {parent}", n.unit_type(), n.prefix())
            }
        };
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn names_split_by_the_rules() {
    check_names(
        r"
        a.service -> service a - -
        a.b.service -> service a.b - -
        getty@tty1.service -> service getty tty1 -
        getty@.service -> service getty @ -
        a@b@c.service -> service a b@c -
        -.mount -> mount - - -
        -.slice -> slice - - -
        a.slice -> slice a - -.slice
        a-b-c.slice -> slice a-b-c - a-b.slice
        dev-disk-by\x2dpath.device -> device dev-disk-by\x2dpath - -
        a -> ! 'a' does not end in a unit type
        a.foo -> ! 'a.foo' does not end in a unit type
        .service -> ! the name is empty
        @.service -> ! the name is empty
        a b.service -> ! character ' ' at byte 1
        a/b.service -> ! character '/' at byte 1
        é.service -> ! character 'é' at byte 0
        ",
    );
}

#[test]
fn the_longest_name_has_255_bytes() {
    let name = |n: usize| format!("{}.service", "a".repeat(n - 8));
    assert!(UnitName::parse(&name(255)).is_ok());
    assert_eq!(UnitName::parse(&name(256)), Err(NameError::TooLong(256)));
}

#[test]
fn dashes_give_dropin_prefixes() {
    let check = |name: &str, want: &[&str]| {
        let name = UnitName::parse(name).expect("valid");
        assert_eq!(name.dash_prefixes().collect::<Vec<_>>(), want, "{name}");
    };
    check("a-b-c.service", &["a-b-.service", "a-.service"]);
    check("a-b@x.service", &["a-@x.service"]);
    check("a-.service", &[]);
    check("a.service", &[]);
    check("-.slice", &[]);
}

#[test]
fn templates_and_instances() {
    let t = UnitName::parse("a@.service").expect("valid");
    let i = t.with_instance("x").expect("valid");
    assert_eq!(i.as_str(), "a@x.service");
    assert_eq!(i.template(), Some(t.clone()));
    assert_eq!(t.template(), None);
    assert_eq!(i.with_instance("y").expect("valid").as_str(), "a@y.service");
    assert_eq!(i.change_type(UnitType::Socket).expect("valid").as_str(), "a@x.socket");
    assert!(UnitName::parse("a.service").expect("valid").with_instance("x").is_err());
}

#[test]
fn every_suffix_comes_back() {
    for t in UnitType::ALL {
        assert_eq!(UnitType::from_suffix(t.suffix()), Some(t));
        for prefix in ["a", "a.mount", "a@b.automount"] {
            let name = UnitName::parse(&format!("{prefix}.{}", t.suffix())).expect("a name");
            assert_eq!((name.unit_type(), name.stem()), (t, prefix));
        }
    }
}
