//! Lane items: verified as they arrive, and rebuilt from other lanes' items where one is missing.
//!
//! A client is at fault only for a body that it signed: one that stands under the root of its statement. Any other bad
//! bytes are undelivered, and are to be fetched again or rebuilt.

use super::client_rs::item_body;
use super::lane_params::LaneCode;
use super::params::ProtocolParams;
use crate::bulletin::{LaneItem, VerifiedPost, readdress};
use crate::cs::OpeningError;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{ClientId, NodeId, RootDigest};
use crate::rs::{RsError, Share};
use crate::share_commitment::{SharePath, VerifiedShare};
use crate::wire::{DecodeError, DecodeWith, Reader};
use rayon::prelude::*;

/// A lane item was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemFault {
    /// This client's item is in the sum already.
    #[error("the item of client {client} was received before")]
    AlreadyReceived {
        /// The client.
        client: ClientId,
    },
    /// The share does not open the root that the client signed.
    #[error("the share of client {client} for lane {lane} does not open its commitment")]
    BadShare {
        /// The client.
        client: ClientId,
        /// The lane.
        lane: NodeId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// This lane has answered its set: nothing is added any more.
    #[error("the item of client {client} came after this session was answered")]
    Closed {
        /// The client.
        client: ClientId,
    },
    /// The body that the client signed is no share with a path.
    #[error("the item of client {client} for lane {lane} does not parse")]
    Malformed {
        /// The client.
        client: ClientId,
        /// The lane.
        lane: NodeId,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The bytes are bad and not those that the client signed: undelivered, to be fetched again or rebuilt.
    #[error("the item delivered for client {client} and lane {lane} is not the one the client signed")]
    NotInPost {
        /// The client.
        client: ClientId,
        /// The lane.
        lane: NodeId,
    },
    /// The deployment has no such lane.
    #[error("an item for lane {lane}: there are {lanes} lanes")]
    UnknownLane {
        /// The id.
        lane: NodeId,
        /// Lanes of the deployment.
        lanes: u16,
    },
    /// Post and item belong to different clients.
    #[error("an item of client {found} was paired with the post of client {expected}")]
    WrongClient {
        /// Whose post it is.
        expected: ClientId,
        /// Whose item it is.
        found: ClientId,
    },
    /// This lane holds the key of another epoch than the round's.
    #[error("lane {lane} holds the key of another epoch than this round's")]
    WrongEpoch {
        /// The lane.
        lane: NodeId,
    },
    /// The item is for another lane.
    #[error("an item for lane {found} reached lane {expected}")]
    WrongLane {
        /// This lane.
        expected: NodeId,
        /// The addressee.
        found: NodeId,
    },
    /// The post belongs to a round without lanes.
    #[error("the post of client {client} was verified for a round without lanes")]
    WrongMode {
        /// The client.
        client: ClientId,
    },
    /// The post was checked under the parameters of another round: what its client signed is right there.
    #[error("the post of client {client} was checked under other parameters than this round's")]
    WrongParams {
        /// The client.
        client: ClientId,
    },
    /// The post belongs to another session.
    #[error("the post of client {client} was verified for another session")]
    WrongSession {
        /// The client.
        client: ClientId,
    },
}

impl Fault for ItemFault {
    fn code(&self) -> &'static str {
        match self {
            Self::AlreadyReceived { .. } => "item_already_received",
            Self::BadShare { .. } => "item_bad_share",
            Self::Closed { .. } => "item_closed",
            Self::Malformed { .. } => "item_malformed",
            Self::NotInPost { .. } => "item_not_in_post",
            Self::UnknownLane { .. } => "item_unknown_lane",
            Self::WrongClient { .. } => "item_wrong_client",
            Self::WrongEpoch { .. } => "item_wrong_epoch",
            Self::WrongLane { .. } => "item_wrong_lane",
            Self::WrongMode { .. } => "item_wrong_mode",
            Self::WrongParams { .. } => "item_wrong_params",
            Self::WrongSession { .. } => "item_wrong_session",
        }
    }

    /// A client is named only for bytes under its own signature.
    fn attribution(&self) -> Attribution {
        match self {
            Self::BadShare { client, .. } | Self::Malformed { client, .. } => Attribution::Client(*client),
            Self::WrongEpoch { .. } => Attribution::Operator,
            Self::AlreadyReceived { .. }
            | Self::WrongClient { .. }
            | Self::WrongMode { .. }
            | Self::WrongParams { .. }
            | Self::WrongSession { .. } => Attribution::Caller,
            Self::Closed { .. }
            | Self::NotInPost { .. }
            | Self::UnknownLane { .. }
            | Self::WrongLane { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        if matches!(self, Self::NotInPost { .. }) { Retry::SameRequest } else { Retry::Never }
    }
}

/// An item whose share opens the root that its client signed.
#[derive(Debug)]
pub struct VerifiedItem<'a> {
    pub(super) post: &'a VerifiedPost,
    pub(super) item: &'a LaneItem,
    pub(super) share: VerifiedShare,
}

impl VerifiedItem<'_> {
    /// Whose item it is.
    pub const fn client(&self) -> ClientId {
        self.item.client
    }

    /// Whose leaf it opens.
    pub const fn lane(&self) -> NodeId {
        self.item.lane
    }
}

fn parse_body(code: &LaneCode, body: &[u8]) -> Result<(Share, SharePath), DecodeError> {
    let mut reader = Reader::new(body);
    let share = reader.field(code.rs().share_len(), "coded share", |bytes| code.rs().unpack_share(bytes))?;
    let path = SharePath::decode_with(code.commitment(), &mut reader)?;
    reader.finish()?;
    Ok((share, path))
}

