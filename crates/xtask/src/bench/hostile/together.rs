//! `cargo xtask bench hostile --together MINUTES [SETS]`: all attacks at once for so long, and a storm of reloads.
//!
//! Root's starts, log lines and first connections go on meanwhile. It fails where a program of Warrener ends, a line of
//! root's is lost, a program has more memory or descriptors than the bounds, or keeps them when the attacks are over.
//! Times are shown and kept, and nothing is said of them: all attacks together keep any processor busy.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    ATTACKS, Attack, Bench, Context, Duration, GROWTH_MAX, How, Instant, Longest, Result, Sizes,
    Subject, Value, ensure, fs, json, print_row, processes, row,
};

/// Descriptors that a program may have beyond those in quiet: what the attacks open at one, and as much again.
const DESCRIPTORS_MAX: usize = 4096;

/// What a program may have beyond its quiet size when all is over.
const KEPT_BYTES_MAX: u64 = 16 << 20;
const KEPT_DESCRIPTORS_MAX: usize = 32;

/// It has that much at the latest after so long.
const OVER_WITHIN: Duration = Duration::from_secs(120);
const LOOKS_APART: Duration = Duration::from_millis(500);

/// Units that the storm writes in turn.
const STORM_UNITS: u32 = 50;

/// Services that attack are started again after so many rounds.
const ROUNDS_OF_A_SERVICE: u32 = 5;

/// What went on beside the attacks.
struct Course {
    longest: Longest,
    sizes: Sizes,
    rounds: u32,
    reloads: u32,
    longest_reload: Duration,
}

impl Bench<'_> {
    /// All of it; what was found.
    pub(super) fn together(&mut self, time: Duration) -> Result<Vec<Value>> {
        let quiet = self.beside("quiet", None)?;
        let daemons = daemons(self.subject.pid)?;
        let attacks = self.begin_all()?;
        let course = self.withstand(time, &daemons)?;
        drop(attacks);
        for (name, how) in ATTACKS {
            if let How::Unit = how {
                self.subject.inside(&["systemctl", "stop", &format!("hostile-{name}.service")])?;
            }
        }
        print_row("together", &course.longest, &course.sizes);
        let (rounds, reloads) = (course.rounds, course.reloads);
        println!("  {rounds} rounds, {reloads} reloads, the longest {:?}", course.longest_reload);
        self.settle()?;
        self.stop_connected()?;
        let kept = self.come_back(&quiet.1)?;
        is_all_there(&daemons, self.subject.pid)?;
        let lines = self.kept_lines()?;
        is_bounded(&course.sizes, &quiet.1, (GROWTH_MAX, DESCRIPTORS_MAX)).context("at most")?;
        is_bounded(&kept, &quiet.1, (KEPT_BYTES_MAX, KEPT_DESCRIPTORS_MAX))
            .context("afterwards")?;
        ensure!(lines["each_once"] == true, "lines of root were lost: {lines}");
        let found = (course.longest, course.sizes);
        let more = json!({
            "seconds": time.as_secs(), "rounds": rounds, "reloads": reloads,
            "longest_reload_us": course.longest_reload.as_micros() as u64,
            "afterwards": of_programs(&kept),
        });
        Ok(vec![row("quiet", &quiet, &quiet), row("together", &found, &quiet), more, lines])
    }

    /// Those first whose socket must be empty.
    fn begin_all(&self) -> Result<Vec<Attack>> {
        let is_first = |how: &How| matches!(how, How::Unclosable(_));
        let (first, then): (Vec<_>, Vec<_>) =
            ATTACKS.into_iter().partition(|(_, how)| is_first(how));
        let begin =
            |(name, how): (&str, How)| self.begin(name, how).with_context(|| name.to_owned());
        first.into_iter().chain(then).map(begin).collect()
    }

    /// Probes for so long, and reloads on another thread.
    fn withstand(&mut self, time: Duration, daemons: &[(String, u32)]) -> Result<Course> {
        let (is_over, subject) = (AtomicBool::new(false), self.subject);
        std::thread::scope(|scope| {
            let reloading = scope.spawn(|| reload_until(&is_over, subject));
            let probed = self.probe_for(time, daemons);
            is_over.store(true, Ordering::Relaxed);
            let reloaded = reloading.join().ok().context("the thread that reloads panicked")?;
            let ((longest, sizes, rounds), (reloads, longest_reload)) = (probed?, reloaded?);
            Ok(Course { longest, sizes, rounds, reloads, longest_reload })
        })
    }

    fn probe_for(
        &mut self,
        time: Duration,
        daemons: &[(String, u32)],
    ) -> Result<(Longest, Sizes, u32)> {
        let (mut longest, mut sizes, mut rounds) = (Longest::new(), Sizes::new(), 0u32);
        let began = Instant::now();
        while began.elapsed() < time {
            self.probe(&format!("together-{rounds}"), &mut longest)?;
            self.measure(&mut sizes)?;
            is_all_there(daemons, self.subject.pid)?;
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS_OF_A_SERVICE) {
                for (name, _) in ATTACKS.iter().filter(|(_, how)| matches!(how, How::Unit)) {
                    let unit = format!("hostile-{name}.service");
                    self.subject.inside(&["systemctl", "--no-block", "restart", &unit])?;
                }
            }
        }
        Ok((longest, sizes, rounds))
    }

    /// Waits until all programs have their quiet size, or that is not to be expected any more; their sizes then.
    fn come_back(&self, quiet: &Sizes) -> Result<Sizes> {
        let began = Instant::now();
        loop {
            let mut sizes = Sizes::new();
            self.measure(&mut sizes)?;
            let is_back = is_bounded(&sizes, quiet, (KEPT_BYTES_MAX, KEPT_DESCRIPTORS_MAX)).is_ok();
            if is_back || began.elapsed() > OVER_WITHIN {
                let after = began.elapsed().as_secs();
                print_row(&format!("{after} s afterwards"), &Longest::new(), &sizes);
                return Ok(sizes);
            }
            std::thread::park_timeout(LOOKS_APART);
        }
    }
}

