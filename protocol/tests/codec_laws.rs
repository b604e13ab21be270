//! The laws of every byte format, one macro call a type:
//!
//! - `decode(encode(x)) = x`, and `encode` writes as many bytes as it says;
//! - `encode(decode(b)) = b` for all bytes that parse: random edits of valid bytes either are refused or are another
//!   value's one encoding;
//! - every strict prefix and every longer input is refused;
//! - parsing allocates in proportion to the input, whatever the input declares.
//!
//! [`every_wire_type_has_the_laws`] reads the source and fails if a type has no call here.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allocation_counter::measure;
use chipmunk::ring::pack::PackError;
use panetiere::bulletin::{
    Answer, CanonicalSet, Checked, ClientBulletinEntry, Envelope, Epoch, GroupSum, LaneBulletinEntry,
    LaneItem, Mode, PostHead, PostStatement, RsClientBulletinEntry, ServerBulletinEntry, SignedGroupClaim,
    SignedLaneClaim, SignedPost, SignedSumClaim, StatementContext,
};
use panetiere::channel::{ChannelParams, Encoding};
use panetiere::codec::slots::Reservation;
use panetiere::cs::{AggregatedOpening, Commitment, FreshOpening, SummedLayout};
use panetiere::evidence::Evidence;
use panetiere::ids::{
    AggregatorId, CiphertextDigest, ClientId, CrsDigest, DeploymentId, EnvelopeKeyDigest, EnvelopeRoot,
    EpochDigest, EpochId, NodeId, PostsDigest, RootDigest, ScheduleDigest, ServerId, SessionId, SetDigest,
    StatementDigest,
};
use panetiere::pke::PublicKey;
use panetiere::protocol::{
    ClientRound, LaneCode, LaneIdentity, LaneRound, ProtocolParams, RsClientRound, SumPart, Terms,
};
use panetiere::share_commitment::{AggregatedShare, ShareCommitment, SharePath};
use panetiere::sig::{Signature, VerifyingKey};
use panetiere::testing::{Net, deployment};
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Three servers, so that inclusion paths have both lengths; two clients.
static NET: LazyLock<Net> = LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(2).build());

fn params() -> &'static ProtocolParams {
    &NET.params
}

/// What client 0 sends.
static SENT: LazyLock<ClientRound> = LazyLock::new(|| NET.open(0).client(ClientId(0)));

/// The three servers' sums over both clients.
static SUMS: LazyLock<Vec<ServerBulletinEntry>> = LazyLock::new(|| NET.posted(0).sums(&NET.all()));

/// The same with aggregators.
static AGGREGATED: LazyLock<Net> =
    LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(2).aggregators(2).build());

/// A group of one, a group of two.
static GROUPS: LazyLock<Vec<GroupSum>> = LazyLock::new(|| {
    let round = AGGREGATED.posted(0);
    vec![round.group(AggregatorId(0), [1]), round.group(AggregatorId(1), [0, 1])]
});

fn context() -> StatementContext {
    StatementContext::new(params(), &NET.session(0))
}

/// What a server says that complains about the first so many clients.
fn a_checked(server: u16, about: u32) -> Vec<u8> {
    let round = NET.open(0);
    let complaint = |client| (client, round.client(client).post.head.signed.claim().digest());
    let complaints: BTreeMap<_, _> = (0..about).map(ClientId).map(complaint).collect();
    let key = NET.server(ServerId(server)).signing_key();
    Checked::sign(context(), ServerId(server), complaints, key).to_bytes()
}

fn an_answer() -> Vec<u8> {
    let opening = FreshOpening::from_bytes_with(params().cs(), &an_opening()).unwrap();
    let (client, key) = (ClientId(0), &NET.clients[0].signing_key);
    Answer::sign(context(), client, ServerId(1), &opening, params(), key).to_bytes()
}

/// The same with lanes: two of three, so that item paths have both lengths.
static LANES: LazyLock<Net> =
    LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(2).lanes(2, 3).build());

fn lane_params() -> &'static ProtocolParams {
    &LANES.params
}

fn code() -> &'static LaneCode {
    LANES.params.lane_code().unwrap()
}

/// What client 0 sends through lanes.
static CODED: LazyLock<RsClientRound> = LazyLock::new(|| LANES.open(0).rs_client(ClientId(0)));

