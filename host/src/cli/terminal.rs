//! What may be written to a terminal, and how.

use std::io::{self, IsTerminal, Write};

/// `text` with everything that is not plainly printable escaped.
///
/// Control characters, line breaks, bidirectional overrides and other invisible characters come out as `\n`,
/// `\u{1b}` and the like, so foreign bytes can neither drive the terminal nor pass for our own lines. Backslash and
/// double quote are escaped too: between double quotes the output has one reading.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' => escaped.push(character),
            _ => escaped.extend(character.escape_debug()),
        }
    }
    escaped
}

/// How results for people look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Text alone.
    pub const PLAIN: Self = Self { colour: false };
    /// Verdicts in colour.
    pub const COLOURED: Self = Self { colour: true };

    /// Colour if stdout is a terminal and the variable `NO_COLOR` is absent or empty.
    pub fn of_stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: io::stdout().is_terminal() && !unwanted }
    }

    /// The word for a check that held or did not.
    pub fn verdict(self, holds: bool) -> &'static str {
        match (holds, self.colour) {
            (true, false) => "ok",
            (true, true) => "\u{1b}[32mok\u{1b}[0m",
            (false, false) => "FAILED",
            (false, true) => "\u{1b}[31mFAILED\u{1b}[0m",
        }
    }
}

/// Writes `text` and a line break to stdout. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Any other failure of stdout, such as a full disk.
pub fn print_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes `text` and a line break to stderr. If that fails there is nowhere left to say so.
pub fn print_stderr(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes an error to stderr: one line, whatever `text` contains.
pub fn print_error(text: &str) {
    print_stderr(&format!("error: {}", escape(text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_survives_escaping() {
        // ESC, CSI (C1), CR, LF, BEL, right-to-left override, zero width space, line separator, tag, soft hyphen.
        let hostile = "\u{1b}[2J\u{9b}2J\r\n\u{7}\u{202e}\u{200b}\u{2028}\u{e0041}\u{ad}";
        let escaped = escape(hostile);
        assert!(escaped.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{escaped}");
    }

    #[test]
    fn printable_text_stays_and_escaping_is_injective() {
        assert_eq!(escape("Grüße, l'été 🥐"), "Grüße, l'été 🥐");
        assert_eq!(escape("a\nb"), r"a\nb");
        assert_eq!(escape(r"a\nb"), r"a\\nb");
        assert_eq!(escape("\""), "\\\"");
    }

    #[test]
    fn plain_style_has_no_escape_sequences() {
        assert_eq!((Style::PLAIN.verdict(true), Style::PLAIN.verdict(false)), ("ok", "FAILED"));
        assert!(Style::COLOURED.verdict(false).contains("FAILED"));
    }
}
