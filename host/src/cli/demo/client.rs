//! A client's part: honest ones by the library's drivers, lying ones by its steps with one of them put wrong. A lie is
//! consistent with all that follows it: it is signed like everything else.

use super::lie::Lie;
use crate::local::LocalRound;
use anyhow::Context;
use panetiere::bulletin::{
    ClientBulletinEntry, Envelope, LaneItem, PostHead, PostStatement, RsClientBulletinEntry, SignedPost,
    delivery_root, env_root,
};
use panetiere::cs::FreshOpening;
use panetiere::ids::{ClientId, EnvelopeKeyDigest, RootDigest, ServerId};
use panetiere::pke::{self, EnvelopeContext};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{
    LaneCode, code_ciphertext, cs_commit, kahe_encrypt, kahe_keygen, run_client_round, run_client_round_rs,
    seal_openings, shamir_share,
};
use panetiere::share_commitment::ShareCommitment;
use panetiere::wire::Encode;
use rand_chacha::ChaCha20Rng;

/// The server, or lane, to whom a lying client sends something wrong.
const VICTIM: usize = 0;

/// One client's round as bytes.
pub(super) struct Sent {
    pub client: ClientId,
    /// For the log.
    pub statement: Vec<u8>,
    /// For the bulletin, or for an aggregator.
    pub post: Vec<u8>,
    /// For the servers.
    pub envelopes: Vec<Vec<u8>>,
    /// For the lanes, if there are any.
    pub items: Vec<Vec<u8>>,
}

impl Sent {
    fn pack(signed: &SignedPost, post: Vec<u8>, envelopes: &[Envelope], items: &[LaneItem]) -> Self {
        Self {
            client: signed.claim().client,
            statement: signed.to_bytes(),
            post,
            envelopes: envelopes.iter().map(Encode::to_bytes).collect(),
            items: items.iter().map(Encode::to_bytes).collect(),
        }
    }
}

/// What `client` sends, with this lie put in if there is one.
pub(super) fn run(
    common: &LocalRound,
    rng: &mut ChaCha20Rng,
    client: ClientId,
    vector: &[PlainPoly],
    lie: Option<Lie>,
) -> anyhow::Result<Sent> {
    let (params, session, keys) = (&*common.params, &common.session, common.epoch.envelope_keys());
    let key = common.signing_key(client)?;
    match (lie, params.lane_code()) {
        (None, None) => {
            let round = run_client_round(rng, params, session, client, vector, &keys, key)?;
            let post = round.post.to_bytes(params);
            Ok(Sent::pack(&round.post.head.signed, post, &round.envelopes, &[]))
        }
        (None, Some(_)) => {
            let round = run_client_round_rs(rng, params, session, client, vector, &keys, key)?;
            let post = round.post.to_bytes(params);
            Ok(Sent::pack(&round.post.signed, post, &round.envelopes, &round.items))
        }
        (Some(lie), code) => lying(common, rng, client, vector, lie, code),
    }
}

fn lying(
    common: &LocalRound,
    rng: &mut ChaCha20Rng,
    client: ClientId,
    vector: &[PlainPoly],
    lie: Lie,
    code: Option<&LaneCode>,
) -> anyhow::Result<Sent> {
    let (params, session) = (&*common.params, &common.session);
    let key = kahe_keygen(rng, params);
    let mut ciphertext = kahe_encrypt(rng, params, &key, vector)?;
    if lie == Lie::ClientBadCiphertext {
        // Coefficients are packed in fewer bits than these, and one of ones only is above every modulus.
        ciphertext.iter_mut().take(4).for_each(|byte| *byte = 0xFF);
    }
    let shares = shamir_share(rng, params, &key);
    let (commitment, openings) = cs_commit(rng, params, &shares);
    let root = commitment.digest(params.lattice());
    let sealed = seal(common, rng, client, root, &openings, lie)?;
    let signing_key = common.signing_key(client)?;
    let Some(code) = code else {
        let (env_root, envelopes) = env_root(client, sealed);
        let statement = PostStatement::direct(params, session, client, &commitment, &ciphertext, env_root);
        let signed = SignedPost::sign(statement, signing_key);
        let post = ClientBulletinEntry { head: PostHead { signed, commitment }, ciphertext };
        return Ok(Sent::pack(&post.head.signed, post.to_bytes(params), &envelopes, &[]));
    };
    let (share_commitment, bodies) = match lie {
        Lie::ClientNonCodeword => {
            let other_key = kahe_keygen(rng, params);
            let other = kahe_encrypt(rng, params, &other_key, vector)?;
            no_codeword(code, &ciphertext, &other)?
        }
        _ => code_ciphertext(code, &ciphertext)?,
    };
    let mut bodies = bodies;
    if lie == Lie::ClientBadShare {
        bodies[VICTIM][0] ^= 1;
    }
    let (delivered, envelopes, items) = delivery_root(client, sealed, bodies);
    let roots = (&commitment, &share_commitment);
    let statement = PostStatement::erasure(params, session, client, roots, &ciphertext, delivered);
    let signed = SignedPost::sign(statement, signing_key);
    let post = RsClientBulletinEntry { signed, commitment, share_commitment };
    Ok(Sent::pack(&post.signed, post.to_bytes(params), &envelopes, &items))
}

/// A commitment to shares of which one is another ciphertext's, and the items' bodies: each opens the commitment.
fn no_codeword(
    code: &LaneCode,
    ciphertext: &[u8],
    other: &[u8],
) -> anyhow::Result<(ShareCommitment, Vec<Vec<u8>>)> {
    let mut shares = code.rs().encode(ciphertext)?;
    shares[VICTIM] = code.rs().encode(other)?.swap_remove(VICTIM);
    let (commitment, paths) = code.commitment().commit(&shares);
    let bodies = shares.iter().zip(&paths).map(|(share, path)| {
        let mut body = Vec::with_capacity(code.body_len());
        code.rs().pack(share, &mut body);
        path.encode(code.commitment(), &mut body);
        body
    });
    Ok((commitment, bodies.collect()))
}

fn seal(
    common: &LocalRound,
    rng: &mut ChaCha20Rng,
    client: ClientId,
    root: RootDigest,
    openings: &[FreshOpening],
    lie: Lie,
) -> anyhow::Result<Vec<(EnvelopeKeyDigest, Vec<u8>)>> {
    let (params, session, keys) = (&*common.params, &common.session, common.epoch.envelope_keys());
    let mut sealed = seal_openings(rng, params, session, client, root, openings, &keys)?;
    if lie == Lie::ClientBadOpening {
        let (opening, (_, key)) = openings.get(VICTIM).zip(keys.get(VICTIM)).context("no server")?;
        let mut opening = opening.to_bytes(params.cs());
        // The first bytes are the seed of the leaf's randomness.
        opening[0] ^= 1;
        let context = EnvelopeContext {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *session,
            client,
            server: ServerId(0),
            crs: *params.crs_digest(),
            root,
        };
        sealed[VICTIM] = pke::seal(rng, key, &context, &opening);
    }
    Ok(keys.iter().map(|(_, key)| key.digest()).zip(sealed).collect())
}