/// Each lane's sum over both clients, for a check and at the close.
static LANE_SUMS: LazyLock<Vec<LaneBulletinEntry>> = LazyLock::new(|| {
    let round = LANES.open(0);
    let sent: Vec<RsClientRound> = LANES.ids().map(|client| round.rs_client(client)).collect();
    let sums = |lane: &Arc<LaneIdentity>| {
        let mut running = LaneRound::new(Arc::clone(&LANES.params), round.session, Arc::clone(lane));
        for sent in &sent {
            let key = LANES.party(sent.client_id).signing_key.verifying_key();
            let post = sent.post.signed.check(&LANES.params, &round.session, &key).unwrap();
            running.receive(&post, &sent.items[usize::from(lane.id().0)]).unwrap();
        }
        [running.check_sum(&LANES.all()).unwrap(), running.close(&LANES.all()).unwrap()]
    };
    LANES.lanes.iter().flat_map(sums).collect()
});

fn layout() -> SummedLayout {
    params().cs().summed_layout(2)
}

/// Valid encodings of a type, and how to parse and write it.
struct Laws<T> {
    name: &'static str,
    /// Whether some bytes of the right length are no value.
    refuses: bool,
    samples: Vec<Vec<u8>>,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
    encode: fn(&T) -> Vec<u8>,
}

/// Bytes that a parser may hold at once for `len` bytes of input: packed coefficients of 7 bits or more become words
/// of 32, of which a checked copy exists besides; the rest are small vectors.
fn allowance(len: usize) -> u64 {
    16 * u64::try_from(len).unwrap() + 4096
}

impl<T: PartialEq + std::fmt::Debug> Laws<T> {
    /// Parses, and holds the parser to its allowance.
    fn parse(&self, bytes: &[u8]) -> Result<T, DecodeError> {
        let mut outcome = None;
        let used = measure(|| outcome = Some((self.decode)(bytes))).bytes_max;
        assert!(used <= allowance(bytes.len()), "{}: {used} bytes for {}", self.name, bytes.len());
        outcome.unwrap()
    }

    fn hold(&self) {
        let name = self.name;
        let mut refused = false;
        for bytes in &self.samples {
            let value = self.parse(bytes).unwrap_or_else(|error| panic!("{name}: a valid sample: {error}"));
            assert!((self.encode)(&value) == *bytes, "{name}: encode(decode(b)) = b");
            assert_eq!(
                self.parse(&(self.encode)(&value)).as_ref(),
                Ok(&value),
                "{name}: decode(encode(x)) = x"
            );
            self.lengths(bytes);
            refused |= self.edits(bytes, &value);
        }
        assert_eq!(refused, self.refuses, "{name}");
    }

    /// Every strict prefix and every longer input is refused.
    fn lengths(&self, bytes: &[u8]) {
        // All cuts of small objects; of large ones those at both ends and a sample in between.
        let (ends, step) = (600, bytes.len() / 300 + 1);
        let chosen = |cut: &usize| *cut < ends || *cut + ends > bytes.len() || cut.is_multiple_of(step);
        for cut in (0..bytes.len()).filter(chosen) {
            let refused = self.parse(&bytes[..cut]).unwrap_err();
            assert!(refused.offset <= cut, "{}: {refused} in a prefix of {cut} bytes", self.name);
        }
        for extra in [&[0][..], &[0xFF], bytes] {
            let refused = self.parse(&[bytes, extra].concat()).unwrap_err();
            let kind = DecodeErrorKind::Trailing { extra: extra.len() };
            assert_eq!((refused.kind, refused.offset), (kind, bytes.len()), "{}", self.name);
        }
    }

    /// One to three edits, half of the time within the first 256 bytes, where the structure is. Returns whether any
    /// was refused.
    fn edits(&self, bytes: &[u8], value: &T) -> bool {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let mut draw = |below: usize| usize::try_from(rng.next_u32()).unwrap() % below;
        let mut refused = false;
        for round in 0..500 {
            let mut edited = bytes.to_vec();
            for _ in 0..1 + round % 3 {
                let at = draw(if round % 2 == 0 { bytes.len().min(256) } else { bytes.len() });
                edited[at] = match draw(4) {
                    0 => 0,
                    1 => 0xFF,
                    2 => edited[at] ^ 1 << draw(8),
                    _ => u8::try_from(draw(256)).unwrap(),
                };
            }
            match self.parse(&edited) {
                Ok(other) => {
                    assert!(
                        (self.encode)(&other) == edited,
                        "{}: accepted, with another encoding",
                        self.name
                    );
                    assert!(edited == bytes || other != *value, "{}: two encodings of one value", self.name);
                }
                Err(_) => refused = true,
            }
        }
        refused
    }
}

