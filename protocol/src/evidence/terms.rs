//! What the parties of a round agree on besides the epoch's document: enough to compute every public parameter again.
//!
//! Nobody signs these terms. The digest over them stands in everything that a party signs, so terms other than the
//! accused's own lead to another digest and to an acquittal.

use super::EvidenceError;
use crate::bulletin::{Epoch, Mode};
use crate::kahe::Plaintext;
use crate::protocol::{Deployment, Dimensions, LaneShape, ProtocolParams};
use crate::wire::{DecodeError, DecodeErrorKind, Reader};
use chipmunk::params::{P300, P1000, ParameterSet};
use chipmunk::ring::backend::Kernels;

/// The parameter sets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Set {
    P300 = 1,
    P1000 = 2,
}

impl Set {
    fn parameters(self) -> &'static ParameterSet {
        match self {
            Self::P300 => &P300,
            Self::P1000 => &P1000,
        }
    }

    fn of(set: &ParameterSet) -> Self {
        if set.name == P1000.name { Self::P1000 } else { Self::P300 }
    }
}

/// Parameter set, mode and shape of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    set: Set,
    mode: Mode,
    dimensions: Dimensions,
    faulty: u16,
    lanes: Option<LaneShape>,
}

impl Terms {
    pub fn of(params: &ProtocolParams) -> Self {
        Self {
            set: Set::of(params.set()),
            mode: params.mode(),
            dimensions: params.dimensions(),
            faulty: params.faulty(),
            lanes: params.lanes(),
        }
    }

    pub fn set(&self) -> &'static ParameterSet {
        self.set.parameters()
    }

    /// The parameters, with the widest bounds on the number of clients: a deployment's own bounds are its policy and no
    /// part of what is proven.
    pub fn parameters(
        &self,
        epoch: &Epoch,
        kernels: &'static Kernels,
    ) -> Result<ProtocolParams, EvidenceError> {
        let set = self.set();
        let deployment = Deployment {
            id: *epoch.deployment(),
            epoch: epoch.digest(),
            set,
            min_clients: 2,
            faulty: self.faulty,
            max_clients: ProtocolParams::admissible_clients(set, self.dimensions),
            kernels,
        };
        let params = match self.lanes {
            Some(lanes) => ProtocolParams::setup_rs_mode(deployment, self.dimensions, lanes),
            None => ProtocolParams::build(deployment, self.dimensions, self.mode, None),
        };
        params.map_err(EvidenceError::Parameters)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let Dimensions { servers, threshold, polys, plaintext } = self.dimensions;
        out.extend_from_slice(&[self.set as u8, self.mode as u8]);
        out.extend_from_slice(&servers.to_le_bytes());
        out.extend_from_slice(&threshold.to_le_bytes());
        out.extend_from_slice(&self.faulty.to_le_bytes());
        out.extend_from_slice(&polys.to_le_bytes());
        out.push(match plaintext {
            Plaintext::PowerOfTwo => 1,
            Plaintext::Prime => 2,
        });
        if let Some(LaneShape { needed, lanes }) = self.lanes {
            out.extend_from_slice(&needed.to_le_bytes());
            out.extend_from_slice(&lanes.to_le_bytes());
        }
    }

    pub const fn encoded_len(&self) -> usize {
        let lanes = if self.lanes.is_some() { 2 + 2 } else { 0 };
        1 + 1 + 2 + 2 + 2 + 4 + 1 + lanes
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let unknown = reader.fault("parameter set", DecodeErrorKind::OutOfRange);
        let set = match reader.u8("parameter set")? {
            1 => Set::P300,
            2 => Set::P1000,
            _ => return Err(unknown),
        };
        let mode = Mode::read(reader)?;
        let (servers, threshold) = (reader.u16("number of servers")?, reader.u16("threshold")?);
        let faulty = reader.u16("faulty servers")?;
        let polys = reader.u32("number of polynomials")?;
        let unknown = reader.fault("plaintext modulus", DecodeErrorKind::OutOfRange);
        let plaintext = match reader.u8("plaintext modulus")? {
            1 => Plaintext::PowerOfTwo,
            2 => Plaintext::Prime,
            _ => return Err(unknown),
        };
        let lanes = match mode {
            Mode::Erasure => {
                let (needed, lanes) = (reader.u16("lanes needed")?, reader.u16("number of lanes")?);
                Some(LaneShape { needed, lanes })
            }
            Mode::Direct | Mode::Aggregated => None,
        };
        let dimensions = Dimensions { servers, threshold, polys, plaintext };
        Ok(Self { set, mode, dimensions, faulty, lanes })
    }
}