/// Changes one unit after the other and reloads; how often, and the longest time that it took.
fn reload_until(is_over: &AtomicBool, subject: &Subject) -> Result<(u32, Duration)> {
    let (mut reloads, mut longest) = (0u32, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let unit = subject.units.join(format!("hostile-storm{}.service", reloads % STORM_UNITS));
        fs::write(
            unit,
            format!("[Unit]\nDescription=Storm {reloads}\n[Service]\nExecStart=/bin/true\n"),
        )?;
        let began = Instant::now();
        subject.inside(&["systemctl", "daemon-reload"]).context("a reload")?;
        (reloads, longest) = (reloads + 1, longest.max(began.elapsed()));
    }
    Ok((reloads, longest))
}

/// Programs that must not end. An exec helper may: another takes the place of one that was held up.
fn daemons(init: i32) -> Result<Vec<(String, u32)>> {
    let mut all = processes(init)?;
    all.retain(|(name, _)| name != "warren-exec");
    Ok(all)
}

fn is_all_there(daemons: &[(String, u32)], init: i32) -> Result<()> {
    let now = processes(init)?;
    let lost = daemons.iter().find(|daemon| !now.contains(daemon));
    match lost {
        None => Ok(()),
        Some((name, pid)) => anyhow::bail!("{name} ({pid}) has ended; there are {now:?}"),
    }
}

/// Fails for the first program that has more than in quiet by more than these bytes and descriptors.
fn is_bounded(sizes: &Sizes, quiet: &Sizes, (bytes_max, fds_max): (u64, usize)) -> Result<()> {
    for (name, &(bytes, fds)) in sizes {
        let (quiet_bytes, quiet_fds) = quiet.get(name).copied().unwrap_or_default();
        ensure!(
            bytes <= quiet_bytes + bytes_max && fds <= quiet_fds + fds_max,
            "{name} has {bytes} bytes and {fds} descriptors, in quiet {quiet_bytes} and {quiet_fds}"
        );
    }
    Ok(())
}

fn of_programs(sizes: &Sizes) -> Value {
    let of = |(name, (bytes, fds)): (&String, &(u64, usize))| {
        (name.clone(), json!({"bytes": bytes, "descriptors": fds}))
    };
    sizes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_held_against_their_quiet_size() {
        let of = |bytes, fds| Sizes::from([("warrend".to_owned(), (bytes, fds))]);
        let check = |bytes, fds| is_bounded(&of(bytes, fds), &of(100, 10), (5, 2)).is_ok();
        assert!(check(105, 12) && check(1, 1));
        assert!(!check(106, 12) && !check(105, 13));
        assert!(
            is_bounded(&of(6, 1), &Sizes::new(), (5, 2)).is_err(),
            "a program that was not there"
        );
    }
}
