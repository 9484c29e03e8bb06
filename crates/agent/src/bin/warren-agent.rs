//! `warren-agent`: the agent of a host among many. Installed it is a link to `warren-hosts`, which has all of it.

fn main() -> std::process::ExitCode {
    warren_agent::service::main()
}
