//! An error and what caused it.

use std::error::Error;

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
