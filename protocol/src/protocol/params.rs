//! The parameters of a deployment's rounds: what all parties must hold in common.

use super::lane_params::{LaneCode, LaneShape};
use crate::bulletin::{Envelope, Mode, PostStatement, RsClientBulletinEntry, ServerBulletinEntry};
use crate::channel::{ChannelError, ChannelParams, Encoding};
use crate::cs::{CsParams, SummedLayout};
use crate::fault::{Attribution, Fault};
use crate::ids::{CrsDigest, DeploymentId, EpochDigest};
use crate::kahe::{KaheParams, Plaintext};
use crate::lattice::{CrsSeed, Lattice};
use crate::noise::max_clients_by_noise;
use crate::pke;
use crate::plaintext::PlainPoly;
use crate::sig::Signature;
use crate::sss::{ShamirSharing, default_threshold};
use crate::wire::HEADER_LEN;
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::pack::packed_len;
use chipmunk::tree::depth;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Most polynomials a message may have: a vector of 2 GiB in transit.
const MAX_POLYS: u32 = 1 << 17;

/// Setup was asked for something it must not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The payload's vectors do not fit the rounds.
    #[error(
        "{encoding} has vectors of {needed} polynomials modulo {modulus}, the rounds have {polys} or another modulus"
    )]
    Channel {
        /// The payload's encoding.
        encoding: Encoding,
        /// Polynomials of its vectors.
        needed: usize,
        /// Its plaintext modulus.
        modulus: u64,
        /// Polynomials of the rounds.
        polys: u32,
    },
    /// As many servers assumed faulty as reveal the sum: nothing is private then.
    #[error("{faulty} faulty servers: they must be fewer than the threshold {threshold}")]
    Faulty {
        /// f.
        faulty: u16,
        /// t.
        threshold: u16,
    },
    /// Lanes that cannot carry a code.
    #[error(
        "{needed}-of-{lanes} lanes: the code needs 1 <= k <= n, and every server is a lane, so n >= {servers}"
    )]
    Lanes {
        /// k.
        needed: u16,
        /// n.
        lanes: u16,
        /// Servers.
        servers: u16,
    },
    /// More clients than the parameters can sum.
    #[error(
        "max_clients = {asked} is above {admissible}, the largest roster of {set} at {polys} polynomials"
    )]
    MaxClients {
        /// What was asked for.
        asked: u32,
        /// Least of rho_max and the digit, key-bridge and noise bounds.
        admissible: u32,
        /// Name of the parameter set.
        set: &'static str,
        /// Polynomials of a message.
        polys: u32,
    },
    /// A floor that protects nobody, or above the ceiling.
    #[error("min_clients = {min} must be at least 2 and at most max_clients = {max}")]
    MinClients {
        /// The floor.
        min: u32,
        /// The ceiling.
        max: u32,
    },
    /// A message without polynomials, or beyond any use.
    #[error("a message has 1 to {max} polynomials, got {polys}")]
    Polys {
        /// What was asked for.
        polys: u32,
        /// Most polynomials.
        max: u32,
    },
    /// A threshold that is no majority, or above the number of servers.
    #[error("threshold {threshold} of {servers} servers: it must be above {}, at most {servers}", servers / 2)]
    Threshold {
        /// t.
        threshold: u16,
        /// S.
        servers: u16,
    },
    /// The rounds' payload has no slots, or the rounds in which they would be reserved are none.
    #[error("no rounds of tickets go with these rounds")]
    Tickets(#[source] ChannelError),
}

impl Fault for SetupError {
    fn code(&self) -> &'static str {
        match self {
            Self::Channel { .. } => "setup_channel",
            Self::Faulty { .. } => "setup_faulty",
            Self::Lanes { .. } => "setup_lanes",
            Self::MaxClients { .. } => "setup_max_clients",
            Self::MinClients { .. } => "setup_min_clients",
            Self::Polys { .. } => "setup_polys",
            Self::Threshold { .. } => "setup_threshold",
            Self::Tickets(_) => "setup_tickets",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// Setup accepts this, and whoever runs it should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupWarning {
    /// t < 2f+1: f servers that lie can make a client run out of answers. Its privacy stands.
    #[error(
        "threshold {threshold} with {faulty} faulty servers: below {}, they can shut a client out of rounds",
        2 * u32::from(*faulty) + 1
    )]
    ClientsCanBeShutOut {
        /// f.
        faulty: u16,
        /// t.
        threshold: u16,
    },
}

