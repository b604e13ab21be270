//! Why a leaf does not count.

use crate::leaf::RoundId;
use panetiere::bulletin::StatementError;
use panetiere::evidence::EvidenceError;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{
    AggregatorId, ClientId, EpochDigest, EpochId, NodeId, PostsDigest, ServerId, SetDigest,
};
use panetiere::protocol::{AnswerFault, CheckedFault, SetupError};
use panetiere::sig::SigError;
use panetiere::wire::DecodeError;
use tlog::key::KeyError;
use tlog::quorum::QuorumError;

/// Why a leaf counts for nothing. The log keeps it; everybody who folds the log passes over it for the same reason.
///
/// A void leaf accuses nobody by itself: who put it there is the bulletin, and what it holds may have been made by
/// anyone, unless a signature in it says otherwise. Where it does, [`Fault::attribution`] names the signer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Void {
    /// The round is not where this leaf belongs.
    #[error("round {round} is {phase}: {expected}")]
    Phase {
        /// The round.
        round: RoundId,
        /// Where it is.
        phase: &'static str,
        /// What the leaf needs.
        expected: &'static str,
    },
    /// An answer that nobody asked for.
    #[error("server {server} does not complain about client {client}")]
    AnswerToNothing {
        /// The server.
        server: ServerId,
        /// The client.
        client: ClientId,
    },
    /// An answer that is none.
    #[error("not an answer of this round")]
    Answer(#[source] AnswerFault),
    /// A close that does not say what the leaves before it say.
    #[error(
        "the close names {found_clients} clients, set {found}, posts {found_posts}; the leaves give {expected_clients}, {expected}, {expected_posts}"
    )]
    BadClose {
        /// Clients that follow from the leaves.
        expected_clients: u32,
        /// Clients that the close names.
        found_clients: u32,
        /// The set that follows.
        expected: SetDigest,
        /// The set that is named.
        found: SetDigest,
        /// The posts that follow.
        expected_posts: PostsDigest,
        /// The posts that are named.
        found_posts: PostsDigest,
    },
    /// A close for which too few clients are left.
    #[error("{found} clients are left, the epoch's floor is {floor}")]
    BelowFloor {
        /// Clients left.
        found: usize,
        /// The floor.
        floor: u32,
    },
    /// A server's statement on its envelopes that is none.
    #[error("not a statement of this round on its envelopes")]
    Checked(#[source] CheckedFault),
    /// A ciphertext that another client of the round has posted before.
    #[error("client {client} posts the ciphertext of client {first}")]
    CopiedCiphertext {
        /// Who posts it again.
        client: ClientId,
        /// Who posted it first.
        first: ClientId,
    },
    /// A commitment that another client of the round has posted before.
    #[error("client {client} posts the commitment of client {first}")]
    CopiedRoot {
        /// Who posts it again.
        client: ClientId,
        /// Who posted it first.
        first: ClientId,
    },
    /// A key that is admitted already.
    #[error("the key is that of client {client}")]
    DuplicateKey {
        /// Whose it is.
        client: ClientId,
    },
    /// An epoch that does not follow the one before it.
    #[error("epoch {found} after {expected_previous:?} with number {expected} due")]
    EpochChain {
        /// The number that is due.
        expected: EpochId,
        /// The number in the leaf.
        found: EpochId,
        /// The epoch that it has to follow.
        expected_previous: Option<EpochDigest>,
    },
    /// An epoch that has opened all its rounds.
    #[error("epoch {epoch} has opened its {rounds} rounds")]
    EpochOver {
        /// The epoch.
        epoch: EpochId,
        /// Rounds it may open.
        rounds: u32,
    },
    /// An epoch whose lists do not fit its terms.
    #[error("the terms are for {expected} {what}, the document has {found}")]
    EpochRoster {
        /// Servers, lanes or aggregators.
        what: &'static str,
        /// By the terms.
        expected: usize,
        /// By the document.
        found: usize,
    },
    /// An epoch whose terms are those of no round.
    #[error("the terms of the epoch are of no round")]
    EpochTerms(#[source] SetupError),
    /// An epoch with keys that are no witnesses.
    #[error("the epoch's witnesses make no quorum")]
    EpochWitnesses(#[source] QuorumError),
    /// An epoch without rounds.
    #[error("an epoch has at least one round")]
    EpochWithoutRounds,
    /// An expulsion whose evidence is none.
    #[error("not evidence")]
    Evidence(#[source] EvidenceError),
    /// An expulsion whose evidence does not parse.
    #[error("the evidence does not parse")]
    EvidenceMalformed(#[source] DecodeError),
    /// An expulsion whose evidence convicts another, or nobody.
    #[error("the evidence does not convict client {client} in this session")]
    EvidenceOther {
        /// Who was to be expelled.
        client: ClientId,
    },
    /// An expulsion whose evidence is larger than any.
    #[error("evidence of {found} bytes, at most {limit} are read")]
    EvidenceSize {
        /// Bytes named.
        found: u64,
        /// Bytes read at most.
        limit: u64,
    },
    /// A group's sum over clients that are not in the set or posted something else.
    #[error(
        "the sum of aggregator {aggregator} covers client {client}, which is not in the set with this post"
    )]
    GroupMember {
        /// Who signed it.
        aggregator: AggregatorId,
        /// The client.
        client: ClientId,
    },
    /// A group's sum over clients that another one covers.
    #[error(
        "the sum of aggregator {aggregator} covers client {client}, which the sum of {first} covers already"
    )]
    GroupOverlap {
        /// Who signed it.
        aggregator: AggregatorId,
        /// The client.
        client: ClientId,
        /// Whose sum covers it.
        first: AggregatorId,
    },
    /// A key of the log that is none.
    #[error("not a key that can sign for the log")]
    LogKey(#[source] KeyError),
    /// A lane's sum that is not for the close.
    #[error("a sum of lane {lane} that is not over the closed round")]
    LanePurpose {
        /// The lane.
        lane: NodeId,
    },
    /// No leaf at all.
    #[error("not a leaf")]
    Malformed(#[source] DecodeError),
    /// Named parameters, epoch or deployment are not those of the session.
    #[error("the {what} is not that of the session")]
    OtherContext {
        /// What differs.
        what: &'static str,
    },
    /// A leaf for another deployment.
    #[error("a leaf of another deployment")]
    OtherDeployment,
    /// A sum or result over another set.
    #[error(
        "it is over set {found} with posts {found_posts}, the round closed over {expected} with {expected_posts}"
    )]
    OtherSet {
        /// The canonical set.
        expected: SetDigest,
        /// The set named.
        found: SetDigest,
        /// The canonical posts.
        expected_posts: PostsDigest,
        /// The posts named.
        found_posts: PostsDigest,
    },
    /// A post that is none of this round.
    #[error("not a post of this round")]
    Post(#[source] StatementError),
    /// A client that is admitted no more.
    #[error("client {client} was revoked")]
    Revoked {
        /// The client.
        client: ClientId,
    },
    /// A round other than the next.
    #[error("round {found} is opened, {expected} is due")]
    RoundOrder {
        /// The next.
        expected: RoundId,
        /// The one in the leaf.
        found: RoundId,
    },
    /// A round of a kind that the epoch does not have.
    #[error("the epoch has no rounds of this kind")]
    RoundKind,
    /// A second leaf where only the first counts: it says something else.
    #[error("a second {what} of {who:?} for the session, which says something else")]
    SecondDiffers {
        /// What it is.
        what: &'static str,
        /// Whose.
        who: Attribution,
    },
    /// A second leaf where only the first counts: it says the same.
    #[error("the {what} of {who:?} stands in the log already")]
    SecondSame {
        /// What it is.
        what: &'static str,
        /// Whose.
        who: Attribution,
    },
    /// Not signed by whom it speaks for. Anyone can write such bytes.
    #[error("the {what} is not signed by whom it speaks for")]
    Signature {
        /// What it is.
        what: &'static str,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// A close before enough servers have checked.
    #[error("{found} servers have checked, {needed} are needed")]
    TooFewChecked {
        /// That many are needed: the threshold.
        needed: u16,
        /// That many have.
        found: usize,
    },
    /// A round has as many posts as it takes.
    #[error("the round has {max} posts and takes no more")]
    TooManyPosts {
        /// As many.
        max: u32,
    },
    /// An aggregator that the epoch does not have.
    #[error("the epoch has no aggregator {aggregator}")]
    UnknownAggregator {
        /// The id.
        aggregator: AggregatorId,
    },
    /// A client that the epoch does not have.
    #[error("client {client} is not admitted")]
    UnknownClient {
        /// The id.
        client: ClientId,
    },
    /// An epoch that is not there, or no more.
    #[error("epoch {epoch} is none of the log's latest")]
    UnknownEpoch {
        /// Its digest.
        epoch: EpochDigest,
    },
    /// A lane that the epoch does not have.
    #[error("the epoch has no lane {lane}")]
    UnknownLane {
        /// The id.
        lane: NodeId,
    },
    /// A recipient that the epoch does not have.
    #[error("no recipient of the epoch signed this result")]
    UnknownRecipient,
    /// A server that the epoch does not have.
    #[error("the epoch has no server {server}")]
    UnknownServer {
        /// The id.
        server: ServerId,
    },
    /// A session that is not there, or no more.
    #[error("the session is none of the log's latest")]
    UnknownSession,
}

impl Fault for Void {
    fn code(&self) -> &'static str {
        match self {
            Self::Phase { .. } => "leaf_phase",
            Self::AnswerToNothing { .. } => "leaf_answer_to_nothing",
            Self::Answer(fault) => fault.code(),
            Self::BadClose { .. } => "leaf_bad_close",
            Self::BelowFloor { .. } => "leaf_below_floor",
            Self::Checked(fault) => fault.code(),
            Self::CopiedCiphertext { .. } => "leaf_copied_ciphertext",
            Self::CopiedRoot { .. } => "leaf_copied_root",
            Self::DuplicateKey { .. } => "leaf_duplicate_key",
            Self::EpochChain { .. } => "leaf_epoch_chain",
            Self::EpochOver { .. } => "leaf_epoch_over",
            Self::EpochRoster { .. } => "leaf_epoch_roster",
            Self::EpochTerms(error) => error.code(),
            Self::EpochWitnesses(error) => error.code(),
            Self::EpochWithoutRounds => "leaf_epoch_without_rounds",
            Self::Evidence(error) => error.code(),
            Self::EvidenceMalformed(_) => "leaf_evidence_malformed",
            Self::EvidenceOther { .. } => "leaf_evidence_other",
            Self::EvidenceSize { .. } => "leaf_evidence_size",
            Self::GroupMember { .. } => "leaf_group_member",
            Self::GroupOverlap { .. } => "leaf_group_overlap",
            Self::LogKey(error) => error.code(),
            Self::LanePurpose { .. } => "leaf_lane_purpose",
            Self::Malformed(_) => "leaf_malformed",
            Self::OtherContext { .. } => "leaf_other_context",
            Self::OtherDeployment => "leaf_other_deployment",
            Self::OtherSet { .. } => "leaf_other_set",
            Self::Post(error) => error.code(),
            Self::Revoked { .. } => "leaf_revoked",
            Self::RoundOrder { .. } => "leaf_round_order",
            Self::RoundKind => "leaf_round_kind",
            Self::SecondDiffers { .. } => "leaf_second_differs",
            Self::SecondSame { .. } => "leaf_second_same",
            Self::Signature { .. } => "leaf_signature",
            Self::TooFewChecked { .. } => "leaf_too_few_checked",
            Self::TooManyPosts { .. } => "leaf_too_many_posts",
            Self::UnknownAggregator { .. } => "leaf_unknown_aggregator",
            Self::UnknownClient { .. } => "leaf_unknown_client",
            Self::UnknownEpoch { .. } => "leaf_unknown_epoch",
            Self::UnknownLane { .. } => "leaf_unknown_lane",
            Self::UnknownRecipient => "leaf_unknown_recipient",
            Self::UnknownServer { .. } => "leaf_unknown_server",
            Self::UnknownSession => "leaf_unknown_session",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            // The log signed a set that its own leaves contradict.
            Self::BadClose { .. } => Attribution::Operator,
            Self::Answer(fault) => fault.attribution(),
            Self::Checked(fault) => fault.attribution(),
            Self::Post(error) => error.attribution(),
            // Both statements carry the signature of the one they name.
            Self::SecondDiffers { who, .. } => *who,
            _ => Attribution::Nobody,
        }
    }
}
