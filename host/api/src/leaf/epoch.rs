//! An epoch: who serves, under which terms, for how long, and who watches the log.

use super::{Statement, read_text, write_text};
use panetiere::bulletin::Epoch;
use panetiere::ids::EpochDigest;
use panetiere::protocol::Terms;
use panetiere::sig::VerifyingKey;
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use tlog::checkpoint::Log;
use tlog::key::VerifierKey;
use tlog::quorum::{Quorum, QuorumError};

/// Which clients an epoch admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionPolicy {
    /// Any that asks. For trials on one machine: whoever runs the bulletin can bring as many as it likes.
    Unattested,
}

/// The witnesses of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnesses {
    /// Their keys. The servers' own cosigners are among them, others may be.
    pub keys: Vec<VerifierKey>,
    /// How many of them may be faulty, f_w. With it follows the quorum.
    pub faulty: u16,
}

impl Witnesses {
    /// The quorum that makes a checkpoint of `log` the only one.
    ///
    /// # Errors
    /// `Keys` if they are no ring of cosigners; `Unreachable` if too many may be faulty.
    pub fn quorum(&self, log: Log) -> Result<Quorum, QuorumError> {
        Quorum::new(log, self.keys.clone(), self.faulty.into())
    }
}

/// An epoch, signed by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochPlan {
    /// The servers, lanes and aggregators with their keys. Its digest names the epoch.
    pub document: Epoch,
    /// Parameters and payload encoding of its rounds.
    pub terms: Terms,
    /// The epoch before it; none for the first.
    pub previous: Option<EpochDigest>,
    /// Rounds that may be opened in it. Every credential of the epoch ends with the last of them.
    pub rounds: u32,
    /// Which clients are admitted.
    pub admission: AdmissionPolicy,
    /// The witnesses.
    pub witnesses: Witnesses,
    /// Whose results count. Not needed for a result to be checked.
    pub recipients: Vec<VerifyingKey>,
}

impl Statement for EpochPlan {
    const DOMAIN: &'static str = "panetiere/epoch-plan/v1";
}

impl Encode for EpochPlan {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::EpochLeaf.encode_header(out);
        self.document.encode(out);
        self.terms.encode(out);
        match &self.previous {
            None => out.push(0),
            Some(previous) => {
                out.push(1);
                previous.encode(out);
            }
        }
        out.extend_from_slice(&self.rounds.to_le_bytes());
        out.push(match self.admission {
            AdmissionPolicy::Unattested => 0,
        });
        out.extend_from_slice(&count(self.witnesses.keys.len()).to_le_bytes());
        self.witnesses.keys.iter().for_each(|key| write_text(&key.to_string(), out));
        out.extend_from_slice(&self.witnesses.faulty.to_le_bytes());
        out.extend_from_slice(&count(self.recipients.len()).to_le_bytes());
        self.recipients.iter().for_each(|key| key.encode(out));
    }

    fn encoded_len(&self) -> usize {
        let previous = if self.previous.is_some() { EpochDigest::LEN } else { 0 };
        let witnesses: usize = self.witnesses.keys.iter().map(|key| 2 + key.to_string().len()).sum();
        HEADER_LEN
            + self.document.encoded_len()
            + self.terms.encoded_len()
            + (1 + previous)
            + 4
            + 1
            + (2 + witnesses + 2)
            + (2 + VerifyingKey::LEN * self.recipients.len())
    }
}

fn count(keys: usize) -> u16 {
    u16::try_from(keys).expect("a leaf has room for fewer keys than 2^16")
}

impl Decode for EpochPlan {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::EpochLeaf)?;
        let document = Epoch::decode(reader)?;
        let terms = Terms::decode(reader)?;
        let unknown = reader.fault("previous epoch", DecodeErrorKind::OutOfRange);
        let previous = match reader.u8("previous epoch")? {
            0 => None,
            1 => Some(EpochDigest::decode(reader)?),
            _ => return Err(unknown),
        };
        let rounds = reader.u32("number of rounds")?;
        let unknown = reader.fault("admission policy", DecodeErrorKind::OutOfRange);
        let admission = match reader.u8("admission policy")? {
            0 => AdmissionPolicy::Unattested,
            _ => return Err(unknown),
        };
        // A key takes bytes, so what is left bounds how many there can be; nothing is reserved for what is only claimed.
        let keys = reader.u16("number of witnesses")?;
        let keys = (0..keys).map(|_| read_text(reader, "key of a witness")).collect::<Result<_, _>>()?;
        let witnesses = Witnesses { keys, faulty: reader.u16("faulty witnesses")? };
        let recipients = reader.u16("number of recipients")?;
        let recipients = (0..recipients).map(|_| VerifyingKey::decode(reader)).collect::<Result<_, _>>()?;
        Ok(Self { document, terms, previous, rounds, admission, witnesses, recipients })
    }
}