/// What a deployment fixes for an epoch, whatever the shape of its rounds.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    /// Its name's digest.
    pub id: DeploymentId,
    /// Digest of the epoch's document.
    pub epoch: EpochDigest,
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Fewest clients whose sum may be revealed. No default: wanted anonymity plus the clients an adversary may run.
    pub min_clients: u32,
    /// Most clients a round may have.
    pub max_clients: u32,
    /// Servers assumed faulty, f. No default. It caps the complaints that a client answers, and the public parameters'
    /// digest covers it: all parties derive the set with the same one.
    pub faulty: u16,
    /// The arithmetic to compute with.
    pub kernels: &'static Kernels,
}

/// The shape of a deployment's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Number of servers S.
    pub servers: u16,
    /// Servers that together reveal the sum, t.
    pub threshold: u16,
    /// Polynomials of a message, mu.
    pub polys: u32,
    /// The plaintext modulus.
    pub plaintext: Plaintext,
}

impl Dimensions {
    /// The shape of rounds that carry this payload encoding.
    pub fn for_channel(channel: &ChannelParams, servers: u16, threshold: u16) -> Self {
        let polys = u32::try_from(channel.n_polys()).unwrap_or(u32::MAX);
        let plaintext = match channel.encoding() {
            Encoding::Sketch => Plaintext::Prime,
            Encoding::Peeling | Encoding::Slots => Plaintext::PowerOfTwo,
        };
        Self { servers, threshold, polys, plaintext }
    }
}

/// The common parameters of every round of one epoch. Two parties with the same [`CrsDigest`] and epoch hold the same.
#[derive(Debug)]
pub struct ProtocolParams {
    deployment: Deployment,
    dimensions: Dimensions,
    mode: Mode,
    lanes: Option<LaneCode>,
    lattice: Arc<Lattice>,
    kahe: KaheParams,
    cs: CsParams,
    crs_digest: CrsDigest,
}

impl ProtocolParams {
    /// Rounds of one polynomial with modulus 2^35 and the default threshold.
    ///
    /// # Errors
    /// As [`setup_with_kahe_dims_full`](Self::setup_with_kahe_dims_full).
    pub fn setup(deployment: Deployment, servers: u16) -> Result<Self, SetupError> {
        Self::setup_with_threshold(deployment, servers, default_threshold(servers))
    }

    /// Rounds of one polynomial with modulus 2^35.
    ///
    /// # Errors
    /// As [`setup_with_kahe_dims_full`](Self::setup_with_kahe_dims_full).
    pub fn setup_with_threshold(
        deployment: Deployment,
        servers: u16,
        threshold: u16,
    ) -> Result<Self, SetupError> {
        let plaintext = Plaintext::PowerOfTwo;
        Self::setup_with_kahe_dims_full(deployment, Dimensions { servers, threshold, polys: 1, plaintext })
    }

    /// Rounds of `polys` polynomials with modulus 2^35 and the default threshold.
    ///
    /// # Errors
    /// As [`setup_with_kahe_dims_full`](Self::setup_with_kahe_dims_full).
    pub fn setup_with_kahe_dims(
        deployment: Deployment,
        servers: u16,
        polys: u32,
    ) -> Result<Self, SetupError> {
        let (threshold, plaintext) = (default_threshold(servers), Plaintext::PowerOfTwo);
        Self::setup_with_kahe_dims_full(deployment, Dimensions { servers, threshold, polys, plaintext })
    }

    /// Direct rounds of any shape.
    ///
    /// # Errors
    /// `Threshold` unless S/2 < t <= S; `Faulty` unless f < t; `Polys` unless there are 1 to 131,072; `MaxClients` beyond what the parameter
    /// set can sum at this width; `MinClients` for a floor below 2 or above the ceiling.
    pub fn setup_with_kahe_dims_full(
        deployment: Deployment,
        dimensions: Dimensions,
    ) -> Result<Self, SetupError> {
        Self::build(deployment, dimensions, Mode::Direct, None)
    }

