//! Messages of the log daemon's control socket.

use warren_wire::control::LogCounts;
use warren_wire::log::{Answer, Order, Question, VERSION};

use super::check_message;

fn questions() -> Vec<(&'static str, Question)> {
    let orders = [
        ("Write", Order::Write),
        ("Synchronize", Order::Synchronize),
        ("Rotate", Order::Rotate { sealed: true }),
        ("FlushToVar", Order::FlushToVar),
        ("RelinquishVar", Order::RelinquishVar { smart: false }),
    ];
    let orders = orders.into_iter().map(|(name, order)| (name, Question::Order(order)));
    let first = [("Tail", Question::Tail("web.service".to_owned())), ("Counts", Question::Counts)];
    first.into_iter().chain(orders).collect()
}

fn answers() -> Vec<(&'static str, Answer)> {
    let lines = ["Nov 23 02:01:18 host web[44]: the last words".to_owned()];
    vec![
        ("Lines", Answer::Lines(lines.to_vec())),
        (
            "Counts",
            Answer::Counts(LogCounts {
                entries: 1_000_000,
                bytes: 71_000_000,
                suppressed: 12,
                lost: [("datagram".to_owned(), 2)].into(),
                unkept: 3,
                streams: 16,
                refuge: true,
                trouble: Some("/var: No space left on device".to_owned()),
            }),
        ),
        ("Done", Answer::Done),
        ("Failed", Answer::Failed("/var: No space left on device".to_owned())),
        ("Unknown", Answer::Unknown("io.warrener.Journal.Sing".to_owned())),
    ]
}

/// Names of the golden files.
pub fn names() -> Vec<String> {
    let questions = questions().into_iter().map(|(name, _)| format!("{name}-question.json"));
    questions.chain(answers().into_iter().map(|(name, _)| format!("{name}-answer.json"))).collect()
}

#[test]
fn questions_to_the_log_daemon() {
    for (name, question) in questions() {
        let name = format!("log-{VERSION}/{name}-question.json");
        assert_eq!(Question::read(&check_message(&name, &question.write())), question);
    }
}

#[test]
fn answers_of_the_log_daemon() {
    for (name, answer) in answers() {
        let name = format!("log-{VERSION}/{name}-answer.json");
        assert_eq!(Answer::read(&check_message(&name, &answer.write())).expect("JSON"), answer);
    }
}
