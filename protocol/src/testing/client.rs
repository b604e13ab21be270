//! Clients that lie. Every lie is consistent with all that follows it: what a client could really send.

use super::{Party, Round, stream};
use crate::bulletin::{ClientBulletinEntry, Mode, PostHead, PostStatement, SignedPost, env_root};
use crate::ids::{
    CiphertextDigest, CrsDigest, DeploymentId, EnvelopeKeyDigest, EpochDigest, ServerId, SessionId,
};
use crate::kahe::Key;
use crate::pke::{self, EnvelopeContext};
use crate::protocol::{ClientRound, cs_commit, kahe_encrypt, kahe_keygen, shamir_share};
use crate::sig::SigningKey;
use crate::wire::Encode;
use chipmunk::N;
use chipmunk::ring::ShortPoly;
use chipmunk::ring::pack::{pack_words, packed_len, unpack_words};
use rand_core::Rng;

/// Part of a fresh opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningPart {
    /// The seed of the leaf's randomness.
    Seed,
    /// The key share.
    Share,
    /// The sibling of the leaf.
    Sibling,
}

/// What a client does wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientLie {
    /// The ciphertext holds a coefficient at its modulus; the signed digest is that of these bytes.
    CiphertextOutOfRange,
    /// Envelopes of an earlier round under a new statement.
    EarlierEnvelopes(Box<ClientRound>),
    /// The root of another commitment than the one the openings open.
    ForeignRoot,
    /// Bytes in the envelope that are no opening, or open nothing; every byte is `fill`.
    Garbage {
        /// Whose envelope.
        server: ServerId,
        /// 0xFF is out of range, 0 is not.
        fill: u8,
    },
    /// The share of this server lies on another polynomial than the others'. The commitment is to these shares.
    InconsistentShare(ServerId),
    /// A key as large as its ring, so that the sum of the keys wraps. Shares and ciphertext are made from it.
    KeyOutOfBounds,
    /// The opening sealed to this server differs in its first bit from the committed one.
    Opening(ServerId, OpeningPart),
    /// An error up to the whole distance between two messages, instead of Gaussian.
    OversizedNoise,
    /// The statement is signed by another key than the admitted one.
    OtherSigner,
    /// Everything honest, from another draw of randomness: a second post for the same session.
    SecondStatement,
    /// Sealed to the key of another epoch. `stated`: the envelope says so, else it names the current key.
    StaleKey {
        /// Whose envelope.
        server: ServerId,
        /// The key of another epoch.
        key: Box<pke::PublicKey>,
        /// Whether the signed leaf names the key that was used.
        stated: bool,
    },
    /// The sealed openings of two servers change places before they are signed.
    SwappedEnvelopes(ServerId, ServerId),
    /// The statement names a ciphertext one byte longer.
    WrongCiphertextLength,
    /// The statement names other public parameters.
    WrongCrs,
    /// The statement names another deployment.
    WrongDeployment,
    /// The statement names another epoch.
    WrongEpoch,
    /// The statement names another mode.
    WrongMode,
    /// The statement names this session instead of the round's.
    WrongSession(SessionId),
}

