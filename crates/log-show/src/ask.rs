//! Asking the log daemon that runs, over its control socket.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use warren_wire::control::ErrorName;
use warren_wire::frame;
use warren_wire::log::{ANSWER_BYTES_MAX, Answer, Order, Question};

use crate::args::Args;
use crate::failure::Failure;
use warren_log_store::places::{CONTROL_SOCKET, socket_directory};

/// How long the daemon may take for what needs no disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has the daemons of what is read write what they hold in memory, if they are there and we may ask
/// them: what was logged before is then in the files.
pub fn write(args: &Args) {
    for namespace in args.namespaces() {
        // Without, the newest quarter of a second may be missing.
        let _ = call(args, namespace.as_deref(), Order::Write, Some(PATIENCE));
    }
}

/// Has the daemon do all that the options name, one after the other, and waits until it is done; false when they
/// name nothing. What is moved to the disk is closed there, and what is closed is sealed if old files are to be
/// removed then: logs are not.
pub fn order(args: &Args) -> Result<bool, Failure> {
    let leaves = args.relinquish_var || args.smart_relinquish_var;
    let orders = [
        (args.flush, Order::FlushToVar),
        (leaves, Order::RelinquishVar { smart: !args.relinquish_var }),
        (args.rotate, Order::Rotate { sealed: args.vacuums() }),
        (args.sync, Order::Synchronize),
    ];
    let asked = orders.into_iter().filter(|(is_asked, _)| *is_asked);
    asked.map(|(_, order)| ask(args, order)).try_fold(false, |_, done| done.map(|()| true))
}

fn ask(args: &Args, order: Order) -> Result<(), Failure> {
    let namespace = args.one_namespace();
    let failed = |text: String| Failure(format!("Failed to ask the log daemon: {text}"));
    let answer = call(args, namespace.as_deref(), order, None);
    match answer.map_err(|e| failed(e.to_string()))? {
        Answer::Done | Answer::Lines(_) | Answer::Counts(_) => Ok(()),
        Answer::Failed(text) => Err(failed(text)),
        Answer::Unknown(_) => Err(failed(ErrorName::MethodNotFound.to_string())),
    }
}

fn call(
    args: &Args,
    namespace: Option<&str>,
    order: Order,
    patience: Option<Duration>,
) -> std::io::Result<Answer> {
    let directory = args.root().join(socket_directory(namespace));
    let stream = UnixStream::connect(directory.join(CONTROL_SOCKET))?;
    stream.set_read_timeout(patience)?;
    (&stream).write_all(&Question::Order(order).write())?;
    let answer = frame::read(&mut BufReader::new(stream), ANSWER_BYTES_MAX)?;
    Ok(Answer::read(&answer)?)
}
