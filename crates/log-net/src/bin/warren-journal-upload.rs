//! `warren-journal-upload` alone; what is installed is one program by several names (crate `journal`).

fn main() -> std::process::ExitCode {
    warren_log_net::programs::upload::main()
}
