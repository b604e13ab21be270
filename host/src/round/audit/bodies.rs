//! What lies beside the log, held against it, and what comes out of it.

use super::{Audit, Outcome, Source, chain};
use crate::round::Session;
use crate::round::reading::Found;
use crate::round::recover::{self, Bodies, Body, Named, RecoverError, Recovery};
use panetiere::bulletin::Mode;
use panetiere::channel::Missing;
use panetiere::fault::Fault as _;
use panetiere::protocol::RecipientError;
use panetiere::wire::Encode as _;
use panetiere_api::leaf::{Leaf, RoundResult};
use std::collections::BTreeSet;

/// What a round's bodies are, by the leaves.
fn bodies_of(session: &Session) -> Vec<(&'static str, Vec<Body>)> {
    let set = session.closed().map_or(&[][..], |closed| closed.set.clients());
    vec![
        ("posts", set.iter().copied().map(Body::Post).collect()),
        ("group sums", session.group_sums().keys().copied().map(Body::GroupSum).collect()),
        ("lane sums", session.lane_sums().keys().copied().map(Body::LaneSum).collect()),
        ("server sums", session.server_sums().keys().copied().map(Body::ServerSum).collect()),
    ]
}

impl Audit {
    /// Every body, by itself.
    pub(super) fn published(&mut self, found: &Found, bodies: &dyn Bodies) {
        let session = &found.session;
        for (what, of_kind) in bodies_of(session) {
            let (mut fine, mut absent) = (0, 0);
            for &body in &of_kind {
                // Posts of an aggregated round are with its aggregators.
                let elsewhere = session.params().mode() == Mode::Aggregated && matches!(body, Body::Post(_));
                match recover::compare(session, bodies, body) {
                    Ok(()) => fine += 1,
                    Err(RecoverError::Missing { .. }) if elsewhere => absent += 1,
                    Err(error @ RecoverError::Foreign { .. }) => {
                        self.say(Outcome::Fault, Source::Body, error.code(), chain(&error));
                    }
                    Err(error) => self.say(Outcome::Missing, Source::Body, error.code(), chain(&error)),
                }
            }
            if fine > 0 {
                let text = format!("{fine} of {} {what} are what their leaves name", of_kind.len());
                self.say(Outcome::Ok, Source::Body, "bodies", text);
            }
            if absent > 0 {
                let text = format!(
                    "{absent} {what} are not here: they are with the aggregators, whose sums can be checked without unless they lied"
                );
                self.say(Outcome::Note, Source::Body, "posts_elsewhere", text);
            }
        }
    }

    /// Openings, sums, decryption, decoding, and what the recipient says of it.
    pub(super) fn recovery(&mut self, found: &Found, bodies: &dyn Bodies) {
        let session = &found.session;
        match recover::recover(session, &found.epoch, bodies) {
            Ok(recovery) => {
                self.recovered(session, &recovery);
                self.result(found, bodies, &recovery);
            }
            Err(error) => self.not_recovered(session, &error),
        }
    }

    fn recovered(&mut self, session: &Session, recovery: &Recovery) {
        self.name(&recovery.named);
        let known: BTreeSet<String> = self.lines.iter().map(|line| line.text.clone()).collect();
        let told = |text: &&String| !known.iter().any(|line| line.starts_with(text.as_str()));
        for text in recovery.set_aside.iter().filter(told) {
            self.say(Outcome::Note, Source::Recomputed, "set_aside", format!("not used: {text}"));
        }
        let used = session.server_sums().len();
        let text =
            format!("the sum over the set opens with the server sums at hand ({used} stand in the log)");
        self.say(Outcome::Ok, Source::Recomputed, "opened", text);
        self.messages = Some(recovery.messages().len());
        let count = recovery.messages().len();
        match &recovery.delivery {
            Ok(delivery) if delivery.missing == Missing::Nothing => {
                self.say(
                    Outcome::Ok,
                    Source::Recomputed,
                    "decoded",
                    format!("it decodes to {count} messages"),
                );
            }
            Ok(_) => {
                let text = format!(
                    "it decodes to {count} messages; others did not come out, and nobody can be named for it"
                );
                self.say(Outcome::Note, Source::Recomputed, "decoded_in_part", text);
            }
            Err(error) => {
                let text = format!(
                    "the sum is no sum of messages, and nobody can be named for it: {}",
                    chain(error)
                );
                self.say(Outcome::Fault, Source::Recomputed, error.code(), text);
            }
        }
    }

