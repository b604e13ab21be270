//! Media types of bodies. Compared byte for byte: ours have no parameters and no other spelling.

use std::fmt;

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MediaType {
    /// A client's admission: quote, key, signature.
    Admission,
    /// A client's opening in clear, in answer to a complaint.
    Answer,
    /// Bytes that are named by their digest.
    Bytes,
    /// A server's word on its envelopes.
    Checked,
    /// What convicts a party.
    Evidence,
    /// An aggregator's sum.
    GroupSum,
    /// Documents for people and tools.
    Json,
    /// A lane's sum.
    LaneSum,
    /// Entries of the log: each its length (u16, big-endian), then its bytes, as in a C2SP entry bundle.
    Leaves,
    /// The envelopes of one client, or of one server.
    Openings,
    /// A client's post with its ciphertext.
    Post,
    /// A problem document (RFC 9457).
    Problem,
    /// Metrics, as Prometheus reads them.
    Prometheus,
    /// What came out of a round.
    Result,
    /// A client's post in erasure mode.
    RsPost,
    /// A server's sum.
    ServerSum,
    /// A client's share for a lane.
    Share,
    /// Checkpoints, proofs, cosignatures.
    Text,
}

impl MediaType {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Admission,
        Self::Answer,
        Self::Bytes,
        Self::Checked,
        Self::Evidence,
        Self::GroupSum,
        Self::Json,
        Self::LaneSum,
        Self::Leaves,
        Self::Openings,
        Self::Post,
        Self::Problem,
        Self::Prometheus,
        Self::Result,
        Self::RsPost,
        Self::ServerSum,
        Self::Share,
        Self::Text,
    ];

    /// As it stands in `Content-Type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "application/vnd.panetiere.admission.v1",
            Self::Answer => "application/vnd.panetiere.answer.v1",
            Self::Bytes => "application/octet-stream",
            Self::Checked => "application/vnd.panetiere.checked.v1",
            Self::Evidence => "application/vnd.panetiere.evidence.v1",
            Self::GroupSum => "application/vnd.panetiere.group-sum.v1",
            Self::Json => "application/json",
            Self::LaneSum => "application/vnd.panetiere.lane-sum.v1",
            Self::Leaves => "application/vnd.panetiere.leaves.v1",
            Self::Openings => "application/vnd.panetiere.openings.v1",
            Self::Post => "application/vnd.panetiere.post.v1",
            Self::Problem => "application/problem+json",
            Self::Prometheus => "text/plain; version=0.0.4",
            Self::Result => "application/vnd.panetiere.result.v1",
            Self::RsPost => "application/vnd.panetiere.rs-post.v1",
            Self::ServerSum => "application/vnd.panetiere.server-sum.v1",
            Self::Share => "application/vnd.panetiere.share.v1",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_spelt_alike() {
        let mut names: Vec<&str> = MediaType::ALL.iter().map(|media| media.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MediaType::ALL.len());
    }
}
