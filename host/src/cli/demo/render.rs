//! A demo's report for people.

use super::lie::Party;
use super::report::{DemoReport, Measures, Message, listed};
use crate::cli::terminal::{self, Style};
use std::fmt::Write;
use std::time::Duration;

/// Recovered messages that are shown to people.
const SHOWN_MESSAGES: usize = 20;
/// Characters of a message that are shown to people.
const SHOWN_CHARACTERS: usize = 72;

impl DemoReport {
    /// The report for people, without a line break at the end; `messages`: with what was recovered.
    pub fn render(&self, style: Style, messages: bool) -> String {
        let round = &self.round;
        let mut out = String::new();
        let lanes = round.lanes.as_ref().map_or_else(String::new, |lanes| {
            let (needed, lanes) = lanes.split_once('x').unwrap_or((lanes, ""));
            format!(", any {needed} of {lanes} lanes")
        });
        let aggregators =
            round.aggregators.map_or_else(String::new, |aggregators| format!(", {aggregators} aggregators"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{}: {} clients ({} send nothing), {} servers, any {} recover{lanes}{aggregators}\n{} encoding, crs {}\nsimd {}\n",
            round.mode,
            round.clients,
            round.cover,
            round.servers,
            round.threshold,
            round.encoding,
            round.crs_digest,
            self.simd
        );
        render_measures(&mut out, &round.phase_ms, &round.link_bytes);
        if messages {
            render_messages(&mut out, &round.messages);
        }
        let _ =
            writeln!(out, "check   {}  {}", round.counts(), style.verdict(self.round_failures().is_empty()));
        let found = match &*self.tamper.absent {
            [] => format!("{} named", self.tamper.named()),
            absent if self.tamper.culprits.is_empty() => format!("{} missed", listed(absent)),
            absent => format!("{} named, {} missed", self.tamper.named(), listed(absent)),
        };
        let outcome = if self.survives_a_lie() {
            format!("{} of {} recovered without it", self.tamper.recovered, self.tamper.sent)
        } else {
            let kind = if matches!(self.liar, Party::Lane(_)) { "lanes" } else { "servers" };
            format!("{} recovered: too few {kind} are left", self.tamper.recovered)
        };
        let _ = write!(
            out,
            "tamper  {} {}: {found}, {outcome}  {}",
            self.liar,
            self.lie.deed(),
            style.verdict(self.tamper_failures().is_empty())
        );
        out
    }
}

/// Phases on the left, links on the right.
fn render_measures(out: &mut String, phases: &Measures<Duration>, links: &Measures<u64>) {
    let mut phases =
        phases.iter().map(|(name, elapsed)| (name, format!("{:.1}", elapsed.as_secs_f64() * 1e3)));
    let mut links = links.iter().map(|(name, bytes)| (name, grouped(bytes)));
    let mut row = (Some(("phase", "ms".to_owned())), Some(("link", "bytes".to_owned())));
    while row.0.is_some() || row.1.is_some() {
        let (phase, milliseconds) = row.0.unwrap_or_default();
        let (link, bytes) = row.1.unwrap_or_default();
        let line = format!("  {phase:<24}{milliseconds:>12}    {link:<32}{bytes:>16}");
        let _ = writeln!(out, "{}", line.trim_end());
        row = (phases.next(), links.next());
    }
    out.push('\n');
}

fn render_messages(out: &mut String, messages: &[Message]) {
    let _ = writeln!(out, "{} messages recovered", messages.len());
    for message in messages.iter().take(SHOWN_MESSAGES) {
        let _ = writeln!(out, "  {}", shown(&message.0));
    }
    if messages.len() > SHOWN_MESSAGES {
        let _ = writeln!(out, "  ... and {} more", messages.len() - SHOWN_MESSAGES);
    }
    out.push('\n');
}

/// A message on one line: quoted and escaped text, or hex if it is not UTF-8; shortened, with its length then.
fn shown(message: &[u8]) -> String {
    let (text, open, close) = match std::str::from_utf8(message) {
        // More characters than are shown need not be escaped first.
        Ok(text) => {
            (terminal::escape(&text.chars().take(SHOWN_CHARACTERS + 1).collect::<String>()), "\"", "\"")
        }
        Err(_) => {
            let head = &message[..message.len().min(SHOWN_CHARACTERS / 2 + 1)];
            (data_encoding::HEXLOWER.encode(head), "hex ", "")
        }
    };
    if text.chars().count() <= SHOWN_CHARACTERS {
        return format!("{open}{text}{close}");
    }
    let head: String = text.chars().take(SHOWN_CHARACTERS).collect();
    format!("{open}{head}{close}... ({} bytes)", message.len())
}

/// Decimal digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::good;
    use super::*;

    #[test]
    fn text_shows_measures_counts_and_the_culprit() {
        let text = good().render(Style::PLAIN, true);
        for line in [
            "direct: 4 clients (1 send nothing), 4 servers, any 3 recover".to_owned(),
            format!("sketch encoding, crs {}", "0f".repeat(32)),
            "simd scalar".to_owned(),
            format!("  {:<24}{:>12}    {:<32}{:>16}", "seal", "2.0", "posts", "5,945,857"),
            format!("  {:<24}{:>12}", "sum", "1.2"),
            "3 messages recovered".to_owned(),
            "  \"\"".to_owned(),
            "  \"é\"".to_owned(),
            "  hex ff00".to_owned(),
            "check   3 sent, 3 recovered, 0 missing, 0 extra  ok".to_owned(),
            "tamper  server 2 publishes a wrong sum: server 2 named, 3 of 3 recovered without it  ok"
                .to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn messages_are_cut_off_after_twenty_and_cannot_drive_the_terminal() {
        let mut out = String::new();
        let many = vec![Message(b"\x1b[2J\nok\r".to_vec()); 23];
        render_messages(&mut out, &many);
        assert_eq!(out.lines().filter(|line| *line == r#"  "\u{1b}[2J\nok\r""#).count(), 20);
        assert!(out.contains("  ... and 3 more\n"));
        assert!(out.chars().all(|c| c == '\n' || !c.is_control()));
        assert_eq!(out.lines().count(), 1 + 20 + 1 + 1);
    }

    #[test]
    fn long_messages_are_shortened_and_say_their_length() {
        assert_eq!(shown("a".repeat(72).as_bytes()), format!("\"{}\"", "a".repeat(72)));
        assert_eq!(shown("é".repeat(73).as_bytes()), format!("\"{}\"... (146 bytes)", "é".repeat(72)));
        assert_eq!(shown(&[0xff; 36]), format!("hex {}", "ff".repeat(36)));
        assert_eq!(shown(&[0xff; 37]), format!("hex {}... (37 bytes)", "ff".repeat(36)));
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (123_456, "123,456"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
