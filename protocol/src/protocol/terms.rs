//! What the parties of an epoch's rounds agree on besides the epoch's document: enough to compute every public parameter
//! again, and to size the payload.
//!
//! The digest over a [`RoundShape`] stands in everything that a party signs. Bounds on the number of clients are the
//! deployment's policy and under no party's signature, and the payload's encoding is what clients and readers go by: both
//! are in [`Terms`], which the log's leaf for an epoch carries, and not in a shape, which evidence carries.

use super::lane_params::LaneShape;
use super::params::{Deployment, Dimensions, ProtocolParams, SetupError};
use crate::bulletin::Mode;
use crate::channel::{ChannelError, ChannelParams, Encoding};
use crate::ids::{DeploymentId, EpochDigest};
use crate::kahe::Plaintext;
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader};
use chipmunk::params::{P300, P1000, ParameterSet};
use chipmunk::ring::backend::Kernels;
use std::ops::RangeInclusive;

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

/// Parameter set, mode and shape of a round: what the public parameters follow from, with a document. A shape need not be
/// one that setup takes.
///
/// Wire: set and mode, a byte each; servers, threshold, faulty servers, u16 each; polynomials, u32; plaintext modulus, a
/// byte; in erasure mode k and n, u16 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundShape {
    set: Set,
    mode: Mode,
    dimensions: Dimensions,
    faulty: u16,
    lanes: Option<LaneShape>,
}

impl RoundShape {
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

    /// The parameters with the widest bounds on the number of clients.
    pub fn widest(
        &self,
        id: DeploymentId,
        epoch: EpochDigest,
        kernels: &'static Kernels,
    ) -> Result<ProtocolParams, SetupError> {
        let max_clients = ProtocolParams::admissible_clients(self.set(), self.dimensions);
        self.parameters(self.deployment(2, max_clients, id, epoch, kernels))
    }

    fn deployment(
        &self,
        min_clients: u32,
        max_clients: u32,
        id: DeploymentId,
        epoch: EpochDigest,
        kernels: &'static Kernels,
    ) -> Deployment {
        Deployment { id, epoch, set: self.set(), min_clients, max_clients, faulty: self.faulty, kernels }
    }

    fn check(&self, clients: RangeInclusive<u32>) -> Result<(), SetupError> {
        ProtocolParams::admissible(self.set(), self.dimensions, self.faulty, clients, self.lanes)
    }

    fn parameters(&self, deployment: Deployment) -> Result<ProtocolParams, SetupError> {
        ProtocolParams::build(deployment, self.dimensions, self.mode, self.lanes)
    }
}

impl Encode for RoundShape {
    fn encode(&self, out: &mut Vec<u8>) {
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

    fn encoded_len(&self) -> usize {
        let lanes = if self.lanes.is_some() { 2 + 2 } else { 0 };
        1 + 1 + 2 + 2 + 2 + 4 + 1 + lanes
    }
}

impl Decode for RoundShape {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
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

/// An epoch's rounds, completely: with the deployment and the epoch's document, everything that parties hold in common.
/// Terms in hand are terms that setup takes, of a channel that fits them.
///
/// Wire: parameter set and mode, a byte each; servers, threshold, faulty servers, u16 each; polynomials, u32; plaintext
/// modulus, a byte; in erasure mode k and n, u16 each; fewest and most clients, u32 each; encoding, a byte; messages that
/// a sum may hold and bytes of the longest, u32 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    shape: RoundShape,
    min_clients: u32,
    max_clients: u32,
    encoding: Encoding,
    capacity: u32,
    message_bytes: u32,
}

impl Terms {
    /// The terms of these parameters' rounds, whose vectors carry this channel.
    ///
    /// # Errors
    /// `Channel` if the channel's vectors are of other dimensions than the parameters'.
    pub fn of(params: &ProtocolParams, channel: &ChannelParams) -> Result<Self, SetupError> {
        let number = |number: usize| u32::try_from(number).map_err(|_| foreign(params.dimensions(), channel));
        let terms = Self {
            shape: RoundShape::of(params),
            min_clients: params.min_clients(),
            max_clients: params.max_clients(),
            encoding: channel.encoding(),
            capacity: number(channel.capacity())?,
            message_bytes: number(channel.max_message_bytes())?,
        };
        terms.check_channel(channel)?;
        Ok(terms)
    }

