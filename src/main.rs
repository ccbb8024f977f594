//! The program `frognano-bot`: reads the command line, nothing else.

fn main() -> std::process::ExitCode {
    frognano_bot::cli::main()
}
