//! `warren-journalctl` alone; what is installed is one program by several names (crate `journal`).

fn main() -> std::process::ExitCode {
    warren_log_show::program::main()
}