/// One test a type, and the list of the types tested.
macro_rules! wire_types {
    ($($test:ident: $type:ident, refuses: $refuses:literal, $samples:expr, $decode:expr, $encode:expr;)*) => {
        $(#[test]
        fn $test() {
            let laws = Laws {
                name: stringify!($type),
                refuses: $refuses,
                samples: $samples,
                decode: $decode,
                encode: $encode,
            };
            laws.hold();
        })*

        const TESTED: &[&str] = &[$(stringify!($type)),*];
    };
}

fn statement(mode: Mode) -> PostStatement {
    let mut statement = SENT.post.head.signed.claim().clone();
    statement.mode = mode;
    statement.roots = vec![statement.roots[0]; mode.roots()];
    statement
}

fn of_each_digest() -> Vec<Vec<u8>> {
    vec![vec![0; 32], (0..32).collect(), vec![0xFF; 32]]
}

/// Roots are parsed from a field that somebody has cut out, so their errors have no offset of their own.
fn a_root<T>(parsed: Result<T, PackError>) -> Result<T, DecodeError> {
    parsed.map_err(|error| match error {
        PackError::Length { expected, found } if found > expected => DecodeError {
            offset: expected,
            what: "commitment",
            kind: DecodeErrorKind::Trailing { extra: found - expected },
        },
        _ => DecodeError { offset: 0, what: "commitment", kind: DecodeErrorKind::OutOfRange },
    })
}

