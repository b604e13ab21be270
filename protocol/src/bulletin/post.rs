//! A client's post: one signed statement in every mode, and in direct mode the body it speaks of.

use crate::cs::Commitment;
use crate::fault::{Attribution, Fault};
use crate::ids::{
    CiphertextDigest, ClientId, CrsDigest, DeploymentId, EnvelopeRoot, EpochDigest, RootDigest, SessionId,
    StatementDigest, tagged_sha256,
};
use crate::protocol::ProtocolParams;
use crate::share_commitment::ShareCommitment;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};

const DOMAIN: &str = "panetiere/post/v1";

/// How the ciphertext travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Mode {
    /// On the bulletin.
    Direct = 1,
    /// To an aggregator, which publishes its group's sum.
    Aggregated = 2,
    /// As coded shares, one a lane.
    Erasure = 3,
}

impl Mode {
    /// Commitment roots in a statement: the key shares', and with lanes the coded shares'.
    pub const fn roots(self) -> usize {
        match self {
            Self::Direct | Self::Aggregated => 1,
            Self::Erasure => 2,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let unknown = reader.fault("mode", DecodeErrorKind::OutOfRange);
        match reader.u8("mode")? {
            1 => Ok(Self::Direct),
            2 => Ok(Self::Aggregated),
            3 => Ok(Self::Erasure),
            _ => Err(unknown),
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Aggregated => "aggregated",
            Self::Erasure => "erasure",
        })
    }
}

/// What a client says of its post. The log's `Post` leaf is this and its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostStatement {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// Who posts.
    pub client: ClientId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// How the ciphertext travels.
    pub mode: Mode,
    /// SHA-256 of each packed commitment root, [`Mode::roots`] of them.
    pub roots: Vec<RootDigest>,
    /// BLAKE3 digest of the packed ciphertext.
    pub ciphertext: CiphertextDigest,
    /// Bytes of the packed ciphertext.
    pub ciphertext_len: u64,
    /// Root over everything the client delivers: the sealed openings, and in erasure mode the lane items.
    pub envelopes: EnvelopeRoot,
}

impl PostStatement {
    /// Bytes of a statement of this mode.
    pub const fn len(mode: Mode) -> usize {
        HEADER_LEN + 6 * 32 + ClientId::LEN + 1 + 8 + 32 * mode.roots()
    }
}

impl PostStatement {
    /// The statement of a direct or aggregated post.
    pub fn direct(
        params: &ProtocolParams,
        session: &SessionId,
        client: ClientId,
        commitment: &Commitment,
        ciphertext: &[u8],
        envelopes: EnvelopeRoot,
    ) -> Self {
        let roots = vec![commitment.digest(params.lattice())];
        Self::over(params, session, client, roots, ciphertext, envelopes)
    }

    /// The statement of a post in erasure mode: `deliveries` is the root over envelopes and lane items.
    pub fn erasure(
        params: &ProtocolParams,
        session: &SessionId,
        client: ClientId,
        (commitment, share_commitment): (&Commitment, &ShareCommitment),
        ciphertext: &[u8],
        deliveries: EnvelopeRoot,
    ) -> Self {
        let lattice = params.lattice();
        let roots = vec![commitment.digest(lattice), share_commitment.digest(lattice)];
        Self::over(params, session, client, roots, ciphertext, deliveries)
    }

    fn over(
        params: &ProtocolParams,
        session: &SessionId,
        client: ClientId,
        roots: Vec<RootDigest>,
        ciphertext: &[u8],
        envelopes: EnvelopeRoot,
    ) -> Self {
        Self {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *session,
            client,
            crs: *params.crs_digest(),
            mode: params.mode(),
            roots,
            ciphertext: ciphertext_digest(ciphertext),
            ciphertext_len: u64::try_from(ciphertext.len()).expect("a length fits 64 bits"),
            envelopes,
        }
    }
}

impl PostStatement {
    /// SHA-256 of the statement: names this post among all that a client may have signed.
    pub fn digest(&self) -> StatementDigest {
        StatementDigest::from_digest(tagged_sha256("panetiere/statement/v1", &[&self.to_bytes()]))
    }
}

/// BLAKE3 of a packed ciphertext.
pub(crate) fn ciphertext_digest(ciphertext: &[u8]) -> CiphertextDigest {
    CiphertextDigest::from_digest(blake3::Hasher::new().update_rayon(ciphertext).finalize().into())
}

impl Encode for PostStatement {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::PostStatement.encode_header(out);
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.client.encode(out);
        self.crs.encode(out);
        out.push(self.mode as u8);
        self.roots.iter().for_each(|root| root.encode(out));
        self.ciphertext.encode(out);
        out.extend_from_slice(&self.ciphertext_len.to_le_bytes());
        self.envelopes.encode(out);
    }

    fn encoded_len(&self) -> usize {
        Self::len(self.mode)
    }
}

