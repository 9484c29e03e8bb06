//! warrend: started by warren-init, and again by it whenever it ends.

use warren_manager::daemon::start;
use warren_manager::options::{HELP, Options};
use warren_sys::usage;

fn main() {
    let options = match Options::parse(usage::words().skip(1)) {
        Ok(options) if options.help => {
            print!("{HELP}");
            return;
        }
        Ok(options) if options.version => {
            print!("{}", usage::version("warrend"));
            return;
        }
        Ok(options) => options,
        Err(error) => {
            eprint!("{}", usage::refusal(&error, HELP));
            std::process::exit(usage::EXIT_USAGE.into());
        }
    };
    options.set_line_style();
    if let Some(occasion) = options.run_generators {
        let context = warren_unit_files::context(&warren_unit_files::Root::OWN, options.scope);
        let sources = options.environment_sources(&options.defaults(&context).0);
        let generators = options.generators(&context.architecture, sources);
        if let Some(Err(why)) = generators.map(|generators| generators.run(occasion)) {
            print!("{why}");
            std::process::exit(1);
        }
        return;
    }
    if let Some((place, command)) = &options.mount_at {
        std::process::exit(warren_manager::spawn::mount_commands::mount_at(place, command));
    }
    if let Some(directory) = &options.remove_directory {
        std::process::exit(warren_manager::spawn::removals::remove_for(directory));
    }
    if let Some(step) = &options.last_step {
        std::process::exit(warren_manager::last_steps::run_step(step));
    }
    if let Some(steps) = &options.last_steps {
        warren_manager::last_steps::run(steps);
        return;
    }
    warren_sys::heap::limit_arenas();
    let _ = warren_sys::process::raise_open_files(1 << 20);
    match start::start(options) {
        Ok(daemon) => std::process::exit(daemon.run()),
        Err(_) => std::process::exit(1),
    }
}
