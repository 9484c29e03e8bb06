//! What a load from scratch costs: `load DIRECTORY [TIMES]` prints the time and the CPU time of
//! reading the files, of making a generation of them, and of looking at every file again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::graph::Graph;
use warren_core::settings::Settings;
use warren_manager::config::loader::Loader;
use warren_manager::mount::kernel_mounts::FoundMounts;
use warren_unit::{Context, Defaults};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: load DIRECTORY [TIMES]");
        std::process::exit(2);
    };
    let times = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    for _ in 0..times {
        let settings = Settings {
            context: Arc::new(Context::system()),
            defaults: Arc::new(Defaults::default()),
        };
        let began = Clocks::now();
        let mut loader =
            Loader::new(vec![directory.clone()], settings, None, FoundMounts::default());
        let read = Clocks::now();
        let loading = loader.load_all(&Arc::new(Graph::default()));
        let made = Clocks::now();
        loader.look(true);
        let again = loader.reload(&loading.graph, false);
        let looked = Clocks::now();
        println!(
            "{} units: files {}, generation {}, again {} ({} changed)",
            loading.graph.definitions().count(),
            read.since(&began),
            made.since(&read),
            looked.since(&made),
            again.delta.changed.len(),
        );
    }
}

struct Clocks {
    wall: Instant,
    cpu: Duration,
}

impl Clocks {
    fn now() -> Clocks {
        Clocks {
            wall: Instant::now(),
            cpu: Duration::from_nanos(warren_sys::time::process_cpu_ns()),
        }
    }

    fn since(&self, before: &Clocks) -> String {
        let wall = self.wall - before.wall;
        format!("{:.3} s ({:.3} s CPU)", wall.as_secs_f64(), (self.cpu - before.cpu).as_secs_f64())
    }
}
