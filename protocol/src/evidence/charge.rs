//! What is held against the accused, kind by kind: its own signed bytes and what they speak of.

use super::excerpt::Excerpt;
use super::{Evidence, Kind};
use crate::bulletin::{
    CanonicalSet, PostStatement, SignedGroupClaim, SignedLaneClaim, SignedPost, SignedSumClaim,
};
use crate::ids::NodeId;
use crate::sig::VerifyingKey;
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader};
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::packed_len;

/// A sum, and the root of every post that it is over: the claim names them by digest.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Opened {
    /// The whole signed sum.
    pub sum: Vec<u8>,
    pub set: CanonicalSet,
    /// The packed roots, in the order of the set.
    pub roots: Vec<u8>,
}

/// What a client signed, and the key that it is to be checked with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Accused {
    pub key: VerifyingKey,
    pub signed: SignedPost,
}

/// The body of a lane item.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Body {
    pub lane: NodeId,
    pub body: Vec<u8>,
}

/// A group's sum without its megabytes, and the statements that it names.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub signed: SignedGroupClaim,
    /// One a member, in the order of the claim.
    pub statements: Vec<PostStatement>,
    pub part: GroupPart,
}

/// Where a group's sum is wrong.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum GroupPart {
    /// The packed root that is claimed, and those of the members.
    Root { sum: Vec<u8>, roots: Vec<u8> },
    /// One polynomial of the ciphertext that is claimed, and of those of the members: of none if that of the claim is
    /// wrong by itself.
    Ciphertext { poly: u32, sum: Excerpt, members: Vec<Excerpt> },
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Charge {
    BadCiphertext(Accused, Option<Excerpt>),
    BadGroup(Box<Group>),
    BadLane(Opened),
    BadOpening(Opened),
    BadShare(Accused, Body, Vec<[u8; 32]>),
    DoubleGroupSum(Box<[SignedGroupClaim; 2]>),
    DoubleLaneSum(Box<[SignedLaneClaim; 2]>),
    DoublePost(Accused, Box<SignedPost>),
    DoubleServerSum(Box<[SignedSumClaim; 2]>),
    NotACodeword(Accused, Vec<Body>),
}

/// Bytes of any length, which is at most `u32::MAX`.
pub(super) fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(bytes.len()).expect("no object of a round has four gigabytes");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn take_bytes<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let len = usize::try_from(reader.u32(what)?).expect("usize has at least 32 bits");
    reader.take(len, what)
}

impl Opened {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(&self.sum, out);
        self.set.encode(out);
        out.extend_from_slice(&self.roots);
    }

    fn encoded_len(&self) -> usize {
        4 + self.sum.len() + self.set.encoded_len() + self.roots.len()
    }

    fn decode(bits: u32, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sum = take_bytes(reader, "signed sum")?.to_vec();
        let set = CanonicalSet::decode(reader)?;
        let need = packed_len(bits).saturating_mul(set.clients().len());
        let roots = reader.take(need, "commitment roots")?.to_vec();
        Ok(Self { sum, set, roots })
    }
}

impl Accused {
    fn encode(&self, out: &mut Vec<u8>) {
        self.key.encode(out);
        self.signed.encode(out);
    }

    fn encoded_len(&self) -> usize {
        VerifyingKey::LEN + self.signed.encoded_len()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { key: VerifyingKey::decode(reader)?, signed: SignedPost::decode(reader)? })
    }
}

impl Body {
    fn encode(&self, out: &mut Vec<u8>) {
        self.lane.encode(out);
        encode_bytes(&self.body, out);
    }

    fn encoded_len(&self) -> usize {
        NodeId::LEN + 4 + self.body.len()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { lane: NodeId::decode(reader)?, body: take_bytes(reader, "lane item body")?.to_vec() })
    }
}