wire_types! {
    aggregator_id: AggregatorId, refuses: false, [0, 1, u16::MAX].map(|id| AggregatorId(id).to_bytes()).into(),
        AggregatorId::from_bytes, AggregatorId::to_bytes;
    statement_digest: StatementDigest, refuses: false, of_each_digest(),
        StatementDigest::from_bytes, StatementDigest::to_bytes;
    statement_context: StatementContext, refuses: false, vec![context().to_bytes()],
        StatementContext::from_bytes, StatementContext::to_bytes;
    group_sum: GroupSum, refuses: true, GROUPS.iter().map(|sum| sum.to_bytes(&AGGREGATED.params)).collect(),
        |bytes| GroupSum::from_bytes_with(&*AGGREGATED.params, bytes), |sum| sum.to_bytes(&AGGREGATED.params);
    checked: Checked, refuses: true, vec![a_checked(0, 0), a_checked(0, 2), a_checked(2, 1)],
        |bytes| Checked::from_bytes_with(params(), bytes), Checked::to_bytes;
    answer: Answer, refuses: true, vec![an_answer()],
        |bytes| Answer::from_bytes_with(params(), bytes), Answer::to_bytes;
    client_id: ClientId, refuses: false, [0, 1, u32::MAX].map(|id| ClientId(id).to_bytes()).into(),
        ClientId::from_bytes, ClientId::to_bytes;
    server_id: ServerId, refuses: false, [0, 1, u16::MAX].map(|id| ServerId(id).to_bytes()).into(),
        ServerId::from_bytes, ServerId::to_bytes;
    node_id: NodeId, refuses: false, [0, 1, u16::MAX].map(|id| NodeId(id).to_bytes()).into(),
        NodeId::from_bytes, NodeId::to_bytes;
    epoch_id: EpochId, refuses: false, [0, 1, u32::MAX].map(|id| EpochId(id).to_bytes()).into(),
        EpochId::from_bytes, EpochId::to_bytes;
    ciphertext_digest: CiphertextDigest, refuses: false, of_each_digest(),
        CiphertextDigest::from_bytes, CiphertextDigest::to_bytes;
    crs_digest: CrsDigest, refuses: false, of_each_digest(), CrsDigest::from_bytes, CrsDigest::to_bytes;
    deployment_id: DeploymentId, refuses: false, of_each_digest(),
        DeploymentId::from_bytes, DeploymentId::to_bytes;
    envelope_key_digest: EnvelopeKeyDigest, refuses: false, of_each_digest(),
        EnvelopeKeyDigest::from_bytes, EnvelopeKeyDigest::to_bytes;
    envelope_root: EnvelopeRoot, refuses: false, of_each_digest(),
        EnvelopeRoot::from_bytes, EnvelopeRoot::to_bytes;
    epoch_digest: EpochDigest, refuses: false, of_each_digest(), EpochDigest::from_bytes, EpochDigest::to_bytes;
    root_digest: RootDigest, refuses: false, of_each_digest(), RootDigest::from_bytes, RootDigest::to_bytes;
    schedule_digest: ScheduleDigest, refuses: false, of_each_digest(),
        ScheduleDigest::from_bytes, ScheduleDigest::to_bytes;
    session_id: SessionId, refuses: false, of_each_digest(), SessionId::from_bytes, SessionId::to_bytes;
    posts_digest: PostsDigest, refuses: false, of_each_digest(), PostsDigest::from_bytes, PostsDigest::to_bytes;
    set_digest: SetDigest, refuses: false, of_each_digest(), SetDigest::from_bytes, SetDigest::to_bytes;
    verifying_key: VerifyingKey, refuses: true,
        NET.clients.iter().map(|c| c.signing_key.verifying_key().to_bytes()).collect(),
        VerifyingKey::from_bytes, VerifyingKey::to_bytes;
    signature: Signature, refuses: true, vec![NET.epoch.servers()[0].signature.to_bytes()],
        Signature::from_bytes, Signature::to_bytes;
    public_key: PublicKey, refuses: true, vec![NET.epoch.servers()[0].envelope_key.to_bytes()],
        PublicKey::from_bytes, PublicKey::to_bytes;
    epoch: Epoch, refuses: true,
        vec![NET.epoch.to_bytes(), LANES.epoch.to_bytes(), AGGREGATED.epoch.to_bytes()],
        Epoch::from_bytes, Epoch::to_bytes;
    terms: Terms, refuses: true, some_terms(), Terms::from_bytes, Terms::to_bytes;
    canonical_set: CanonicalSet, refuses: true,
        [vec![5], vec![0, 1, u32::MAX], (0..300).collect()]
            .map(|ids| CanonicalSet::new(ids.into_iter().map(ClientId)).unwrap().to_bytes()).into(),
        CanonicalSet::from_bytes, CanonicalSet::to_bytes;
    post_statement: PostStatement, refuses: true,
        [Mode::Direct, Mode::Aggregated, Mode::Erasure].map(|mode| statement(mode).to_bytes()).into(),
        PostStatement::from_bytes, PostStatement::to_bytes;
    signed_post: SignedPost, refuses: true, vec![SENT.post.head.signed.to_bytes()],
        SignedPost::from_bytes, SignedPost::to_bytes;
    commitment: Commitment, refuses: true, vec![SENT.post.head.commitment.to_bytes(params().lattice())],
        |bytes| a_root(Commitment::from_bytes(params().lattice(), bytes)),
        |commitment| commitment.to_bytes(params().lattice());
    share_commitment: ShareCommitment, refuses: true,
        vec![CODED.post.share_commitment.to_bytes(params().lattice())],
        |bytes| a_root(ShareCommitment::from_bytes(params().lattice(), bytes)),
        |commitment| commitment.to_bytes(params().lattice());
    rs_client_bulletin_entry: RsClientBulletinEntry, refuses: true, vec![CODED.post.to_bytes(lane_params())],
        |bytes| RsClientBulletinEntry::from_bytes_with(lane_params(), bytes), |post| post.to_bytes(lane_params());
    // Lane 0 has two hashes in its path among the lanes, lane 2 has one.
    lane_item: LaneItem, refuses: true, vec![CODED.items[0].to_bytes(), CODED.items[2].to_bytes()],
        |bytes| LaneItem::from_bytes_with(lane_params(), bytes), LaneItem::to_bytes;
    share_path: SharePath, refuses: true, vec![CODED.items[1].body[code().rs().share_len()..].to_vec()],
        |bytes| SharePath::from_bytes_with(code().commitment(), bytes),
        |path| written(|out| path.encode(code().commitment(), out));
    aggregated_share: AggregatedShare, refuses: true,
        vec![written(|out| LANE_SUMS[2].opening().encode(code().commitment().summed_layout(2), out))],
        |bytes| AggregatedShare::from_bytes_with(&code().commitment().summed_layout(2), bytes),
        |opening| written(|out| opening.encode(code().commitment().summed_layout(2), out));
    lane_bulletin_entry: LaneBulletinEntry, refuses: true,
        [0, 5].map(|at: usize| LANE_SUMS[at].to_bytes(code())).into(),
        |bytes| LaneBulletinEntry::from_bytes_with(lane_params(), bytes), |sum| sum.to_bytes(code());
    signed_group_claim: SignedGroupClaim, refuses: true,
        GROUPS.iter().map(|sum| sum.signed().to_bytes()).collect(),
        SignedGroupClaim::from_bytes, SignedGroupClaim::to_bytes;
    signed_sum_claim: SignedSumClaim, refuses: true,
        [0, 2].map(|at: usize| SUMS[at].signed().to_bytes()).into(),
        SignedSumClaim::from_bytes, SignedSumClaim::to_bytes;
    signed_lane_claim: SignedLaneClaim, refuses: true,
        [0, 5].map(|at: usize| LANE_SUMS[at].signed().to_bytes()).into(),
        SignedLaneClaim::from_bytes, SignedLaneClaim::to_bytes;
    // One of every kind; none of them convicts, which is no matter of its bytes.
    evidence: Evidence, refuses: true, charges().iter().map(Encode::to_bytes).collect(),
        Evidence::from_bytes, Evidence::to_bytes;
    post_head: PostHead, refuses: true, vec![SENT.post.head.to_bytes(params())],
        |bytes| PostHead::from_bytes_with(params(), bytes), |head| head.to_bytes(params());
    client_bulletin_entry: ClientBulletinEntry, refuses: true, vec![SENT.post.to_bytes(params())],
        |bytes| ClientBulletinEntry::from_bytes_with(params(), bytes), |post| post.to_bytes(params());
    // Server 0 has two hashes in its path, server 2 has one.
    envelope: Envelope, refuses: true, vec![SENT.envelopes[0].to_bytes(), SENT.envelopes[2].to_bytes()],
        |bytes| Envelope::from_bytes_with(params(), bytes), Envelope::to_bytes;
    // Secret, so it does not compare: its value here is what it encodes to.
    fresh_opening: FreshOpening, refuses: true, vec![an_opening()],
        |bytes| FreshOpening::from_bytes_with(params().cs(), bytes)
            .map(|opening| opening.to_bytes(params().cs()).to_vec()),
        Vec::clone;
    aggregated_opening: AggregatedOpening, refuses: true, vec![an_aggregated_opening()],
        |bytes| AggregatedOpening::from_bytes_with(&layout(), bytes),
        |opening| written(|out| opening.encode(layout(), out));
    reservation: Reservation, refuses: false,
        [(0, 0), (1, 77), (u64::MAX, u32::MAX)].map(|(ticket, bytes)| Reservation { ticket, bytes }.to_bytes()).into(),
        Reservation::from_bytes, Reservation::to_bytes;
    server_bulletin_entry: ServerBulletinEntry, refuses: true,
        vec![SUMS[0].to_bytes(params()), SUMS[2].to_bytes(params())],
        |bytes| ServerBulletinEntry::from_bytes_with(params(), bytes), |sum| sum.to_bytes(params());
}