    /// Aggregated rounds of any shape: clients post to aggregators, which publish the sums of their groups.
    ///
    /// # Errors
    /// As [`setup_with_kahe_dims_full`](Self::setup_with_kahe_dims_full).
    pub fn setup_aggregated_mode(deployment: Deployment, dimensions: Dimensions) -> Result<Self, SetupError> {
        Self::build(deployment, dimensions, Mode::Aggregated, None)
    }

    /// Erasure-coded rounds: any `lanes.needed` of `lanes.lanes` lanes carry the ciphertext.
    ///
    /// # Errors
    /// As [`setup_with_kahe_dims_full`](Self::setup_with_kahe_dims_full), and `Lanes` for a code that does not exist.
    pub fn setup_rs_mode(
        deployment: Deployment,
        dimensions: Dimensions,
        lanes: LaneShape,
    ) -> Result<Self, SetupError> {
        Self::build(deployment, dimensions, Mode::Erasure, Some(lanes))
    }

    /// Whether there are rounds of this shape, with a roster of this range. Computes nothing large.
    pub(super) fn admissible(
        set: &'static ParameterSet,
        dimensions: Dimensions,
        faulty: u16,
        clients: RangeInclusive<u32>,
        lanes: Option<LaneShape>,
    ) -> Result<(), SetupError> {
        let Dimensions { servers, threshold, polys, .. } = dimensions;
        if let Some(LaneShape { needed, lanes }) = lanes
            && (needed == 0 || needed > lanes || lanes < servers)
        {
            return Err(SetupError::Lanes { needed, lanes, servers });
        }
        if threshold <= servers / 2 || threshold > servers {
            return Err(SetupError::Threshold { threshold, servers });
        }
        if faulty >= threshold {
            return Err(SetupError::Faulty { faulty, threshold });
        }
        if !(1..=MAX_POLYS).contains(&polys) {
            return Err(SetupError::Polys { polys, max: MAX_POLYS });
        }
        let admissible = Self::admissible_clients(set, dimensions);
        let (min, max) = clients.into_inner();
        if max > admissible {
            return Err(SetupError::MaxClients { asked: max, admissible, set: set.name, polys });
        }
        if min < 2 || min > max {
            return Err(SetupError::MinClients { min, max });
        }
        Ok(())
    }

    /// Rounds of any mode and shape. `lanes` belong to erasure mode alone.
    pub(super) fn build(
        deployment: Deployment,
        dimensions: Dimensions,
        mode: Mode,
        lanes: Option<LaneShape>,
    ) -> Result<Self, SetupError> {
        let Dimensions { servers, threshold, polys, plaintext } = dimensions;
        let Deployment { set, faulty, min_clients, max_clients, .. } = deployment;
        Self::admissible(set, dimensions, faulty, min_clients..=max_clients, lanes)?;
        let seed = CrsSeed::derive(&deployment.id, set);
        let shape = lanes;
        let LaneShape { needed, lanes: n } = shape.unwrap_or(LaneShape { needed: 0, lanes: 0 });
        let described = [
            servers.into(),
            threshold.into(),
            faulty.into(),
            polys.into(),
            plaintext.modulus(set),
            needed.into(),
            n.into(),
        ];
        let lattice = Arc::new(Lattice::new(set, deployment.kernels));
        let message = usize::try_from(polys).expect("usize has at least 32 bits");
        Ok(Self {
            lanes: shape.map(|shape| LaneCode::new(&lattice, &seed, shape, message)),
            kahe: KaheParams::new(Arc::clone(&lattice), &seed, &deployment.epoch, polys, plaintext),
            cs: CsParams::new(Arc::clone(&lattice), &seed, servers),
            crs_digest: seed.digest(set, &described),
            deployment,
            dimensions,
            mode,
            lattice,
        })
    }