impl Group {
    fn encode(&self, out: &mut Vec<u8>) {
        self.signed.encode(out);
        self.statements.iter().for_each(|statement| statement.encode(out));
        match &self.part {
            GroupPart::Root { sum, roots } => {
                out.push(1);
                out.extend_from_slice(sum);
                out.extend_from_slice(roots);
            }
            GroupPart::Ciphertext { poly, sum, members } => {
                // Without the members' polynomials, or with all of them.
                out.push(if members.is_empty() { 2 } else { 3 });
                out.extend_from_slice(&poly.to_le_bytes());
                sum.encode(out);
                members.iter().for_each(|member| member.encode(out));
            }
        }
    }

    fn encoded_len(&self) -> usize {
        let statements: usize = self.statements.iter().map(PostStatement::encoded_len).sum();
        let part = match &self.part {
            GroupPart::Root { sum, roots } => sum.len() + roots.len(),
            GroupPart::Ciphertext { sum, members, .. } => {
                4 + sum.encoded_len() + members.iter().map(Excerpt::encoded_len).sum::<usize>()
            }
        };
        self.signed.encoded_len() + statements + 1 + part
    }

    fn decode(bits: u32, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let signed = SignedGroupClaim::decode(reader)?;
        let count = signed.claim().members.len();
        let statements: Vec<_> =
            (0..count).map(|_| PostStatement::decode(reader)).collect::<Result<_, _>>()?;
        let unknown = reader.fault("part of a group's sum", DecodeErrorKind::OutOfRange);
        let part = match reader.u8("part of a group's sum")? {
            1 => {
                let sum = reader.take(packed_len(bits), "root sum")?.to_vec();
                let need = packed_len(bits).saturating_mul(count);
                GroupPart::Root { sum, roots: reader.take(need, "commitment roots")?.to_vec() }
            }
            with_members @ (2 | 3) => {
                let (poly, sum) = (reader.u32("number of a polynomial")?, Excerpt::decode(reader)?);
                let count = if with_members == 3 { count } else { 0 };
                let members = (0..count).map(|_| Excerpt::decode(reader)).collect::<Result<_, _>>()?;
                GroupPart::Ciphertext { poly, sum, members }
            }
            _ => return Err(unknown),
        };
        Ok(Self { signed, statements, part })
    }
}

impl Charge {
    pub const fn kind(&self) -> Kind {
        match self {
            Self::BadCiphertext(..) => Kind::BadCiphertext,
            Self::BadGroup(_) => Kind::BadGroup,
            Self::BadLane(_) => Kind::BadLane,
            Self::BadOpening(_) => Kind::BadOpening,
            Self::BadShare(..) => Kind::BadShare,
            Self::DoubleGroupSum(_) => Kind::DoubleGroupSum,
            Self::DoubleLaneSum(_) => Kind::DoubleLaneSum,
            Self::DoublePost(..) => Kind::DoublePost,
            Self::DoubleServerSum(_) => Kind::DoubleServerSum,
            Self::NotACodeword(..) => Kind::NotACodeword,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::BadCiphertext(accused, excerpt) => {
                accused.encode(out);
                out.push(u8::from(excerpt.is_some()));
                excerpt.iter().for_each(|excerpt| excerpt.encode(out));
            }
            Self::BadLane(opened) | Self::BadOpening(opened) => opened.encode(out),
            Self::BadShare(accused, body, path) => {
                accused.encode(out);
                body.encode(out);
                out.push(
                    u8::try_from(path.len()).expect("a path of at most 255 hashes: cut when it was built"),
                );
                path.iter().for_each(|hash| out.extend_from_slice(hash));
            }
            Self::BadGroup(group) => group.encode(out),
            Self::DoubleGroupSum(sums) => sums.iter().for_each(|sum| sum.encode(out)),
            Self::DoubleLaneSum(sums) => sums.iter().for_each(|sum| sum.encode(out)),
            Self::DoublePost(accused, other) => {
                accused.encode(out);
                other.encode(out);
            }
            Self::DoubleServerSum(sums) => sums.iter().for_each(|sum| sum.encode(out)),
            Self::NotACodeword(accused, bodies) => {
                accused.encode(out);
                let count = u16::try_from(bodies.len()).expect("one item a lane: cut when it was built");
                out.extend_from_slice(&count.to_le_bytes());
                bodies.iter().for_each(|body| body.encode(out));
            }
        }
    }