impl Decode for PostStatement {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::PostStatement)?;
        let deployment = DeploymentId::decode(reader)?;
        let epoch = EpochDigest::decode(reader)?;
        let session = SessionId::decode(reader)?;
        let client = ClientId::decode(reader)?;
        let crs = CrsDigest::decode(reader)?;
        let mode = Mode::read(reader)?;
        let roots = (0..mode.roots()).map(|_| RootDigest::decode(reader)).collect::<Result<_, _>>()?;
        let ciphertext = CiphertextDigest::decode(reader)?;
        let ciphertext_len = reader.u64("ciphertext length")?;
        let envelopes = EnvelopeRoot::decode(reader)?;
        Ok(Self {
            deployment,
            epoch,
            session,
            client,
            crs,
            mode,
            roots,
            ciphertext,
            ciphertext_len,
            envelopes,
        })
    }
}

/// A statement was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// The signature does not verify under the key of the client it claims. Anyone can write such bytes.
    #[error("a statement in the name of client {client} is not signed by it")]
    Signature {
        /// Whose name it carries.
        client: ClientId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// The client signed a ciphertext length that the round does not have.
    #[error("client {client} states a ciphertext of {found} bytes, this round has {expected}")]
    WrongCiphertextLength {
        /// The client.
        client: ClientId,
        /// Bytes of this round.
        expected: u64,
        /// Bytes stated.
        found: u64,
    },
    /// The client signed other public parameters.
    #[error("client {client} posted under other public parameters")]
    WrongCrs {
        /// The client.
        client: ClientId,
    },
    /// The statement belongs to another deployment.
    #[error("a statement of another deployment")]
    WrongDeployment,
    /// The client signed another epoch's document for this session.
    #[error("client {client} posted under another epoch")]
    WrongEpoch {
        /// The client.
        client: ClientId,
    },
    /// The client signed another mode.
    #[error("client {client} posted in mode {found}, this round is {expected}")]
    WrongMode {
        /// The client.
        client: ClientId,
        /// Mode of this round.
        expected: Mode,
        /// Mode stated.
        found: Mode,
    },
    /// The statement belongs to another session: whoever delivered it here replayed it.
    #[error("a statement of client {client} for another session")]
    WrongSession {
        /// The client.
        client: ClientId,
    },
}

impl Fault for StatementError {
    fn code(&self) -> &'static str {
        match self {
            Self::Signature { .. } => "statement_signature",
            Self::WrongCiphertextLength { .. } => "statement_ciphertext_length",
            Self::WrongCrs { .. } => "statement_crs",
            Self::WrongDeployment => "statement_deployment",
            Self::WrongEpoch { .. } => "statement_epoch",
            Self::WrongMode { .. } => "statement_mode",
            Self::WrongSession { .. } => "statement_session",
        }
    }

    /// A valid statement of another deployment or session proves nothing against its client: it was replayed. What the
    /// client signed for this very session is its own.
    fn attribution(&self) -> Attribution {
        match self {
            Self::Signature { .. } | Self::WrongDeployment | Self::WrongSession { .. } => Attribution::Nobody,
            Self::WrongCiphertextLength { client, .. }
            | Self::WrongCrs { client }
            | Self::WrongEpoch { client }
            | Self::WrongMode { client, .. } => Attribution::Client(*client),
        }
    }
}

/// A statement with its signature, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPost {
    statement: PostStatement,
    signature: Signature,
}

impl SignedPost {
    /// Signs a statement.
    pub fn sign(statement: PostStatement, key: &SigningKey) -> Self {
        let signature = key.sign(DOMAIN, &statement.to_bytes());
        Self { statement, signature }
    }

    /// What it claims. Only [`check`](Self::check) makes the claim worth anything.
    pub const fn claim(&self) -> &PostStatement {
        &self.statement
    }

    /// Checks only that `key` signed it, whatever it says.
    pub(crate) fn check_signature(&self, key: &VerifyingKey) -> Result<(), StatementError> {
        let client = self.statement.client;
        key.verify(DOMAIN, &self.statement.to_bytes(), &self.signature)
            .map_err(|source| StatementError::Signature { client, source })
    }

    /// Checks the statement for this session; `key` is the admitted key of the client it names.
    ///
    /// # Errors
    /// Another signer, deployment, session, epoch, parameters, mode or ciphertext length.
    pub fn check(
        &self,
        params: &ProtocolParams,
        session: &SessionId,
        key: &VerifyingKey,
    ) -> Result<VerifiedPost, StatementError> {
        let statement = &self.statement;
        let client = statement.client;
        self.check_signature(key)?;
        let expected_len = u64::try_from(params.kahe().ciphertext_len()).expect("a length fits 64 bits");
        if statement.deployment != *params.deployment() {
            return Err(StatementError::WrongDeployment);
        } else if statement.session != *session {
            return Err(StatementError::WrongSession { client });
        } else if statement.epoch != *params.epoch() {
            return Err(StatementError::WrongEpoch { client });
        } else if statement.crs != *params.crs_digest() {
            return Err(StatementError::WrongCrs { client });
        } else if statement.mode != params.mode() {
            let (expected, found) = (params.mode(), statement.mode);
            return Err(StatementError::WrongMode { client, expected, found });
        } else if statement.ciphertext_len != expected_len {
            let (expected, found) = (expected_len, statement.ciphertext_len);
            return Err(StatementError::WrongCiphertextLength { client, expected, found });
        }
        Ok(VerifiedPost(self.clone()))
    }
}