    fn name(&mut self, named: &[Named]) {
        for Named { party, code, reason, evidence } in named {
            let outcome = Outcome::Fault;
            self.charge(outcome, Source::Recomputed, code, reason.clone(), *party, evidence.clone());
        }
    }

    fn not_recovered(&mut self, session: &Session, error: &RecoverError) {
        if let RecoverError::NotRecovered { named, .. } = error {
            self.name(named);
        }
        let early = match error {
            RecoverError::NotRecovered { source, .. } => matches!(
                source.reason,
                RecipientError::BelowLaneThreshold { .. } | RecipientError::BelowShareThreshold { .. }
            ),
            RecoverError::Foreign { .. } => false,
            _ => true,
        };
        // A result beside sums that open nothing yet came from nowhere.
        let claimed = early && !session.recoverable() && session.result().is_some();
        let outcome = if early && !claimed { Outcome::Missing } else { Outcome::Fault };
        let text = format!("openings, sums, messages and result cannot be computed again: {}", chain(error));
        self.say(outcome, Source::Recomputed, error.code(), text);
    }

    fn result(&mut self, found: &Found, bodies: &dyn Bodies, recovery: &Recovery) {
        let computed = recovery.result(&found.session);
        match found.session.result() {
            None => self.say(Outcome::Note, Source::Log, "no_result", "no recipient has published a result"),
            Some(result) if *result == computed => {
                let text =
                    format!("the result is what comes out: {} messages and their root", result.messages);
                self.say(Outcome::Ok, Source::Recomputed, "result", text);
            }
            Some(result) => {
                let text =
                    format!("{}: it says {}, {} come out", signer(found), says(result), says(&computed));
                self.say(Outcome::Fault, Source::Recomputed, "result_differs", text);
            }
        }
        match bodies.messages(self.round) {
            Ok(None) => {
                self.say(Outcome::Note, Source::Body, "no_messages", "no messages are published here")
            }
            Ok(Some(published)) if published == recovery.messages() => {
                self.say(
                    Outcome::Ok,
                    Source::Body,
                    "messages",
                    "the published messages are those that come out",
                );
            }
            Ok(Some(published)) => {
                let (have, come) = (published.len(), recovery.messages().len());
                let text = format!(
                    "the {have} messages published here are not the {come} that come out; whoever keeps them altered them"
                );
                self.say(Outcome::Fault, Source::Body, "messages_differ", text);
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                let text = format!("what is published as messages is no list of messages: {}", chain(&error));
                self.say(Outcome::Fault, Source::Body, "messages_malformed", text);
            }
            Err(error) => {
                let text = format!("the published messages cannot be read: {}", chain(&error));
                self.say(Outcome::Missing, Source::Body, "messages_unreadable", text);
            }
        }
    }
}

fn says(result: &RoundResult) -> String {
    format!("{} messages under root {}", result.messages, short(&result.root))
}

fn short(hash: &[u8; 32]) -> String {
    data_encoding::HEXLOWER.encode(&hash[..8])
}

/// Which recipient signed the result that counts, in words. Recipients are no party of the protocol: what one says can be
/// computed again, and costs nobody anything.
fn signer(found: &Found) -> String {
    let mut counted = found.leaves.iter().filter(|seen| seen.outcome.is_ok());
    let signed = counted.find_map(|seen| match Leaf::parse(&seen.entry) {
        Ok(Leaf::Result(result)) => Some((seen.index, result)),
        _ => None,
    });
    let Some((index, result)) = signed else { return "the result is wrong".to_owned() };
    let recipients = &found.epoch.plan().recipients;
    let number = recipients.iter().position(|key| result.verify(key).is_ok());
    let key = number.map_or_else(String::new, |number| {
        data_encoding::HEXLOWER.encode(&recipients[number].to_bytes()[..8])
    });
    format!(
        "the result in leaf {index} is wrong, signed by recipient {} (key {key}...)",
        number.unwrap_or_default()
    )
}
