//! What a lane can publish that is false, and whom the recipient names for it.

use crate::net::*;
use panetiere::bulletin::{LaneBulletinEntry, LaneClaim, LanePurpose};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::*;
use panetiere::protocol::*;
use panetiere::share_commitment::AggregatedShare;
use panetiere::sig::SigningKey;
use panetiere::wire::DecodeWith;

/// What a lane does wrong. Whatever it publishes carries its own valid signature, unless the lie is the signature.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    /// One coefficient of a share digit is off by one.
    Digit,
    /// One coefficient of a path digit is off by one.
    Path,
    /// The sum of another lane as its own.
    OtherLane,
    /// Somebody else's signature.
    Forged,
    /// Everything signed by the lane, the claim naming other public parameters.
    WrongEpoch,
}

impl Lie {
    /// What the lane whose honest answer this is publishes instead.
    pub fn tell(self, net: &Net, honest: &LaneBulletinEntry) -> LaneBulletinEntry {
        let code = net.params.lane_code().unwrap();
        let mut claim = *honest.claim();
        let lane = claim.lane;
        let key = net.lanes[usize::from(lane.0)].signing_key();
        let opening = match self {
            Self::Digit => altered(net, honest, 0),
            Self::Path => altered(net, honest, 1),
            Self::OtherLane | Self::Forged => honest.opening().clone(),
            Self::WrongEpoch => {
                // The digest of some other document.
                claim.epoch = net.epoch.clone().with_lanes(Vec::new()).unwrap().digest();
                honest.opening().clone()
            }
        };
        match self {
            Self::OtherLane => {
                let next = (usize::from(lane.0) + 1) % net.lanes.len();
                claim.lane = net.lanes[next].id();
                LaneBulletinEntry::sign(claim, opening, code, net.lanes[next].signing_key())
            }
            Self::Forged => {
                let stranger = SigningKey::generate(&mut stream("stranger", 0));
                LaneBulletinEntry::sign(claim, opening, code, &stranger)
            }
            _ => LaneBulletinEntry::sign(claim, opening, code, key),
        }
    }
}

/// The packed opening with the lowest bit of its first share digit or of its last path byte flipped.
fn altered(net: &Net, honest: &LaneBulletinEntry, part: usize) -> AggregatedShare {
    let layout = net.params.lane_code().unwrap().commitment().summed_layout(honest.claim().clients);
    let mut bytes = Vec::new();
    honest.opening().encode(layout, &mut bytes);
    let last = bytes.len() - 1;
    // The last byte ends with the high bits of a field; bit 0 of it moves the digit and keeps it in its field.
    let at = if part == 0 { 0 } else { last };
    bytes[at] ^= 1;
    AggregatedShare::from_bytes_with(&layout, &bytes).expect("a field moved within its bound")
}

#[test]
fn every_lie_names_its_lane_and_no_other() {
    let net = net(2, 4, 3, 3);
    let mut round = Round::posted(&net, 0, 0..3);
    let canonical = set(0..3);
    let expected = net.expected(&canonical);
    let sums = round.server_sums(&canonical);
    let honest = round.lane_sums(&canonical);
    let rows: [(Lie, Attribution, &str); 5] = [
        (Lie::Digit, Attribution::Lane(NodeId(1)), "lane_sum_opening"),
        (Lie::Path, Attribution::Lane(NodeId(1)), "lane_sum_opening"),
        // Lane 1 publishes what lane 0 has: under its own name, so it is its own lie.
        (Lie::OtherLane, Attribution::Lane(NodeId(1)), "lane_sum_opening"),
        (Lie::Forged, Attribution::Nobody, "lane_sum_signature"),
        (Lie::WrongEpoch, Attribution::Lane(NodeId(1)), "lane_sum_epoch"),
    ];
    for (lie, named, code) in rows {
        let mut lanes = honest.clone();
        let from = usize::from(!matches!(lie, Lie::OtherLane));
        lanes[1] = lie.tell(&net, &honest[from]);
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.recovered.plaintext, expected, "{lie:?}");
        let culprits = recovered.lane_culprits.iter().map(|c| (c.fault.attribution(), c.fault.code()));
        let discarded = recovered.lanes_discarded.iter().map(|fault| (fault.attribution(), fault.code()));
        let verdicts: Vec<_> = culprits.chain(discarded).collect();
        assert_eq!(verdicts, [(named, code)], "{lie:?}");
        // Which epoch the session has only the log tells.
        let proven = recovered.lane_culprits.iter().all(convicts);
        assert_eq!(proven, code != "lane_sum_epoch", "{lie:?}");
        // The honest answer, delivered besides, is used unless the lane itself signed the lie.
        lanes.push(honest[1].clone());
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.recovered.plaintext, expected, "{lie:?}");
        let named_lanes: Vec<_> = recovered.lane_culprits.iter().map(|c| c.lane).collect();
        assert_eq!(named_lanes.is_empty(), named == Attribution::Nobody, "{lie:?}");
    }
}