/// The honest client's steps, with one lie put in.
pub(super) fn run(round: &Round<'_>, party: &Party, lie: &ClientLie) -> ClientRound {
    let params = &*round.net.params;
    let mut rng = match lie {
        ClientLie::SecondStatement => stream(round.net.seed, "second statement", &party.id.to_bytes()),
        _ => round.client_stream(party.id),
    };
    let key = match lie {
        ClientLie::KeyOutOfBounds => Key::from_coefficients(largest_key(params.set().cs)),
        _ => kahe_keygen(&mut rng, params),
    };
    let mut ciphertext =
        kahe_encrypt(&mut rng, params, &key, &party.message).expect("a message of this shape");
    match lie {
        ClientLie::CiphertextOutOfRange => set_first_word(round, &mut ciphertext, params.set().wire[0]),
        ClientLie::OversizedNoise => add_noise(round, &mut ciphertext),
        _ => {}
    }
    let mut shares = shamir_share(&mut rng, params, &key);
    if let ClientLie::InconsistentShare(server) = lie {
        let one = params.lattice().cs().from_short(&one());
        params.lattice().cs().add_assign(shares[usize::from(server.0)].expose_mut(), &one);
    }
    let (mut commitment, openings) = cs_commit(&mut rng, params, &shares);
    let mut plaintexts: Vec<_> = openings.iter().map(|opening| opening.to_bytes(params.cs())).collect();
    match lie {
        ClientLie::ForeignRoot => commitment = cs_commit(&mut rng, params, &shares).0,
        ClientLie::Garbage { server, fill } => plaintexts[usize::from(server.0)].fill(*fill),
        ClientLie::Opening(server, part) => {
            let share = params.lattice().cs().packed_len();
            let at = match part {
                OpeningPart::Seed => 0,
                OpeningPart::Share => 32,
                OpeningPart::Sibling => 32 + share,
            };
            plaintexts[usize::from(server.0)][at] ^= 1;
        }
        _ => {}
    }
    let root = commitment.digest(params.lattice());
    let mut sealed: Vec<(EnvelopeKeyDigest, Vec<u8>)> = Vec::new();
    for ((server, current), plaintext) in round.net.epoch.envelope_keys().iter().zip(&plaintexts) {
        let context = EnvelopeContext {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: round.session,
            client: party.id,
            server: *server,
            crs: *params.crs_digest(),
            root,
        };
        let (key, named) = match lie {
            ClientLie::StaleKey { server: at, key, stated } if at == server => {
                (&**key, if *stated { key.digest() } else { current.digest() })
            }
            _ => (current, current.digest()),
        };
        sealed.push((named, pke::seal(&mut rng, key, &context, plaintext)));
    }
    match lie {
        ClientLie::EarlierEnvelopes(earlier) => {
            sealed = earlier.envelopes.iter().map(|old| (old.key, old.sealed.clone())).collect();
        }
        ClientLie::SwappedEnvelopes(a, b) => {
            // The named keys stay where they are: only what was sealed moves.
            let (a, b) = (usize::from(a.0), usize::from(b.0));
            let moved = std::mem::take(&mut sealed[a].1);
            sealed[a].1 = std::mem::replace(&mut sealed[b].1, moved);
        }
        _ => {}
    }
    let (env_root, envelopes) = env_root(party.id, sealed);
    let mut statement = PostStatement {
        deployment: *params.deployment(),
        epoch: *params.epoch(),
        session: round.session,
        client: party.id,
        crs: *params.crs_digest(),
        mode: params.mode(),
        roots: vec![root],
        ciphertext: CiphertextDigest::from_digest(blake3::hash(&ciphertext).into()),
        ciphertext_len: u64::try_from(ciphertext.len()).expect("a length fits 64 bits"),
        envelopes: env_root,
    };
    misstate(&mut statement, lie);
    let signed = match lie {
        ClientLie::OtherSigner => SignedPost::sign(statement, &SigningKey::generate(&mut rng)),
        _ => SignedPost::sign(statement, &party.signing_key),
    };
    ClientRound {
        client_id: party.id,
        post: ClientBulletinEntry { head: PostHead { signed, commitment }, ciphertext },
        envelopes,
    }
}

fn misstate(statement: &mut PostStatement, lie: &ClientLie) {
    match lie {
        ClientLie::WrongCiphertextLength => statement.ciphertext_len += 1,
        ClientLie::WrongCrs => statement.crs = CrsDigest::from_digest([0xCC; 32]),
        ClientLie::WrongDeployment => statement.deployment = DeploymentId::from_name("another deployment"),
        ClientLie::WrongEpoch => statement.epoch = EpochDigest::from_digest([0xEE; 32]),
        ClientLie::WrongMode => statement.mode = Mode::Aggregated,
        ClientLie::WrongSession(session) => statement.session = *session,
        _ => {}
    }
}

fn one() -> ShortPoly {
    let mut poly = ShortPoly::zero();
    poly.coefficients_mut()[0] = 1;
    poly
}

/// Every coefficient at (q_cs - 1) / 2: any positive addend wraps it.
fn largest_key(cs: u32) -> ShortPoly {
    let mut poly = ShortPoly::zero();
    poly.coefficients_mut().fill((cs / 2).cast_signed());
    poly
}

/// Rewrites every limb of a packed ciphertext: `edit(limb, words)`, limbs 0 and 1 in turn.
fn edit_limbs(round: &Round<'_>, ciphertext: &mut [u8], mut edit: impl FnMut(usize, &mut [u32])) {
    let width = round.net.params.set().wire_limb_bits;
    for (limb, bytes) in ciphertext.chunks_exact_mut(packed_len(width)).enumerate() {
        let mut words = [0u32; N];
        unpack_words(bytes, width, u32::MAX >> (32 - width), &mut words).expect("a packed limb");
        edit(limb, &mut words);
        let mut packed = Vec::with_capacity(bytes.len());
        pack_words(&words, width, &mut packed);
        bytes.copy_from_slice(&packed);
    }
}

fn set_first_word(round: &Round<'_>, ciphertext: &mut [u8], value: u32) {
    edit_limbs(round, ciphertext, |limb, words| {
        if limb == 0 {
            words[0] = value;
        }
    });
}

/// Adds integers from -64 to 64, the half-range of one message step in WIRE units, to every coefficient.
fn add_noise(round: &Round<'_>, ciphertext: &mut [u8]) {
    let wire = round.net.params.set().wire;
    let mut rng = stream(round.net.seed, "oversized noise", &[]);
    let mut offsets = [0u32; N];
    edit_limbs(round, ciphertext, |limb, words| {
        let q = wire[limb % 2];
        if limb % 2 == 0 {
            // Both limbs of a coefficient get the same integer.
            offsets.fill_with(|| rng.next_u32() % 129);
        }
        words.iter_mut().zip(&offsets).for_each(|(word, offset)| *word = (*word + q + offset - 64) % q);
    });
}