    /// The parameters of these rounds in a deployment's epoch.
    pub fn parameters(
        &self,
        deployment: DeploymentId,
        epoch: EpochDigest,
        kernels: &'static Kernels,
    ) -> ProtocolParams {
        let deployment =
            self.shape.deployment(self.min_clients, self.max_clients, deployment, epoch, kernels);
        self.shape.parameters(deployment).expect("checked when the terms were made")
    }

    /// The payload's encoding, with portable arithmetic: see [`ChannelParams::with_kernels`]. Slots are not yet allocated.
    pub fn channel(&self) -> ChannelParams {
        self.sized_channel().expect("checked when the terms were made")
    }

    /// The terms of the rounds in which these rounds' slots are reserved: the same but for the payload.
    ///
    /// # Errors
    /// `Tickets` for another encoding, or for more messages than the tickets' encoding has shapes for; `Polys` or
    /// `MaxClients` if so many tickets make vectors that cannot be summed.
    pub fn of_tickets(&self) -> Result<Self, SetupError> {
        let channel = self.channel().ticket_channel().map_err(SetupError::Tickets)?;
        let Dimensions { servers, threshold, .. } = self.dimensions();
        let dimensions = Dimensions::for_channel(&channel, servers, threshold);
        let message_bytes = u32::try_from(channel.max_message_bytes()).expect("a ticket is short");
        let shape = RoundShape { dimensions, ..self.shape };
        shape.check(self.min_clients..=self.max_clients)?;
        Ok(Self { shape, encoding: channel.encoding(), message_bytes, ..*self })
    }

    /// The parameter set.
    pub fn set(&self) -> &'static ParameterSet {
        self.shape.set()
    }

    /// How ciphertexts travel.
    pub const fn mode(&self) -> Mode {
        self.shape.mode
    }

    /// Servers, threshold, polynomials and plaintext modulus.
    pub const fn dimensions(&self) -> Dimensions {
        self.shape.dimensions
    }

    /// Servers assumed faulty, f.
    pub const fn faulty(&self) -> u16 {
        self.shape.faulty
    }

    /// The lanes, in erasure mode.
    pub const fn lanes(&self) -> Option<LaneShape> {
        self.shape.lanes
    }

    /// Fewest clients of a canonical set.
    pub const fn min_clients(&self) -> u32 {
        self.min_clients
    }

    /// Most clients of a canonical set.
    pub const fn max_clients(&self) -> u32 {
        self.max_clients
    }

    /// Messages that a sum may hold and still be decoded. It may be fewer than [`max_clients`](Self::max_clients): then a
    /// round in which more clients speak than this delivers nothing (sketch) or not all of it (peeling), and covers have to
    /// make up the rest. An operator that does not count on covers sizes the channel for every client.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    fn sized_channel(&self) -> Result<ChannelParams, ChannelError> {
        let size = |number: u32| usize::try_from(number).expect("usize has at least 32 bits");
        ChannelParams::for_messages(self.encoding, size(self.capacity), size(self.message_bytes))
    }

    fn check_channel(&self, channel: &ChannelParams) -> Result<(), SetupError> {
        let dimensions = self.dimensions();
        let expected = Dimensions::for_channel(channel, dimensions.servers, dimensions.threshold);
        if expected == dimensions { Ok(()) } else { Err(foreign(dimensions, channel)) }
    }
}

fn foreign(dimensions: Dimensions, channel: &ChannelParams) -> SetupError {
    SetupError::Channel {
        encoding: channel.encoding(),
        needed: channel.n_polys(),
        modulus: channel.plaintext_modulus(),
        polys: dimensions.polys,
    }
}

impl Encode for Terms {
    fn encode(&self, out: &mut Vec<u8>) {
        self.shape.encode(out);
        out.extend_from_slice(&self.min_clients.to_le_bytes());
        out.extend_from_slice(&self.max_clients.to_le_bytes());
        out.push(self.encoding.tag());
        out.extend_from_slice(&self.capacity.to_le_bytes());
        out.extend_from_slice(&self.message_bytes.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        self.shape.encoded_len() + 4 + 4 + 1 + 4 + 4
    }
}

impl Decode for Terms {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let refused = reader.fault("terms of a round", DecodeErrorKind::OutOfRange);
        let shape = RoundShape::decode(reader)?;
        let min_clients = reader.u32("fewest clients")?;
        let max_clients = reader.u32("most clients")?;
        let foreign = reader.fault("payload encoding", DecodeErrorKind::OutOfRange);
        let tag = reader.u8("payload encoding")?;
        let encoding = Encoding::ALL.into_iter().find(|known| known.tag() == tag).ok_or(foreign)?;
        let (capacity, message_bytes) = (reader.u32("capacity")?, reader.u32("message bytes")?);
        shape.check(min_clients..=max_clients).map_err(|_| refused)?;
        let terms = Self { shape, min_clients, max_clients, encoding, capacity, message_bytes };
        let channel = terms.sized_channel().map_err(|_| foreign)?;
        terms.check_channel(&channel).map_err(|_| foreign)?;
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chipmunk::ring::backend;