/// Verifies one client's item against the root that the client signed. Whether it was delivered as it was signed matters
/// only for a bad one: a good share is good whoever brings it.
///
/// # Errors
/// Each way to fail has its own [`ItemFault`]; a client is named only for bytes it signed.
pub fn verify_item<'a>(
    params: &ProtocolParams,
    post: &'a VerifiedPost,
    item: &'a LaneItem,
) -> Result<VerifiedItem<'a>, ItemFault> {
    open_item(params, post, item).map(|share| VerifiedItem { post, item, share })
}

/// The code of the round and the share commitment of a post that belongs to it.
fn own_post<'a>(
    params: &'a ProtocolParams,
    post: &'a VerifiedPost,
) -> Result<(&'a LaneCode, &'a RootDigest), ItemFault> {
    let (client, statement) = (post.client(), post.statement());
    let stated = (statement.deployment, statement.epoch, statement.crs, statement.mode);
    if stated != (*params.deployment(), *params.epoch(), *params.crs_digest(), params.mode()) {
        return Err(ItemFault::WrongParams { client });
    }
    params.lane_code().zip(post.share_root()).ok_or(ItemFault::WrongMode { client })
}

/// The share of an item, verified.
pub(super) fn open_item(
    params: &ProtocolParams,
    post: &VerifiedPost,
    item: &LaneItem,
) -> Result<VerifiedShare, ItemFault> {
    let (client, lane) = (post.client(), item.lane);
    if item.client != client {
        return Err(ItemFault::WrongClient { expected: client, found: item.client });
    }
    let (code, root) = own_post(params, post)?;
    let lanes = code.shape().lanes;
    if lane.0 >= lanes {
        return Err(ItemFault::UnknownLane { lane, lanes });
    }
    let blame = |fault| {
        let signed = item.is_under(&post.statement().envelopes, params);
        if signed { fault } else { ItemFault::NotInPost { client, lane } }
    };
    let (share, path) = parse_body(code, &item.body)
        .map_err(|source| blame(ItemFault::Malformed { client, lane, source }))?;
    code.commitment()
        .verify_share(lane, share, &path, root)
        .map_err(|source| blame(ItemFault::BadShare { client, lane, source }))
}

/// A missing item was not rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// One of the items given was refused.
    #[error("an item to rebuild from was refused")]
    Item(#[source] ItemFault),
    /// Verified shares do not determine the root that the client signed: it committed to no codeword. The items given
    /// prove it, k of them.
    #[error("client {client} committed to shares that are no codeword")]
    NotACodeword {
        /// The client.
        client: ClientId,
    },
    /// The items given do not make a selection: one lane twice, or fewer than k.
    #[error("the items do not suffice")]
    Selection(#[source] RsError),
}

impl Fault for RebuildError {
    fn code(&self) -> &'static str {
        match self {
            Self::Item(fault) => fault.code(),
            Self::NotACodeword { .. } => "rebuild_not_a_codeword",
            Self::Selection(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Item(fault) => fault.attribution(),
            Self::NotACodeword { client } => Attribution::Client(*client),
            Self::Selection(error) => error.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Item(fault) => fault.retry(),
            Self::Selection(RsError::TooFew { .. }) => Retry::SameRequest,
            Self::NotACodeword { .. } | Self::Selection(_) => Retry::Never,
        }
    }
}

/// Rebuilds the item of `lane` from the items of any k other lanes, byte for byte what an honest client sent: the share
/// from the verified shares, its siblings from the leaves of all n rebuilt shares. Ciphertext shares are public, so this
/// reveals nothing.
///
/// Any k verified shares determine the codeword and it determines the root, so a client that committed to anything else
/// is found here even with exactly k.
///
/// # Errors
/// `Item` with the first item refused; `Selection` for fewer than k items or one lane twice; `NotACodeword` if the
/// client's root is not that of the codeword.
pub fn rebuild_item(
    params: &ProtocolParams,
    post: &VerifiedPost,
    lane: NodeId,
    items: &[LaneItem],
) -> Result<LaneItem, RebuildError> {
    let client = post.client();
    let (code, root) = own_post(params, post).map_err(RebuildError::Item)?;
    let lanes = code.shape().lanes;
    if lane.0 >= lanes {
        return Err(RebuildError::Item(ItemFault::UnknownLane { lane, lanes }));
    }
    let opened: Vec<Result<VerifiedShare, ItemFault>> =
        items.par_iter().map(|item| open_item(params, post, item)).collect();
    let mut shares = Vec::with_capacity(opened.len());
    for (item, opened) in items.iter().zip(opened) {
        shares.push((item.lane, opened.map_err(RebuildError::Item)?));
    }
    let samples: Vec<(NodeId, &Share)> =
        shares.iter().map(|(lane, verified)| (*lane, verified.share())).collect();
    let shares = code.rs().complete(&samples).map_err(|error| match error {
        RsError::NotACodeword { .. } => RebuildError::NotACodeword { client },
        error => RebuildError::Selection(error),
    })?;
    let (commitment, paths) = code.commitment().commit(&shares);
    if commitment.digest(params.lattice()) != *root {
        return Err(RebuildError::NotACodeword { client });
    }
    let body = |(share, path)| item_body(code, path, Vec::new(), |body| code.rs().pack(share, body));
    let bodies: Vec<Vec<u8>> = shares.par_iter().zip(&paths).map(body).collect();
    // The last hash of an item's path is the root over the envelopes, the same for all lanes. It serves only to blame,
    // and nobody is blamed for a share that has just been verified, so it need not be.
    let envelopes = items.iter().find_map(|item| item.path.last().copied());
    Ok(readdress(client, lane, bodies, envelopes.unwrap_or_default()))
}
