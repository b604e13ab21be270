//! The running sum over the posts of one canonical set.
//!
//! Posts are checked, digested and added block by block, while a block is in the cache. A post that is still on its way
//! is an [`IncomingPost`]: refused at its head if that is wrong, added as its bytes come, and taken off again if they
//! turn out not to be those that its client signed. Never two at once, so of the clients only the
//! heads of their posts stay in memory.

use super::params::ProtocolParams;
use crate::bulletin::{
    CanonicalSet, PostHead, PostView, StatementError, VerifiedPost, ciphertext_digest, posts_digest,
};
use crate::cs::Commitment;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{CiphertextDigest, ClientId, PostsDigest, SessionId};
use crate::kahe::{CiphertextSum, KaheError};
use crate::sig::VerifyingKey;
use chipmunk::ring::pack::PackError;
use chipmunk::ring::{Coeff, Hvc, Poly};
use std::collections::BTreeMap;

/// A post was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostFault {
    /// This client's post is in the sum already.
    #[error("the post of client {client} was added before")]
    AlreadyAdded {
        /// The client.
        client: ClientId,
    },
    /// The body is not the one that the client signed: altered or mixed up on its way, to be fetched again. If nobody
    /// can produce it, the client may also have signed the digest of nothing.
    #[error("the {part} delivered for client {client} is not the one it signed")]
    BodyMismatch {
        /// The client.
        client: ClientId,
        /// Which part.
        part: &'static str,
    },
    /// The ciphertext cannot be added: it does not parse, and the client signed it so, or the sum is full.
    #[error("the ciphertext of client {client} cannot be added")]
    Ciphertext {
        /// The client.
        client: ClientId,
        /// What is wrong with it.
        #[source]
        source: KaheError,
    },
    /// This client's post is not in the sum.
    #[error("the post of client {client} was not added")]
    NotAdded {
        /// The client.
        client: ClientId,
    },
    /// The client is not in the canonical set.
    #[error("client {client} is not in the canonical set")]
    NotInSet {
        /// The client.
        client: ClientId,
    },
    /// The statement was refused.
    #[error("the statement was refused")]
    Statement(#[source] StatementError),
    /// The post asked for is another client's.
    #[error("asked for the post of client {expected}, got that of client {found}")]
    WrongClient {
        /// Whose post was asked for.
        expected: ClientId,
        /// Whose post came.
        found: ClientId,
    },
}

impl Fault for PostFault {
    fn code(&self) -> &'static str {
        match self {
            Self::AlreadyAdded { .. } => "post_already_added",
            Self::BodyMismatch { .. } => "post_body_mismatch",
            Self::Ciphertext { .. } => "post_ciphertext",
            Self::NotAdded { .. } => "post_not_added",
            Self::NotInSet { .. } => "post_not_in_set",
            Self::Statement(error) => error.code(),
            Self::WrongClient { .. } => "post_wrong_client",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::AlreadyAdded { .. }
            | Self::NotAdded { .. }
            | Self::NotInSet { .. }
            | Self::WrongClient { .. } => Attribution::Caller,
            // The bulletin may have altered it, the client may have signed what does not exist.
            Self::BodyMismatch { .. } => Attribution::Nobody,
            // Only what the client signed is its own; that there are too many clients is not.
            Self::Ciphertext { client, source: KaheError::Malformed { .. } } => Attribution::Client(*client),
            Self::Ciphertext { source, .. } => source.attribution(),
            Self::Statement(error) => error.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        if matches!(self, Self::BodyMismatch { .. }) { Retry::SameRequest } else { Retry::Never }
    }
}

/// The running sum over the posts of one canonical set.
#[derive(Debug)]
pub struct PostSum<'a> {
    params: &'a ProtocolParams,
    session: SessionId,
    canonical: &'a CanonicalSet,
    ciphertexts: CiphertextSum,
    roots: Poly<Hvc, Coeff>,
    added: BTreeMap<ClientId, VerifiedPost>,
    /// The commitments of those posts: evidence against a server is made of them.
    commitments: BTreeMap<ClientId, Commitment>,
    /// Memory of the post on its way, kept from one to the next.
    buffer: Vec<u8>,
}

impl<'a> PostSum<'a> {
    /// The empty sum of a session over `canonical`.
    pub fn new(params: &'a ProtocolParams, session: SessionId, canonical: &'a CanonicalSet) -> Self {
        Self {
            params,
            session,
            canonical,
            ciphertexts: CiphertextSum::new(params.kahe()),
            roots: Poly::zero(),
            added: BTreeMap::new(),
            commitments: BTreeMap::new(),
            buffer: Vec::new(),
        }
    }