    /// The largest roster of a shape: the least of rho_max, the digit bounds, the key bridge and the noise bound.
    pub fn admissible_clients(set: &ParameterSet, dimensions: Dimensions) -> u32 {
        let polys = usize::try_from(dimensions.polys).expect("usize has at least 32 bits");
        set.rho_max
            .min(set.max_clients_by_digits())
            .min(set.max_clients_by_key_bridge())
            .min(max_clients_by_noise(set, polys, dimensions.plaintext))
    }

    /// Servers, threshold, polynomials and plaintext modulus.
    pub const fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    /// The deployment's id.
    pub const fn deployment(&self) -> &DeploymentId {
        &self.deployment.id
    }

    /// Digest of the epoch's document.
    pub const fn epoch(&self) -> &EpochDigest {
        &self.deployment.epoch
    }

    /// The parameter set.
    pub const fn set(&self) -> &'static ParameterSet {
        self.deployment.set
    }

    /// Fewest clients of a canonical set.
    pub const fn min_clients(&self) -> u32 {
        self.deployment.min_clients
    }

    /// Most clients of a canonical set.
    pub const fn max_clients(&self) -> u32 {
        self.deployment.max_clients
    }

    /// Number of servers.
    pub const fn servers(&self) -> u16 {
        self.dimensions.servers
    }

    /// Servers that together reveal the sum.
    pub const fn threshold(&self) -> u16 {
        self.dimensions.threshold
    }

    /// Servers assumed faulty, f.
    pub const fn faulty(&self) -> u16 {
        self.deployment.faulty
    }

    /// Most complaints that a client answers in one session: a_max = t-1-f. With the f shares of faulty servers that is
    /// one share less than reveal its vector.
    pub const fn max_answers(&self) -> u16 {
        self.dimensions.threshold - 1 - self.deployment.faulty
    }

    /// Servers that have to have checked before a round is closed ahead of its deadline: min(S, t+f), of which t are
    /// honest if there are as many. At the deadline, t are enough.
    pub fn early_close(&self) -> u16 {
        self.servers().min(self.threshold().saturating_add(self.faulty()))
    }

    /// What should be known of these parameters before they are used.
    pub fn warnings(&self) -> Vec<SetupWarning> {
        let (threshold, faulty) = (self.threshold(), self.faulty());
        let warned = u32::from(threshold) < 2 * u32::from(faulty) + 1;
        warned.then_some(SetupWarning::ClientsCanBeShutOut { faulty, threshold }).into_iter().collect()
    }

    /// The sharing of a key among the servers.
    pub fn sharing(&self) -> ShamirSharing {
        ShamirSharing::new(self.threshold(), self.servers())
    }

    /// How ciphertexts travel.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The lanes, in erasure mode.
    pub fn lanes(&self) -> Option<LaneShape> {
        self.lanes.as_ref().map(LaneCode::shape)
    }

    /// The lanes' code and commitment, in erasure mode.
    pub const fn lane_code(&self) -> Option<&LaneCode> {
        self.lanes.as_ref()
    }

    /// Digest of parameter set, dimensions and seed.
    pub const fn crs_digest(&self) -> &CrsDigest {
        &self.crs_digest
    }

    /// The rings.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The encryption.
    pub const fn kahe(&self) -> &KaheParams {
        &self.kahe
    }

    /// The key-share commitment.
    pub const fn cs(&self) -> &CsParams {
        &self.cs
    }

    /// Exact sizes of everything a round of `clients` puts on the wire.
    pub fn wire_sizes(&self, clients: u32) -> RoundWireSizes {
        round_wire_sizes(self.set(), self.dimensions, self.mode, clients)
    }
}

/// Polynomials that every client contributes, real or cover.
pub const fn message_polys(params: &ProtocolParams) -> usize {
    params.kahe().polys()
}

/// The trivial cover: all zero. A client takes [`channel::cover`](crate::channel::cover) instead, which takes as long to
/// make as a message.
pub fn zero_message(params: &ProtocolParams) -> Vec<PlainPoly> {
    vec![PlainPoly::zero(); message_polys(params)]
}

