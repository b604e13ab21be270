//! How a command that looks at something ends.

use super::{Exit, terminal};

/// Text for stdout and the exit code, or why there is none.
pub type Outcome = Result<(String, Exit), Failure>;

/// An error and the exit code that goes with it.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What to say.
    pub error: anyhow::Error,
}

/// What a command says is there is not, or is something else: the command line has to change.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { exit: Exit::Usage, error }
    }
}

/// Prints an outcome. `about` stands before an error: the file or directory that was named, or nothing.
pub fn finish(outcome: Outcome, about: &str) -> Exit {
    match outcome {
        Ok((text, exit)) => match terminal::print_stdout(&text) {
            Ok(()) => exit,
            Err(error) => {
                terminal::print_error(&format!("cannot write to stdout: {error}"));
                Exit::Failed
            }
        },
        // Names, offsets and reasons: a line each would be three at most, and one is enough.
        Err(Failure { exit, error }) => {
            terminal::print_error(&format!("{about}{error:#}"));
            exit
        }
    }
}
