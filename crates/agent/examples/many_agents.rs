//! `many_agents N URL DIR`: N agents in one process, for `cargo xtask bench hosts`. Each uses the
//! store at URL as a host does. All share one manager, which accepts every call and does nothing. DIR has `trusted-keys`.

use std::io::{BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use warren_agent::agent;
use warren_agent::settings::Settings;
use warren_wire::call::Received;
use warren_wire::control::{
    Done, JobsRow, ListAnswer, ReloadAnswer, StatusAnswer, TotalsAnswer, write_answer,
};
use warren_wire::frame;

const REQUEST_BYTES_MAX: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [count, url, directory] = &words[..] else {
        return Err("usage: many_agents N URL DIR".into());
    };
    let directory = Path::new(directory);
    let control = directory.join("control");
    let listener = UnixListener::bind(&control)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let mut agents = Vec::new();
    for n in 0..count.parse::<usize>()? {
        let text = format!(
            "Endpoints={url}\nName=h{n:05}\nTrustedKeys={0}/trusted-keys\nStateDirectory={0}/h{n:05}\n\
             ControlSocket={0}/control\nLabels={0}/none\n",
            directory.display()
        );
        let path = directory.join("settings");
        std::fs::write(&path, text)?;
        let settings = Settings::read(&path)?;
        agents.push(
            std::thread::Builder::new()
                .stack_size(512 << 10)
                .spawn(move || agent::run(settings))?,
        );
    }
    for agent in agents {
        agent.join().map_err(|_| "an agent has panicked")??;
    }
    Ok(())
}

fn serve(stream: UnixStream) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Ok(message) = frame::read(&mut reader, REQUEST_BYTES_MAX) {
        let Ok(received) = Received::read(&message) else { return };
        let answer = match received.method.rsplit('.').next().unwrap_or_default() {
            "ReloadConfiguration" => write_answer(&ReloadAnswer::default(), false),
            "Totals" => {
                write_answer(&TotalsAnswer { loaded: 25_000, ..TotalsAnswer::default() }, false)
            }
            "List" => write_answer(&ListAnswer::default(), false),
            "Status" => write_answer(&StatusAnswer::default(), false),
            "Jobs" => write_answer(&JobsRow::default(), false),
            _ => write_answer(&Done::default(), false),
        };
        if writer.write_all(&answer).is_err() {
            return;
        }
    }
}