    const DEPLOYMENT: &str = "terms test";

    fn dimensions(channel: &ChannelParams) -> Dimensions {
        Dimensions::for_channel(channel, 4, 3)
    }

    fn deployment() -> Deployment {
        Deployment {
            id: DeploymentId::from_name(DEPLOYMENT),
            epoch: EpochDigest::from_digest([7; 32]),
            set: &P300,
            min_clients: 5,
            max_clients: 60,
            faulty: 1,
            kernels: backend::under_test(),
        }
    }

    fn again(terms: &Terms) -> ProtocolParams {
        let Deployment { id, epoch, kernels, .. } = deployment();
        terms.parameters(id, epoch, kernels)
    }

    /// Parameters and channel that are made of the terms are those that the terms are of, in each mode and encoding.
    #[test]
    fn terms_give_parameters_and_channel_again() {
        let shape = LaneShape { needed: 2, lanes: 5 };
        for encoding in Encoding::ALL {
            let channel = ChannelParams::for_messages(encoding, 40, 30).unwrap();
            let dimensions = dimensions(&channel);
            for params in [
                ProtocolParams::setup_with_kahe_dims_full(deployment(), dimensions),
                ProtocolParams::setup_aggregated_mode(deployment(), dimensions),
                ProtocolParams::setup_rs_mode(deployment(), dimensions, shape),
            ] {
                let params = params.unwrap();
                let terms = Terms::of(&params, &channel).unwrap();
                let read = Terms::from_bytes(&terms.to_bytes()).unwrap();
                assert_eq!((read, read.channel()), (terms, channel.clone()));
                let again = again(&read);
                assert_eq!((again.crs_digest(), again.epoch()), (params.crs_digest(), params.epoch()));
                assert_eq!((again.mode(), again.lanes()), (params.mode(), params.lanes()));
                assert_eq!((again.min_clients(), again.max_clients(), again.faulty()), (5, 60, 1));
            }
        }
    }

    #[test]
    fn tickets_have_terms_of_their_own() {
        let channel = ChannelParams::for_messages(Encoding::Slots, 40, 3000).unwrap();
        let params = ProtocolParams::setup_aggregated_mode(deployment(), dimensions(&channel)).unwrap();
        let terms = Terms::of(&params, &channel).unwrap();
        let tickets = terms.of_tickets().unwrap();
        assert_eq!(Terms::from_bytes(&tickets.to_bytes()), Ok(tickets));
        assert_eq!(tickets.channel(), channel.ticket_channel().unwrap());
        assert_eq!(again(&tickets).mode(), Mode::Aggregated);
        let refused = ChannelError::NotSlots { encoding: Encoding::Peeling };
        assert_eq!(tickets.of_tickets(), Err(SetupError::Tickets(refused)));
    }

    #[test]
    fn a_channel_of_other_vectors_is_refused() {
        let channel = ChannelParams::for_messages(Encoding::Peeling, 40, 3000).unwrap();
        let params = ProtocolParams::setup_with_kahe_dims_full(deployment(), dimensions(&channel)).unwrap();
        let polys = params.dimensions().polys;
        for other in [
            ChannelParams::for_messages(Encoding::Peeling, 40, 6000).unwrap(),
            // As many polynomials, and another modulus.
            (1..20_000)
                .step_by(100)
                .filter_map(|bytes| ChannelParams::for_messages(Encoding::Sketch, 40, bytes).ok())
                .find(|other| other.n_polys() == channel.n_polys())
                .unwrap(),
        ] {
            let needed = other.n_polys();
            let modulus = other.plaintext_modulus();
            let refused = SetupError::Channel { encoding: other.encoding(), needed, modulus, polys };
            assert_eq!(Terms::of(&params, &other), Err(refused));
        }
    }
}