#[test]
fn claims_about_another_place() {
    let net = net(2, 4, 4, 2);
    let mut round = Round::posted(&net, 0, 0..4);
    let canonical = set(0..3);
    let sums = round.server_sums(&canonical);
    let check = round.lanes[1].check_sum(&canonical).unwrap();
    let forgetful = crate::net::net(2, 4, 4, 2);
    let split = Round::posted(&forgetful, 0, 0..4).lanes[2].close(&set(0..4)).unwrap();
    let honest = round.lane_sums(&canonical);
    let expected = net.expected(&canonical);

    // A sum that a lane made for a check, passed off as its answer: somebody else's doing.
    let mut lanes = honest.clone();
    lanes[1] = check;
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, expected);
    assert!(recovered.lane_culprits.is_empty());
    let (expected_purpose, found) = (LanePurpose::Close, LanePurpose::Check);
    let misused = LaneVerifyError::WrongPurpose { lane: NodeId(1), expected: expected_purpose, found };
    assert_eq!(recovered.lanes_discarded, [misused]);
    assert_eq!(recovered.lanes_missing, [NodeId(1)]);

    // An answer over another set: its lane may have been shown another log.
    let mut lanes = honest.clone();
    lanes[2] = split.clone();
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, expected);
    assert!(recovered.lane_culprits.is_empty());
    let wrong =
        LaneVerifyError::WrongSet { lane: NodeId(2), purpose: LanePurpose::Close, expected: 3, found: 4 };
    assert_eq!(wrong.attribution(), Attribution::Nobody);
    assert_eq!(recovered.lanes_discarded, [wrong]);
    assert_eq!(recovered.lanes_missing, [NodeId(2)]);
    // Both answers of one lane: in whatever order, it is a liar, and neither is used.
    for (first, second) in [(&honest[2], &split), (&split, &honest[2])] {
        let mut lanes = honest.clone();
        lanes[2] = first.clone();
        lanes.push(second.clone());
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.recovered.plaintext, expected);
        let double = LaneVerifyError::DoubleSum { lane: NodeId(2) };
        let [culprit] = &recovered.lane_culprits[..] else { panic!("{recovered:?}") };
        assert_eq!((culprit.lane, &culprit.fault), (NodeId(2), &double));
        assert!(convicts(culprit));
        assert!(recovered.lanes_discarded.is_empty() && recovered.lanes_missing.is_empty());
    }

    // Another deployment: nobody's, since it is a true statement elsewhere.
    let code = net.params.lane_code().unwrap();
    let claim = LaneClaim { deployment: DeploymentId::from_name("elsewhere"), ..*honest[3].claim() };
    let mut lanes = honest.clone();
    lanes[3] = LaneBulletinEntry::sign(claim, honest[3].opening().clone(), code, net.lanes[3].signing_key());
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.lanes_discarded, [LaneVerifyError::WrongDeployment]);

    // The same answer twice is one answer.
    let twice: Vec<_> = honest.iter().chain(&honest).cloned().collect();
    let recovered = round.recover(&canonical, &sums, &twice).unwrap();
    assert_eq!(recovered.recovered.plaintext, expected);
    assert!(recovered.lane_culprits.is_empty() && recovered.lanes_discarded.is_empty());
}

