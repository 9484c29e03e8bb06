use super::*;
use warren_unit::UnitFlags;

fn name(text: &str) -> UnitName {
    UnitName::parse(text).expect("a valid name")
}

fn unit(own: &str, aliases: &[&str], wants: &[&str]) -> Change {
    Change::Set(Box::new(NewDefinition {
        name: name(own),
        aliases: aliases.iter().map(|alias| name(alias)).collect(),
        load_state: LoadState::Loaded,
        description: own.into(),
        flags: UnitFlags::default(),
        slice: None,
        relations: wants.iter().map(|other| (Relation::Wants, name(other))).collect(),
        files: Default::default(),
    }))
}

/// One unit takes the name of another, whose file is gone.
fn renamed() -> (Graph, Graph) {
    let (then, _) = Graph::default()
        .apply(vec![unit("a.service", &[], &[]), unit("t.target", &[], &["a.service"])]);
    let taken = vec![
        Change::Remove(name("a.service")),
        unit("b.service", &["a.service"], &[]),
        unit("t.target", &[], &["a.service"]),
    ];
    let (now, delta) = then.apply(taken);
    assert_eq!(delta.removed, [then.lookup(&name("a.service")).expect("it was there")]);
    (then, now)
}

#[test]
fn what_runs_of_a_unit_whose_name_another_has_goes_with_that_one() {
    let (then, now) = renamed();
    let left = then.lookup(&name("a.service")).expect("it was there");
    let by = now.lookup(&name("b.service")).expect("it is there");
    assert_eq!(now.lookup(&name("a.service")), Some(by));
    assert!(now.is_related(left, Relation::Conflicts, by) && now.is_before(left, by));
    assert!(now.is_related(by, Relation::PropagatesStopTo, left));
    let target = now.lookup(&name("t.target")).expect("it is there");
    assert!(now.is_related(target, Relation::Wants, by));
    assert!(!now.is_related(target, Relation::Wants, left));
}

#[test]
fn it_has_its_name_again_when_that_is_an_alias_no_more() {
    let (then, now) = renamed();
    let left = then.lookup(&name("a.service")).expect("it was there");
    let ends = [
        vec![unit("b.service", &[], &[])],
        vec![Change::Remove(name("b.service"))],
        vec![unit("b.service", &[], &[]), unit("a.service", &[], &[])],
        vec![unit("a.service", &[], &[]), unit("b.service", &[], &[])],
    ];
    for changes in ends {
        let (end, _) = now.apply(changes.clone());
        assert_eq!(end.lookup(&name("a.service")), Some(left), "{changes:?}");
        assert!(end.related(left, Relation::Conflicts).next().is_none(), "{changes:?}");
        let returns = changes.len() > 1;
        assert_eq!(end.definition(left).load_state == LoadState::Loaded, returns);
    }
}

#[test]
fn a_name_that_was_never_a_units_ties_nobody() {
    let (then, _) = Graph::default().apply(vec![unit("t.target", &[], &["a.service"])]);
    let changes =
        vec![unit("b.service", &["a.service"], &[]), unit("t.target", &[], &["a.service"])];
    let (now, delta) = then.apply(changes);
    let by = now.lookup(&name("a.service")).expect("it is there");
    assert_eq!(now.name(by).as_str(), "b.service");
    assert!(now.related(by, Relation::ConflictedBy).next().is_none() && delta.removed.is_empty());
}

#[test]
fn an_earlier_generation_has_its_names_again_whoever_has_them_now() {
    let (then, now) = renamed();
    let target = then.lookup(&name("t.target")).expect("it is there");
    let wanted = |graph: &Graph| -> Vec<String> {
        graph.related(target, Relation::Wants).map(|unit| graph.name(unit).to_string()).collect()
    };
    let (back, _) = now.restored_to(&then);
    let own = back.lookup(&name("a.service")).expect("it is there");
    assert_eq!(
        (back.name(own).as_str(), wanted(&back)),
        ("a.service", vec!["a.service".to_owned()])
    );
    assert_eq!(back.definition(own).load_state, LoadState::Loaded);
    assert!(back.related(own, Relation::ConflictedBy).next().is_none());
    let (again, _) = back.restored_to(&now);
    let own = again.lookup(&name("a.service")).expect("it is there");
    assert_eq!(
        (again.name(own).as_str(), wanted(&again)),
        ("b.service", vec!["b.service".to_owned()])
    );
    assert_eq!(again.definition(own).load_state, LoadState::Loaded);
}

/// Whose stop is passed on to `unit`, and by what name.
fn goes_with(graph: &Graph, unit: UnitId) -> Vec<&str> {
    let by: Vec<UnitId> = graph.related(unit, Relation::StopPropagatedFrom).collect();
    assert!(by.iter().all(|&by| graph.is_related(unit, Relation::Conflicts, by)));
    by.into_iter().map(|by| graph.name(by).as_str()).collect()
}

#[test]
fn what_runs_of_a_unit_goes_with_who_has_its_name_last() {
    let (then, now) = renamed();
    let left = then.lookup(&name("a.service")).expect("it was there");
    let taken = || unit("c.service", &["a.service"], &[]);
    let ways = [
        vec![Change::Remove(name("b.service")), taken()],
        vec![taken(), Change::Remove(name("b.service"))],
        vec![unit("b.service", &[], &[]), taken()],
        vec![taken(), unit("b.service", &[], &[])],
        vec![taken()],
    ];
    for changes in ways {
        let (end, _) = now.apply(changes.clone());
        assert_eq!(goes_with(&end, left), ["c.service"], "{changes:?}");
        assert_eq!(end.lookup_own(&name("a.service")), Some(left), "{changes:?}");
    }
}

#[test]
fn what_runs_of_a_unit_has_its_name_again_when_who_had_it_is_forgotten() {
    let (then, now) = renamed();
    let left = then.lookup(&name("a.service")).expect("it was there");
    let (now, _) = now.apply(vec![unit("t.target", &[], &[])]);
    let (end, delta) = now.forget(&[name("b.service")]);
    assert_eq!(delta.forgotten, [now.lookup(&name("b.service")).expect("it was there")]);
    assert_eq!(end.lookup(&name("a.service")), Some(left));
    assert_eq!(goes_with(&end, left), [""; 0]);
    assert!(end.lookup(&name("b.service")).is_none());
}

#[test]
fn an_earlier_generation_gives_a_name_back_that_it_does_not_know() {
    let earlier = Graph::default().apply(vec![unit("b.service", &[], &[])]).0;
    let then = earlier.apply(vec![unit("a.service", &[], &[])]).0;
    let left = then.lookup(&name("a.service")).expect("it is there");
    let taken = vec![Change::Remove(name("a.service")), unit("b.service", &["a.service"], &[])];
    let (back, _) = then.apply(taken).0.restored_to(&earlier);
    assert_eq!(back.lookup(&name("a.service")), Some(left));
    assert_eq!(goes_with(&back, left), [""; 0]);
}