    /// Checks and adds one post that is here whole; `key` is the admitted key of the client it names.
    ///
    /// # Errors
    /// Each way to fail has its own [`PostFault`]; the sum is then unchanged.
    pub fn add<'p>(&mut self, key: &VerifyingKey, post: impl Into<PostView<'p>>) -> Result<(), PostFault> {
        let PostView { head, ciphertext } = post.into();
        let verified = self.check(key, &head)?;
        let mut progress = Progress::default();
        progress.advance(&mut self.ciphertexts, ciphertext, true);
        self.conclude(&verified, &head, progress, ciphertext)
    }

    /// Checks the head of a post whose ciphertext is still to come.
    ///
    /// # Errors
    /// What is wrong with the head: nothing of the ciphertext need be fetched then.
    pub fn begin(&mut self, key: &VerifyingKey, head: PostHead) -> Result<IncomingPost<'_, 'a>, PostFault> {
        let verified = self.check(key, &head)?;
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        bytes.reserve_exact(self.params.kahe().ciphertext_len());
        Ok(IncomingPost { sum: self, verified, head, bytes, progress: Progress::default() })
    }

    fn check(&self, key: &VerifyingKey, head: &PostHead) -> Result<VerifiedPost, PostFault> {
        let client = head.signed.claim().client;
        if !self.canonical.contains(client) {
            return Err(PostFault::NotInSet { client });
        }
        if self.added.contains_key(&client) {
            return Err(PostFault::AlreadyAdded { client });
        }
        let verified = head.signed.check(self.params, &self.session, key).map_err(PostFault::Statement)?;
        if head.commitment.digest(self.params.lattice()) != *verified.root() {
            return Err(PostFault::BodyMismatch { client, part: "commitment root" });
        }
        Ok(verified)
    }

    /// Counts a post whose polynomials are in the sum, or takes off those that are.
    fn conclude(
        &mut self,
        verified: &VerifiedPost,
        head: &PostHead,
        progress: Progress,
        ciphertext: &[u8],
    ) -> Result<(), PostFault> {
        let client = verified.client();
        let polys = progress.polys;
        // Whose fault a malformed body is depends on who made it so: first, whether it is the signed one.
        let outcome = if progress.digest() != verified.statement().ciphertext {
            Err(PostFault::BodyMismatch { client, part: "ciphertext" })
        } else {
            progress
                .complete(self.params.kahe().ciphertext_len(), ciphertext.len())
                .and_then(|()| self.ciphertexts.count_one())
                .map_err(|source| PostFault::Ciphertext { client, source })
        };
        match outcome {
            Ok(()) => {
                self.params.lattice().hvc.add_assign(&mut self.roots, head.commitment.root());
                self.added.insert(client, verified.clone());
                self.commitments.insert(client, head.commitment.clone());
            }
            Err(_) => self.ciphertexts.take_off(polys, ciphertext),
        }
        outcome
    }

    /// The parameters of the round.
    pub const fn params(&self) -> &'a ProtocolParams {
        self.params
    }

    /// The session.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// The set that the sum is to be over.
    pub const fn canonical(&self) -> &'a CanonicalSet {
        self.canonical
    }

    /// The sum of the ciphertexts so far.
    pub const fn ciphertexts(&self) -> &CiphertextSum {
        &self.ciphertexts
    }

    /// The sum of the commitment roots so far.
    pub const fn roots(&self) -> &Poly<Hvc, Coeff> {
        &self.roots
    }

    /// Which posts are in the sum: what a server has to have summed for its sum to open this one.
    pub fn digest(&self) -> PostsDigest {
        posts_digest(self.added.iter().map(|(client, post)| (client, post.root())))
    }

    /// The posts in the sum.
    pub(super) const fn added(&self) -> &BTreeMap<ClientId, VerifiedPost> {
        &self.added
    }

    /// The commitments whose sum [`roots`](Self::roots) is, in the order of the clients.
    pub(super) fn commitments(&self) -> impl Iterator<Item = &Commitment> {
        self.commitments.values()
    }

    /// Takes a post off again, from the bytes that it was added from.
    ///
    /// # Errors
    /// `NotAdded` if the client's post is not in the sum; `BodyMismatch` if these bytes are not those of the post that
    /// is. The sum is then unchanged.
    pub fn withdraw<'p>(&mut self, post: impl Into<PostView<'p>>) -> Result<(), PostFault> {
        let PostView { head, ciphertext } = post.into();
        let client = head.signed.claim().client;
        let Some(added) = self.added.get(&client) else { return Err(PostFault::NotAdded { client }) };
        let mismatch = |part| Err(PostFault::BodyMismatch { client, part });
        if head.commitment.digest(self.params.lattice()) != *added.root() {
            return mismatch("commitment root");
        }
        if ciphertext_digest(ciphertext) != added.statement().ciphertext {
            return mismatch("ciphertext");
        }
        self.ciphertexts.subtract(ciphertext);
        self.params.lattice().hvc.sub_assign(&mut self.roots, head.commitment.root());
        self.added.remove(&client);
        self.commitments.remove(&client);
        Ok(())
    }

    /// The first canonical client whose post is not in the sum.
    pub fn missing(&self) -> Option<ClientId> {
        self.canonical.clients().iter().copied().find(|client| !self.added.contains_key(client))
    }
}

