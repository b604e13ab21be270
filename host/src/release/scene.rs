//! A small log around one session, for tests: real hashes and the set by the rule of the log.

use super::{Closing, Derived, Limits, PlacedLeaf, Record, SummedSet};
use panetiere::ids::SessionId;
use sha2::{Digest as _, Sha256};
use tlog::checkpoint::{Origin, TreeHead};
use tlog::merkle::{leaf_hash, root};
use tlog::quorum::QuorumError;

/// A leaf as the session sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// Of no meaning for the session.
    Other(u8),
    /// Opens the session.
    Open,
    /// A client's post.
    Post(u8),
    /// Closes the session over what was posted, as the log operator says.
    Close,
}

/// One history of the log, up to some size.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) leaves: Vec<Leaf>,
    hashes: Vec<[u8; 32]>,
}

pub(crate) fn origin() -> Origin {
    "log.example/release".parse().unwrap()
}

fn digest<T: std::str::FromStr<Err: std::fmt::Debug>>(label: &str, bytes: &[u8]) -> T {
    let digest = Sha256::new().chain_update(label).chain_update(bytes).finalize();
    data_encoding::HEXLOWER.encode(&digest).parse().unwrap()
}

/// The set of these clients.
pub(crate) fn summed(clients: &[u8]) -> SummedSet {
    let clients_count = u32::try_from(clients.len()).unwrap();
    SummedSet { set: digest("set", clients), posts: digest("posts", clients), clients: clients_count }
}

impl History {
    pub(crate) fn new(leaves: &[Leaf]) -> Self {
        let mut before = Vec::new();
        let mut hashes = Vec::new();
        for leaf in leaves {
            // A close states what was posted, so two closes over different posts are different leaves.
            let bytes = match leaf {
                Leaf::Close => format!("{before:?}"),
                _ => format!("{leaf:?}"),
            };
            hashes.push(leaf_hash(bytes.as_bytes()));
            before.push(*leaf);
        }
        Self { leaves: leaves.to_vec(), hashes }
    }

    pub(crate) fn hashes(&self) -> &[[u8; 32]] {
        &self.hashes
    }

    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.leaves.len()).unwrap()
    }

    pub(crate) fn head(&self) -> TreeHead {
        TreeHead { size: self.size(), root: root(&self.hashes) }
    }

    fn at(&self, index: usize) -> PlacedLeaf {
        PlacedLeaf { index: u64::try_from(index).unwrap(), hash: self.hashes[index] }
    }

    fn opened(&self) -> usize {
        self.leaves.iter().position(|leaf| *leaf == Leaf::Open).unwrap()
    }

    pub(crate) fn session(&self) -> SessionId {
        let open = self.opened();
        SessionId::derive(origin().as_str(), u64::try_from(open).unwrap(), &self.hashes[open])
    }

    /// Places of the closes, in order.
    pub(crate) fn closes(&self) -> Vec<usize> {
        (0..self.leaves.len()).filter(|index| self.leaves[*index] == Leaf::Close).collect()
    }

    /// The set between the open and a close.
    pub(crate) fn set(&self, close: usize) -> SummedSet {
        let between = self.leaves[self.opened()..close].iter();
        let clients = between.filter_map(|leaf| match leaf {
            Leaf::Post(client) => Some(*client),
            _ => None,
        });
        summed(&clients.collect::<Vec<_>>())
    }

    /// What an honest server knows that is shown this history, up to its end, with this close.
    pub(crate) fn closing<'a>(
        &self,
        origin: &'a Origin,
        close: usize,
        checkpoint: Result<TreeHead, QuorumError>,
        record: Record,
    ) -> Closing<'a> {
        let set = self.set(close);
        Closing {
            session: self.session(),
            origin,
            checkpoint,
            read: Some(self.head()),
            split_view: false,
            open: self.at(self.opened()),
            close: self.at(close),
            stated: (set.set, set.clients),
            derived: Derived {
                first_close: self.closes().first().map(|first| u64::try_from(*first).unwrap()),
                summed: set,
                platforms: set.clients,
                not_admitted: None,
                not_verified: None,
            },
            limits: Limits { min_clients: 2, max_clients: 8, min_platforms: 1 },
            record,
        }
    }
}
