//! The posts of a round part by part, with what is not to be had, and a record of what was asked for.

use super::Round;
use crate::bulletin::{ClientBulletinEntry, SignedPost};
use crate::cs::Commitment;
use crate::ids::ClientId;
use crate::protocol::PostSource;
use crate::sig::VerifyingKey;
use std::collections::BTreeSet;

/// A bulletin's posts as a recipient fetches them.
#[derive(Debug)]
pub struct RoundPosts<'a> {
    round: &'a Round<'a>,
    /// Clients whose commitment nobody delivers.
    pub no_commitment: BTreeSet<ClientId>,
    /// Clients whose ciphertext nobody delivers.
    pub no_ciphertext: BTreeSet<ClientId>,
    /// Commitments that were asked for, in order.
    pub commitments: Vec<ClientId>,
    /// Ciphertexts that were asked for, in order.
    pub ciphertexts: Vec<ClientId>,
}

impl<'a> RoundPosts<'a> {
    pub(super) const fn new(round: &'a Round<'a>) -> Self {
        Self {
            round,
            no_commitment: BTreeSet::new(),
            no_ciphertext: BTreeSet::new(),
            commitments: Vec::new(),
            ciphertexts: Vec::new(),
        }
    }

    fn post(&self, client: ClientId) -> Option<ClientBulletinEntry> {
        self.round.fetch(client).map(|(_, post)| post)
    }
}

impl PostSource for RoundPosts<'_> {
    fn statement(&mut self, client: ClientId) -> Option<(VerifyingKey, SignedPost)> {
        self.round.fetch(client).map(|(key, post)| (key, post.head.signed))
    }

    fn commitment(&mut self, client: ClientId) -> Option<Commitment> {
        self.commitments.push(client);
        self.post(client).filter(|_| !self.no_commitment.contains(&client)).map(|post| post.head.commitment)
    }

    fn ciphertext(&mut self, client: ClientId) -> Option<Vec<u8>> {
        self.ciphertexts.push(client);
        self.post(client).filter(|_| !self.no_ciphertext.contains(&client)).map(|post| post.ciphertext)
    }
}