#[test]
fn a_digit_beyond_the_roster_is_refused_although_the_hash_agrees() {
    // A shift by the modulus keeps every equation. It fits its field only if it is claimed for more clients, and then
    // the claim is not the roster's, and no honest lane's: the set's digest fixes the number.
    let net = net(2, 3, 2, 2);
    let mut round = Round::posted(&net, 0, 0..2);
    let canonical = set(0..2);
    let sums = round.server_sums(&canonical);
    let honest = round.lane_sums(&canonical);
    let code = net.params.lane_code().unwrap();
    let claim = LaneClaim { clients: 300, ..*honest[0].claim() };
    let mut lanes = honest.clone();
    lanes[0] = LaneBulletinEntry::sign(claim, honest[0].opening().clone(), code, net.lanes[0].signing_key());
    lanes[0] = through_bytes(&net.params, &lanes[0]);
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&canonical));
    let wrong = LaneVerifyError::WrongCount { lane: NodeId(0), expected: 2, found: 300 };
    let [culprit] = &recovered.lane_culprits[..] else { panic!("{recovered:?}") };
    assert_eq!((culprit.lane, &culprit.fault), (NodeId(0), &wrong));
    assert!(convicts(culprit) && recovered.lanes_discarded.is_empty());
}

#[test]
fn a_client_that_signs_two_posts_names_no_lane() {
    let net = net(2, 4, 3, 2);
    let mut round = Round::posted(&net, 0, 0..3);
    let canonical = set(0..3);
    // Client 2 signs another statement with other shares, and lane 3 is handed that one.
    let shown = net.client(&round.session, 2);
    let other = net.non_codeword(&round.session, 2, 3);
    let lane = &mut round.lanes[3];
    assert_eq!(lane.withdraw(ClientId(2)), Ok(true));
    assert_eq!((lane.withdraw(ClientId(2)), lane.received(ClientId(2))), (Ok(false), None));
    let check = |sent: &RsClientRound| {
        let key = net.key(ClientId(2)).verifying_key();
        sent.post.signed.check(&net.params, &net.session(0), &key).unwrap()
    };
    lane.receive(&check(&other), &other.items[3]).unwrap();
    assert_eq!(lane.received(ClientId(2)), check(&other).share_root());
    let sums = round.server_sums(&canonical);
    let lanes = round.lane_sums(&canonical);
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&canonical));
    assert!(recovered.lane_culprits.is_empty());
    let elsewhere = LaneVerifyError::WrongPosts { lane: NodeId(3), purpose: LanePurpose::Close };
    assert_eq!(elsewhere.attribution(), Attribution::Nobody);
    assert_eq!(recovered.lanes_discarded, [elsewhere]);
    assert_eq!(recovered.lanes_missing, [NodeId(3)]);
    // It has answered: the log's post comes too late for it, and a second answer would be a lie.
    assert_eq!(round.lanes[3].withdraw(ClientId(2)), Ok(false));
    let mut again = Round::posted(&net, 0, 0..3);
    let refused = again.lanes[3].close(&canonical).unwrap_err();
    assert!(matches!(refused, LaneRoundError::OtherPosts { .. }), "{refused:?}");
    assert_eq!(refused.attribution(), Attribution::Operator);
    // In time, it takes the one for the other and answers as everybody.
    let fresh = crate::net::net(2, 4, 3, 2);
    let mut round = Round::posted(&fresh, 0, 0..2);
    round.lanes[3].receive(&check(&other), &other.items[3]).unwrap();
    assert_eq!(round.lanes[3].withdraw(ClientId(2)), Ok(true));
    assert!(round.submit(&shown).iter().all(Result::is_ok));
    let (sums, lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&canonical));
    assert!(recovered.lanes_missing.is_empty() && recovered.lanes_discarded.is_empty());
}