fn charges() -> Vec<Evidence> {
    let (key, coded_key) = (
        NET.party(ClientId(0)).signing_key.verifying_key(),
        LANES.party(ClientId(0)).signing_key.verifying_key(),
    );
    let (epoch, coded_epoch) = (&NET.epoch, &LANES.epoch);
    let (post, coded) = (&SENT.post.head.signed, &CODED.post.signed);
    let other = NET.open(0).client(ClientId(1));
    let roots = [&SENT.post.head.commitment, &other.post.head.commitment];
    let one = CanonicalSet::new([ClientId(0)]).unwrap();
    let round = AGGREGATED.posted(0);
    let group = |part| {
        let (params, epoch) = (&AGGREGATED.params, &AGGREGATED.epoch);
        Evidence::bad_group(params, epoch, &GROUPS[0], part, &mut round.posts()).unwrap()
    };
    vec![
        Evidence::bad_opening(params(), epoch, &SUMS[1], &NET.all(), roots),
        Evidence::bad_lane(lane_params(), coded_epoch, &LANE_SUMS[2], &one, [&CODED.post.share_commitment]),
        Evidence::double_server_sum(params(), epoch, [&SUMS[0], &SUMS[1]]),
        group(SumPart::Root),
        group(SumPart::Ciphertext),
        Evidence::double_group_sum(&AGGREGATED.params, &AGGREGATED.epoch, [&GROUPS[0], &GROUPS[1]]),
        Evidence::double_lane_sum(lane_params(), coded_epoch, [&LANE_SUMS[0], &LANE_SUMS[1]]),
        Evidence::double_post(params(), epoch, &key, [post, coded]),
        Evidence::bad_share(lane_params(), coded_epoch, &coded_key, coded, &CODED.items[2]),
        Evidence::not_a_codeword(lane_params(), coded_epoch, &coded_key, coded, &CODED.items),
        Evidence::bad_ciphertext(params(), epoch, &key, post, &SENT.post.ciphertext),
        Evidence::bad_ciphertext(params(), epoch, &key, post, &[]),
    ]
}