/// A post on its way into a sum: its head was checked, its ciphertext is added as it comes. Dropped before
/// [`finish`](Self::finish), it leaves the sum as it was.
#[derive(Debug)]
pub struct IncomingPost<'s, 'a> {
    sum: &'s mut PostSum<'a>,
    verified: VerifiedPost,
    head: PostHead,
    /// What has come of the ciphertext: it has to come off again if the rest never does, or is another.
    bytes: Vec<u8>,
    progress: Progress,
}

impl IncomingPost<'_, '_> {
    /// Who posted.
    pub const fn client(&self) -> ClientId {
        self.verified.client()
    }

    /// Takes the next bytes of the ciphertext, in pieces of any size.
    ///
    /// # Errors
    /// `BodyMismatch` if there is more than the round's ciphertexts have; the piece is then ignored.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), PostFault> {
        let room = self.sum.params.kahe().ciphertext_len() - self.bytes.len();
        if piece.len() > room {
            return Err(PostFault::BodyMismatch { client: self.client(), part: "ciphertext" });
        }
        self.bytes.extend_from_slice(piece);
        self.progress.advance(&mut self.sum.ciphertexts, &self.bytes, piece.len() == room);
        Ok(())
    }

    /// Counts the post, now that all of it is here.
    ///
    /// # Errors
    /// `BodyMismatch` if it is not what its client signed, or not all has come; `Ciphertext` if what the client signed
    /// cannot be added. The sum is then as it was before this post.
    pub fn finish(mut self) -> Result<(), PostFault> {
        let mut progress = std::mem::take(&mut self.progress);
        progress.advance(&mut self.sum.ciphertexts, &self.bytes, true);
        self.sum.conclude(&self.verified, &self.head, progress, &self.bytes)
    }
}

impl Drop for IncomingPost<'_, '_> {
    fn drop(&mut self) {
        self.sum.ciphertexts.take_off(self.progress.polys, &self.bytes);
        self.sum.buffer = std::mem::take(&mut self.bytes);
    }
}

/// How much of a ciphertext was digested and added.
#[derive(Debug, Default)]
struct Progress {
    hasher: blake3::Hasher,
    hashed: usize,
    /// Polynomials in the sum.
    polys: usize,
    /// Why no more of them are added.
    refused: Option<KaheError>,
}

impl Progress {
    /// Polynomials that are digested and then added, while they are in the second-level cache: 344 kB under P300.
    const BLOCK: usize = 32;

    /// Digests and adds what is new in `bytes`, in whole blocks; with `last`, all of it.
    fn advance(&mut self, sum: &mut CiphertextSum, bytes: &[u8], last: bool) {
        let poly = sum.poly_len();
        while self.hashed < bytes.len() {
            let rest = &bytes[self.hashed..];
            if rest.len() < Self::BLOCK * poly && !last {
                return;
            }
            let block = &rest[..rest.len().min(Self::BLOCK * poly)];
            self.hasher.update_rayon(block);
            self.hashed += block.len();
            if self.refused.is_none() {
                let complete = self.hashed / poly;
                let new = bytes.get(self.polys * poly..complete * poly).unwrap_or_default();
                match sum.add_polys(self.polys, new) {
                    Ok(()) => self.polys = complete,
                    Err(refused) => self.refused = Some(refused),
                }
            }
        }
    }

    fn digest(&self) -> CiphertextDigest {
        CiphertextDigest::from_digest(self.hasher.finalize().into())
    }

    /// Whether all polynomials of a ciphertext are in the sum.
    fn complete(self, expected: usize, found: usize) -> Result<(), KaheError> {
        match self.refused {
            Some(refused) => Err(refused),
            None if expected == found => Ok(()),
            None => {
                let source = PackError::Length { expected, found };
                Err(KaheError::Malformed { poly: self.polys, source })
            }
        }
    }
}
