//! Clients of a round with lanes that sign what is no share, or shares that are no codeword.

use super::{Scene, Sent};
use crate::participate::Post;
use crate::round::{Blobs, Unavailable};
use panetiere::bulletin::{RsClientBulletinEntry, SignedPost, delivery_root};
use panetiere::rs::Share;
use std::collections::BTreeMap;

/// Blobs in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs(BTreeMap<[u8; 32], Vec<u8>>);

impl MemoryBlobs {
    /// Keeps a blob.
    pub fn keep(&mut self, bytes: Vec<u8>) {
        self.0.insert(blake3::hash(&bytes).into(), bytes);
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(Vec::as_slice)
    }
}

impl Blobs for MemoryBlobs {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        let missing = || Unavailable { digest: *digest, len, reason: "nobody has kept it".to_owned() };
        self.0.get(digest).cloned().ok_or_else(missing)
    }
}

impl Scene {
    /// The same client, delivering these bodies to the lanes and signing them under its old commitment.
    ///
    /// # Panics
    /// Without lanes.
    pub fn with_bodies(&self, sent: Sent, bodies: Vec<Vec<u8>>) -> Sent {
        let client = sent.client();
        let Post::Rs(post) = sent.post else { panic!("a round with lanes") };
        let sealed = sent.envelopes.into_iter().map(|envelope| (envelope.key, envelope.sealed));
        let (root, envelopes, items) = delivery_root(client, sealed, bodies);
        let mut statement = post.signed.claim().clone();
        statement.envelopes = root;
        let signed = SignedPost::sign(statement, &self.net.party(client).signing_key);
        let post = Post::Rs(RsClientBulletinEntry { signed, ..post });
        Sent { post, envelopes, items, ..sent }
    }

    /// The same client with the share of another one's ciphertext at `lane`, committed to and signed: everything verifies but
    /// the code.
    ///
    /// # Panics
    /// Without lanes.
    pub fn non_codeword(&self, sent: Sent, other: &Sent, lane: u16) -> Sent {
        let code = self.net.params.lane_code().expect("a round with lanes");
        let rs = code.rs();
        let shares = |sent: &Sent| -> Vec<Share> {
            let share = |body: &[u8]| rs.unpack_share(&body[..rs.share_len()]).expect("an honest share");
            sent.items.iter().map(|item| share(&item.body)).collect()
        };
        let mut mixed = shares(&sent);
        mixed[usize::from(lane)] = shares(other).swap_remove(lane.into());
        let (commitment, paths) = code.commitment().commit(&mixed);
        let bodies = mixed.iter().zip(&paths).map(|(share, path)| {
            let mut body = Vec::new();
            rs.pack(share, &mut body);
            path.encode(code.commitment(), &mut body);
            body
        });
        let client = sent.client();
        let mut cheat = self.with_bodies(sent, bodies.collect());
        let Post::Rs(post) = &mut cheat.post else { unreachable!("as it was sent") };
        let mut statement = post.signed.claim().clone();
        statement.roots[1] = commitment.digest(self.net.params.lattice());
        post.signed = SignedPost::sign(statement, &self.net.party(client).signing_key);
        post.share_commitment = commitment;
        cheat
    }
}