/// Bytes of each object of a round. "Body" is without framing, ids, digests and signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundWireSizes {
    /// One packed polynomial of the commitment ring.
    pub hvc_poly: usize,
    /// One packed polynomial of the share ring.
    pub cs_poly: usize,
    /// One packed ciphertext polynomial.
    pub wire_poly: usize,
    /// A ciphertext.
    pub ciphertext: usize,
    /// A client's whole post: with the ciphertext, unless it travels through lanes.
    pub post: usize,
    /// A signed statement: the log's `Post` leaf.
    pub post_leaf: usize,
    /// A sealed opening, body.
    pub sealed_opening: usize,
    /// All envelopes of one client, framed.
    pub envelopes: usize,
    /// A server's summed opening, body.
    pub server_sum_body: usize,
    /// A server's whole answer.
    pub server_sum: usize,
}

/// Exact sizes of a round, without expanding any public parameters.
pub fn round_wire_sizes(
    set: &ParameterSet,
    dimensions: Dimensions,
    mode: Mode,
    clients: u32,
) -> RoundWireSizes {
    let Dimensions { servers, polys, .. } = dimensions;
    let depth = depth(servers.into());
    let polys = usize::try_from(polys).expect("usize has at least 32 bits");
    let (hvc_poly, cs_poly) = (packed_len(set.hvc_bits), packed_len(set.cs_bits));
    let wire_poly = 2 * packed_len(set.wire_limb_bits);
    let ciphertext = polys * wire_poly;
    let post_leaf = PostStatement::len(mode) + Signature::LEN;
    let sealed_opening = 32 + cs_poly + depth * hvc_poly + pke::OVERHEAD;
    let framed = |server: u16| {
        let path = crate::merkle::path_len(server.into(), servers.into()).expect("a server of the epoch");
        // In erasure mode the root over the lane items stands beside that over the envelopes.
        Envelope::framed_len(sealed_opening, path + usize::from(mode == Mode::Erasure))
    };
    let layout = SummedLayout::new(set, depth, clients);
    RoundWireSizes {
        hvc_poly,
        cs_poly,
        wire_poly,
        ciphertext,
        post: match mode {
            Mode::Erasure => RsClientBulletinEntry::packed_len(set),
            Mode::Direct | Mode::Aggregated => HEADER_LEN + post_leaf + hvc_poly + ciphertext,
        },
        post_leaf,
        sealed_opening,
        envelopes: (0..servers).map(framed).sum(),
        server_sum_body: layout.packed_len(),
        server_sum: ServerBulletinEntry::packed_len(layout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulletin::ClientBulletinEntry;
    use chipmunk::params::{P300, P1000};
    use chipmunk::ring::backend;

    fn deployment(min_clients: u32, max_clients: u32) -> Deployment {
        Deployment {
            id: DeploymentId::from_name("params test"),
            epoch: EpochDigest::from_digest([0; 32]),
            set: &P300,
            min_clients,
            max_clients,
            faulty: 0,
            kernels: backend::under_test(),
        }
    }

    fn dimensions(polys: u32) -> Dimensions {
        Dimensions { servers: 8, threshold: 6, polys, plaintext: Plaintext::Prime }
    }

    #[test]
    fn sizes_of_the_reference_cell() {
        let sizes = round_wire_sizes(&P300, dimensions(553), Mode::Direct, 300);
        assert_eq!((sizes.hvc_poly, sizes.cs_poly, sizes.wire_poly), (4352, 4608, 10_752));
        assert_eq!(sizes.ciphertext, 5_945_856);
        assert_eq!((sizes.sealed_opening, sizes.server_sum_body), (18_800, 97_280));
        let sixteen = Dimensions { servers: 16, threshold: 14, ..dimensions(553) };
        assert_eq!(round_wire_sizes(&P300, sixteen, Mode::Direct, 300).sealed_opening, 23_152);
    }

    #[test]
    fn one_client_too_many_is_refused() {
        let setup =
            |max| ProtocolParams::setup_with_kahe_dims_full(deployment(2, max), dimensions(1)).map(|_| ());
        assert_eq!(setup(300), Ok(()));
        let refused = SetupError::MaxClients { asked: 301, admissible: 300, set: P300.name, polys: 1 };
        assert_eq!(setup(301), Err(refused));
        assert_eq!(ProtocolParams::admissible_clients(&P1000, dimensions(1834)), 1000);
    }

    #[test]
    fn floors_and_thresholds_are_refused() {
        let setup = |min, max| ProtocolParams::setup(deployment(min, max), 4).map(|_| ()).err();
        assert_eq!(setup(2, 2), None);
        for (min, max) in [(0, 10), (1, 10), (11, 10)] {
            assert_eq!(setup(min, max), Some(SetupError::MinClients { min, max }));
        }
        for (servers, threshold) in [(0, 0), (4, 0), (4, 2), (4, 5), (5, 2), (1, 0)] {
            let refused =
                ProtocolParams::setup_with_threshold(deployment(2, 3), servers, threshold).map(|_| ());
            assert_eq!(refused.err(), Some(SetupError::Threshold { threshold, servers }));
        }
        let polys = ProtocolParams::setup_with_kahe_dims(deployment(2, 3), 4, 0).map(|_| ());
        assert_eq!(polys.err(), Some(SetupError::Polys { polys: 0, max: MAX_POLYS }));
        for (needed, lanes) in [(0, 16), (17, 16), (2, 7)] {
            let shape = LaneShape { needed, lanes };
            let refused = ProtocolParams::setup_rs_mode(deployment(2, 3), dimensions(1), shape).map(|_| ());
            assert_eq!(refused.err(), Some(SetupError::Lanes { needed, lanes, servers: 8 }));
        }
    }

    #[test]
    fn faulty_servers_are_fewer_than_the_threshold() {
        let setup = |servers, threshold, faulty| {
            let deployment = Deployment { faulty, ..deployment(2, 3) };
            ProtocolParams::setup_with_threshold(deployment, servers, threshold)
        };
        // S, t, f; a_max = t - 1 - f and min(S, t + f) worked out by hand; whether f liars can shut a client out.
        for (servers, threshold, faulty, cap, close, warned) in [
            (8, 6, 2, 3, 8, false),
            (8, 6, 3, 2, 8, true),
            (16, 10, 2, 7, 12, false),
            (1, 1, 0, 0, 1, false),
            (3, 2, 1, 0, 3, true),
        ] {
            let params = setup(servers, threshold, faulty).unwrap();
            assert_eq!((params.max_answers(), params.early_close()), (cap, close));
            assert_eq!(params.warnings().len(), usize::from(warned));
        }
        for (servers, threshold, faulty) in [(8, 6, 6), (8, 6, u16::MAX), (1, 1, 1)] {
            let refused = setup(servers, threshold, faulty).map(|_| ()).err();
            assert_eq!(refused, Some(SetupError::Faulty { faulty, threshold }));
        }
    }

    #[test]
    fn the_digest_depends_on_every_dimension() {
        let of = |dimensions| {
            *ProtocolParams::setup_with_kahe_dims_full(deployment(2, 3), dimensions).unwrap().crs_digest()
        };
        let base = dimensions(1);
        let digests = [
            of(base),
            of(Dimensions { servers: 9, ..base }),
            of(Dimensions { threshold: 7, ..base }),
            of(Dimensions { polys: 2, ..base }),
            of(Dimensions { plaintext: Plaintext::PowerOfTwo, ..base }),
            *ProtocolParams::setup_with_kahe_dims_full(Deployment { faulty: 1, ..deployment(2, 3) }, base)
                .unwrap()
                .crs_digest(),
            *ProtocolParams::setup_rs_mode(deployment(2, 3), base, LaneShape { needed: 6, lanes: 8 })
                .unwrap()
                .crs_digest(),
        ];
        for (i, a) in digests.iter().enumerate() {
            assert!(digests[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn closed_forms_match_the_encoders() {
        let params = ProtocolParams::setup_with_kahe_dims_full(deployment(2, 300), dimensions(3)).unwrap();
        let sizes = params.wire_sizes(7);
        assert_eq!(sizes.post, ClientBulletinEntry::packed_len(&params));
        assert_eq!(sizes.sealed_opening, params.cs().fresh_opening_len() + pke::OVERHEAD);
        assert_eq!(sizes.server_sum_body, params.cs().summed_layout(7).packed_len());
        assert_eq!(sizes.ciphertext, params.kahe().ciphertext_len());
    }
}
