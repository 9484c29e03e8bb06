//! Slices with `ConcurrencyHardMax=` and `ConcurrencySoftMax=` (systemd.slice(5)), as they are drawn.

use warren_unit::UnitName;

use crate::random::Random;
use crate::script::{Action, Plan};

/// The slice with bounds, and the one in it, of which it has room for one unit more at least.
const OUTER: &str = "l.slice";
const INNER: &str = "l-m.slice";

/// Sections of units that are in slices.
const SECTIONS: [&str; 5] = ["[Service]\n", "[Socket]\n", "[Mount]\n", "[Swap]\n", "[Scope]\n"];

/// Of five plans one has slices with bounds, and most of its units in them: by chance of its own.
pub fn draw(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x736c_6963_6573);
    if !random.chance(200) || plan.actions.is_empty() {
        return;
    }
    let names: Vec<UnitName> = plan.units.names().cloned().collect();
    for name in &names {
        let text = plan.units.text(name).unwrap_or_default().to_owned();
        let Some(section) = SECTIONS.iter().find(|section| text.contains(**section)) else {
            continue;
        };
        if random.chance(700) {
            let slice = random.pick(&[OUTER, OUTER, INNER]);
            let text = text.replacen(*section, &format!("{section}Slice={slice}\n"), 1);
            plan.units.set(name.clone(), text);
        }
    }
    for slice in [OUTER, INNER] {
        let text = draw_text(&mut random);
        plan.units.set(UnitName::parse(slice).expect("a name"), text);
    }
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..random.below(4) {
        let slice = (*random.pick(&[OUTER, INNER])).to_owned();
        let text = draw_text(&mut random).trim_end().replace('\n', ";");
        plan.actions.push((random.below(end), Action::Edit(slice, text)));
    }
    plan.actions.sort_by_key(|(at, _)| *at);
}

fn draw_text(random: &mut Random) -> String {
    let mut text = "[Unit]\nDefaultDependencies=no\n[Slice]\n".to_owned();
    for (setting, chance) in [("ConcurrencySoftMax", 700), ("ConcurrencyHardMax", 350)] {
        if random.chance(chance) {
            text += &format!("{setting}={}\n", 1 + random.below(5));
        }
    }
    text
}