fn some_terms() -> Vec<Vec<u8>> {
    let sketch = ChannelParams::for_messages(Encoding::Sketch, 2, 20).unwrap();
    let slots = ChannelParams::for_messages(Encoding::Slots, 4, 4000).unwrap();
    let large = deployment(300).servers(3).threshold(2).clients(2).channel(&slots).build();
    let slots = Terms::of(&large.params, &slots).unwrap();
    vec![
        Terms::of(params(), &sketch).unwrap().to_bytes(),
        Terms::of(lane_params(), &sketch).unwrap().to_bytes(),
        slots.to_bytes(),
        slots.of_tickets().unwrap().to_bytes(),
    ]
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn an_aggregated_opening() -> Vec<u8> {
    written(|out| SUMS[1].opening().encode(layout(), out))
}

fn an_opening() -> Vec<u8> {
    let round = NET.posted(0);
    let (post, envelope) = &round.inboxes[1][0];
    let (opening, _) =
        panetiere::protocol::unseal_opening(NET.server(ServerId(1)), params(), post, envelope).unwrap();
    opening.to_bytes(params().cs()).to_vec()
}

/// Types that are written but never parsed by themselves, and where they are tested.
const ONLY_WITHIN: &[(&str, &str)] = &[
    ("GroupClaim", "GroupSum"),
    ("LaneClaim", "LaneBulletinEntry"),
    ("RoundShape", "Terms"),
    ("SumClaim", "ServerBulletinEntry"),
];

/// Names that follow `impl .. for` of a wire trait, inherent `to_bytes`/`from_bytes`, and the ids' macro calls.
fn wire_types_in(source: &str, found: &mut BTreeSet<String>) {
    let ident = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let (mut within, mut in_ids) = (String::new(), false);
    for line in source.lines() {
        let text = line.trim();
        if text == "integer_id! {" || text == "digest_id! {" {
            in_ids = true;
        } else if in_ids {
            in_ids = text != "}";
            if in_ids && !text.starts_with("///") {
                found.insert(ident(text));
            }
        } else if let Some(rest) = line.strip_prefix("impl") {
            within.clear();
            if let Some((traits, name)) = rest.split_once(" for ") {
                if ["Encode", "Decode", "DecodeWith"].contains(&ident(traits).as_str()) {
                    found.insert(ident(name));
                }
            } else {
                within = ident(rest);
            }
        } else if text.starts_with("pub fn to_bytes(") || text.starts_with("pub fn from_bytes(") {
            found.insert(within.clone());
        }
    }
}

fn sources(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            wire_types_in(&std::fs::read_to_string(&path).unwrap(), found);
        }
    }
}

#[test]
fn every_wire_type_has_the_laws() {
    let mut found = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let listed = TESTED.iter().chain(ONLY_WITHIN.iter().map(|(part, _)| part));
    let listed: BTreeSet<String> = listed.map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "left: types in the source; right: types tested here");
    assert!(ONLY_WITHIN.iter().all(|(_, whole)| TESTED.contains(whole)));
}