    pub fn encoded_len(&self) -> usize {
        match self {
            Self::BadCiphertext(accused, excerpt) => {
                accused.encoded_len() + 1 + excerpt.as_ref().map_or(0, Excerpt::encoded_len)
            }
            Self::BadLane(opened) | Self::BadOpening(opened) => opened.encoded_len(),
            Self::BadShare(accused, body, path) => {
                accused.encoded_len() + body.encoded_len() + 1 + 32 * path.len()
            }
            Self::BadGroup(group) => group.encoded_len(),
            Self::DoubleGroupSum(sums) => sums.iter().map(SignedGroupClaim::encoded_len).sum(),
            Self::DoubleLaneSum(sums) => sums.iter().map(SignedLaneClaim::encoded_len).sum(),
            Self::DoublePost(accused, other) => accused.encoded_len() + other.encoded_len(),
            Self::DoubleServerSum(sums) => sums.iter().map(SignedSumClaim::encoded_len).sum(),
            Self::NotACodeword(accused, bodies) => {
                accused.encoded_len() + 2 + bodies.iter().map(Body::encoded_len).sum::<usize>()
            }
        }
    }

    pub fn decode(kind: Kind, set: &ParameterSet, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            Kind::BadCiphertext => {
                let accused = Accused::decode(reader)?;
                let refused = reader.fault("number of excerpts", DecodeErrorKind::OutOfRange);
                let excerpt = match reader.u8("number of excerpts")? {
                    0 => None,
                    1 => Some(Excerpt::decode(reader)?),
                    _ => return Err(refused),
                };
                Self::BadCiphertext(accused, excerpt)
            }
            Kind::BadGroup => Self::BadGroup(Box::new(Group::decode(set.hvc_bits, reader)?)),
            Kind::BadLane => Self::BadLane(Opened::decode(set.lane_bits, reader)?),
            Kind::BadOpening => Self::BadOpening(Opened::decode(set.hvc_bits, reader)?),
            Kind::BadShare => {
                let (accused, body) = (Accused::decode(reader)?, Body::decode(reader)?);
                let hashes = usize::from(reader.u8("hashes of a path")?);
                let path = reader.take(32 * hashes, "inclusion path")?.as_chunks().0.to_vec();
                Self::BadShare(accused, body, path)
            }
            Kind::DoubleGroupSum => {
                let sums = [SignedGroupClaim::decode(reader)?, SignedGroupClaim::decode(reader)?];
                Self::DoubleGroupSum(Box::new(sums))
            }
            Kind::DoubleLaneSum => {
                let sums = [SignedLaneClaim::decode(reader)?, SignedLaneClaim::decode(reader)?];
                Self::DoubleLaneSum(Box::new(sums))
            }
            Kind::DoublePost => {
                Self::DoublePost(Accused::decode(reader)?, Box::new(SignedPost::decode(reader)?))
            }
            Kind::DoubleServerSum => {
                let sums = [SignedSumClaim::decode(reader)?, SignedSumClaim::decode(reader)?];
                Self::DoubleServerSum(Box::new(sums))
            }
            Kind::NotACodeword => {
                let accused = Accused::decode(reader)?;
                let count = reader.u16("number of items")?;
                // Not reserved: the items are to be there first.
                let mut bodies: Vec<Body> = Vec::new();
                for _ in 0..count {
                    bodies.push(Body::decode(reader)?);
                }
                Self::NotACodeword(accused, bodies)
            }
        })
    }
}

impl std::fmt::Debug for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evidence({}, {} bytes)", self.kind(), self.encoded_len())
    }
}
