//! The program that runs inside the sandbox.

#[path = "../tools/mod.rs"]
mod tools;

fn main() -> std::process::ExitCode {
    tools::main()
}