#[test]
fn the_scan_sees_every_form_of_a_wire_type() {
    let source = "impl Encode for A {\n    x\n}\nimpl DecodeWith<P> for B {}\nimpl Decode for C {\n\
        impl D {\n    pub fn to_bytes(&self) {}\n}\nimpl fmt::Debug for E {}\nimpl F {\n}\n\
        integer_id! {\n    /// Doc.\n    G(u32)\n}\ndigest_id! {\n    H\n}\n";
    let mut found = BTreeSet::new();
    wire_types_in(source, &mut found);
    assert_eq!(found.into_iter().collect::<String>(), "ABCDGH");
}

#[test]
fn a_declared_count_beyond_the_input_is_refused_before_anything_is_allocated() {
    let set = |count: u32| [&[2, 3, 1, 0][..], &count.to_le_bytes(), &[9, 0, 0, 0]].concat();
    let epoch = |count: u16| [&NET.epoch.to_bytes()[..40], &count.to_le_bytes(), &[2; 100]].concat();
    let sum = |clients: u32| {
        let bytes = SUMS[0].to_bytes(params());
        [&bytes[..198], &clients.to_le_bytes(), &bytes[202..400]].concat()
    };
    let group = |members: u32| {
        let bytes = GROUPS[0].to_bytes(&AGGREGATED.params);
        [&bytes[..134], &members.to_le_bytes(), &bytes[138..200]].concat()
    };
    let checked = |complaints: u32| {
        let bytes = a_checked(0, 0);
        [&bytes[..134], &complaints.to_le_bytes(), &bytes[138..]].concat()
    };
    type Parse = fn(&[u8]) -> Option<DecodeError>;
    let parse_evidence: Parse = |bytes| Evidence::from_bytes(bytes).err();
    let evidence = |len: u32| {
        let bytes = charges()[0].to_bytes();
        let at = 4 + 1 + 13 + NET.epoch.to_bytes().len();
        [&bytes[..at], &len.to_le_bytes(), &bytes[at + 4..at + 300]].concat()
    };
    let parse_set: Parse = |bytes| CanonicalSet::from_bytes(bytes).err();
    let parse_group: Parse = |bytes| GroupSum::from_bytes_with(&*AGGREGATED.params, bytes).err();
    let parse_checked: Parse = |bytes| Checked::from_bytes_with(params(), bytes).err();
    let parse_epoch: Parse = |bytes| Epoch::from_bytes(bytes).err();
    let parse_sum: Parse = |bytes| ServerBulletinEntry::from_bytes_with(params(), bytes).err();
    let rows = [
        (parse_set, set(2), "client ids"),
        (parse_set, set(1 << 30), "client ids"),
        (parse_set, set(u32::MAX), "client ids"),
        (parse_group, group(0), "number of members"),
        (parse_group, group(3), "members"),
        (parse_group, group(301), "number of members"),
        (parse_checked, checked(2), "complaints"),
        (parse_checked, checked(300), "complaints"),
        (parse_checked, checked(u32::MAX), "number of complaints"),
        (parse_epoch, epoch(3), "servers of the epoch"),
        (parse_epoch, epoch(u16::MAX), "servers of the epoch"),
        (parse_sum, sum(1), "randomness sum"),
        (parse_sum, sum(300), "randomness sum"),
        (parse_sum, sum(301), "number of clients"),
        (parse_sum, sum(u32::MAX), "number of clients"),
        (parse_evidence, evidence(297), "signed sum"),
        (parse_evidence, evidence(u32::MAX), "signed sum"),
    ];
    for (parse, bytes, what) in rows {
        let mut refused = None;
        let used = measure(|| refused = parse(&bytes));
        let refused = refused.unwrap();
        assert_eq!(refused.what, what);
        let truncated = matches!(refused.kind, DecodeErrorKind::Truncated { .. });
        assert!(truncated || refused.kind == DecodeErrorKind::OutOfRange, "{refused}");
        // Evidence begins with an epoch's document, which is kept.
        let before = if what == "signed sum" { 32 * NET.epoch.to_bytes().len() } else { 0 };
        let used = used.bytes_total;
        assert!(used <= u64::try_from(before).unwrap(), "{refused}: {used} bytes allocated");
    }
}