impl Encode for SignedPost {
    fn encode(&self, out: &mut Vec<u8>) {
        self.statement.encode(out);
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.statement.encoded_len() + Signature::LEN
    }
}

impl Decode for SignedPost {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { statement: PostStatement::decode(reader)?, signature: Signature::decode(reader)? })
    }
}

/// A statement that its client signed for this deployment, session, epoch, parameters and mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedPost(SignedPost);

impl VerifiedPost {
    /// The statement.
    pub const fn statement(&self) -> &PostStatement {
        &self.0.statement
    }

    /// Who posted.
    pub const fn client(&self) -> ClientId {
        self.0.statement.client
    }

    /// Digest of the key-share commitment's root.
    pub fn root(&self) -> &RootDigest {
        &self.0.statement.roots[0]
    }

    /// Digest of the share commitment's root, in erasure mode.
    pub fn share_root(&self) -> Option<&RootDigest> {
        self.0.statement.roots.get(1)
    }

    /// The signed bytes' origin, for evidence.
    pub const fn signed(&self) -> &SignedPost {
        &self.0
    }
}

/// What a post begins with: the statement, and the root it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostHead {
    /// The statement.
    pub signed: SignedPost,
    /// The commitment to the key shares.
    pub commitment: Commitment,
}

impl PostHead {
    /// Bytes of a head: framing, statement, signature, root.
    pub fn packed_len(params: &ProtocolParams) -> usize {
        HEADER_LEN + PostStatement::len(params.mode()) + Signature::LEN + params.lattice().hvc.packed_len()
    }

    /// The head's bytes.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::packed_len(params));
        ObjectType::ClientPost.encode_header(&mut out);
        self.signed.encode(&mut out);
        params.lattice().hvc.pack(self.commitment.root(), &mut out);
        out
    }
}

impl DecodeWith<ProtocolParams> for PostHead {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::ClientPost)?;
        let signed = SignedPost::decode(reader)?;
        let lattice = params.lattice();
        let refused = reader.fault("commitment root", DecodeErrorKind::OutOfRange);
        let root = reader.take(lattice.hvc.packed_len(), "commitment root")?;
        let commitment = Commitment::from_bytes(lattice, root).map_err(|_| refused)?;
        Ok(Self { signed, commitment })
    }
}

/// A client's post in direct and aggregated mode: its head, and the ciphertext that the statement speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientBulletinEntry {
    /// Statement and root.
    pub head: PostHead,
    /// The packed ciphertext.
    pub ciphertext: Vec<u8>,
}

/// A post in memory that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostView<'a> {
    /// Statement and root.
    pub head: PostHead,
    /// The packed ciphertext.
    pub ciphertext: &'a [u8],
}

impl<'a> From<&'a ClientBulletinEntry> for PostView<'a> {
    fn from(post: &'a ClientBulletinEntry) -> Self {
        Self { head: post.head.clone(), ciphertext: &post.ciphertext }
    }
}

impl<'a> PostView<'a> {
    /// Reads a post without copying its ciphertext.
    ///
    /// # Errors
    /// For anything but exactly one post of the round's size.
    pub fn parse(params: &ProtocolParams, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let view = Self::read(params, &mut reader)?;
        reader.finish()?;
        Ok(view)
    }

    fn read(params: &ProtocolParams, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let head = PostHead::decode_with(params, reader)?;
        let ciphertext = reader.take(params.kahe().ciphertext_len(), "ciphertext")?;
        Ok(Self { head, ciphertext })
    }
}

impl ClientBulletinEntry {
    /// Bytes of a post: head and ciphertext.
    pub fn packed_len(params: &ProtocolParams) -> usize {
        PostHead::packed_len(params) + params.kahe().ciphertext_len()
    }

    /// The post's bytes in one piece. Whoever can send two pieces sends the head's bytes and the ciphertext.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        let mut out = self.head.to_bytes(params);
        out.extend_from_slice(&self.ciphertext);
        out
    }
}

impl DecodeWith<ProtocolParams> for ClientBulletinEntry {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let PostView { head, ciphertext } = PostView::read(params, reader)?;
        Ok(Self { head, ciphertext: ciphertext.to_vec() })
    }
}
