//! What an aggregator can publish, and what is found.

use super::super::matrix::{Lie, Seen};
use super::HONEST;
use super::{
    CHEAT, LIAR, NET, SCENE, Scene, claiming, discarded, first_residues, forged, found, key, servers,
    shifted, truth,
};
use panetiere::bulletin::{GroupSum, ServerBulletinEntry};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{AggregatorId, ClientId, CrsDigest, DeploymentId, EpochDigest};
use panetiere::protocol::{Audit, GroupFault, NotRecovered, RecoveredAggregated};
use panetiere::wire::{Decode, Encode};

/// A lie of an aggregator.
pub struct Row {
    /// The cell of the matrix that this is a case of.
    cell: Lie,
    pub lie: &'static str,
    /// What is published in place of, or beside, the lying aggregator's honest sum.
    publishes: fn(&Scene) -> Vec<GroupSum>,
    audit: Audit<'static>,
    /// What convicts the aggregator, if anything does.
    pub convicts: Option<&'static str>,
    /// What proves nothing.
    void: &'static [&'static str],
    /// Why there is no recovery.
    pub refused: Option<&'static str>,
}

pub static ROWS: &[Row] = &[
    Row {
        cell: Lie::CopiedCiphertext,
        lie: "the ciphertext of another group",
        publishes: |scene| vec![forged(|_| {}, truth(), scene.groups[0].ciphertext().to_vec())],
        audit: Audit::OnFailure,
        convicts: Some("group_wrong_sum"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::WrongSum,
        lie: "the sum without one member",
        publishes: |scene| {
            let part = scene.round.group(LIAR, [3, 4]);
            vec![forged(|_| {}, &part, part.ciphertext().to_vec())]
        },
        audit: Audit::OnFailure,
        convicts: Some("group_wrong_sum"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::CopiedRoot,
        lie: "the root of another group",
        publishes: |scene| vec![forged(|_| {}, &scene.groups[0], truth().ciphertext().to_vec())],
        audit: Audit::OnFailure,
        convicts: Some("group_wrong_sum"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::Swapped,
        lie: "root and ciphertext of another group",
        publishes: |scene| vec![forged(|_| {}, &scene.groups[0], scene.groups[0].ciphertext().to_vec())],
        audit: Audit::OnFailure,
        convicts: Some("group_wrong_sum"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::BadPayload,
        lie: "a ciphertext shifted by one message step",
        publishes: |_| vec![shifted()],
        audit: Audit::Always,
        convicts: Some("group_wrong_sum"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::OutOfRangeDigit,
        lie: "a residue at its prime",
        publishes: |_| vec![forged(|_| {}, truth(), first_residues(truth().ciphertext(), |_, q| q))],
        audit: Audit::OnFailure,
        convicts: Some("group_malformed"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::TwoAnswers,
        lie: "two sums of the same posts, the honest one first",
        publishes: |_| vec![truth().clone(), shifted()],
        audit: Audit::OnFailure,
        convicts: Some("group_double"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::TwoAnswers,
        lie: "two sums of the same posts, the false one first",
        publishes: |_| vec![shifted(), truth().clone()],
        audit: Audit::OnFailure,
        convicts: Some("group_double"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::DuplicateId,
        lie: "the same sum twice",
        publishes: |_| vec![truth().clone(), truth().clone()],
        audit: Audit::OnFailure,
        convicts: None,
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::OverlappingGroups,
        lie: "a group that overlaps the other",
        publishes: |scene| vec![scene.round.group(LIAR, [1, 2, 3, 4])],
        audit: Audit::OnFailure,
        convicts: None,
        void: &[],
        refused: Some("group_overlap"),
    },
    Row {
        cell: Lie::OverlappingGroups,
        lie: "two groups of its own that overlap",
        publishes: |scene| vec![truth().clone(), scene.round.group(LIAR, [3, 4])],
        audit: Audit::OnFailure,
        convicts: None,
        void: &[],
        refused: Some("group_overlap"),
    },
    Row {
        cell: Lie::OtherSet,
        lie: "a group with a gap",
        publishes: |scene| vec![scene.round.group(LIAR, [1, 4])],
        audit: Audit::OnFailure,
        convicts: None,
        void: &[],
        refused: Some("group_gap"),
    },
    Row {
        cell: Lie::Undelivered,
        lie: "no group at all",
        publishes: |_| vec![],
        audit: Audit::Always,
        convicts: None,
        void: &[],
        refused: Some("group_gap"),
    },
    // What anybody can do with an aggregator's name or bytes: it is not named for it.
    Row {
        cell: Lie::ForgedSignature,
        lie: "a false sum in its name under another key",
        publishes: |scene| {
            let (claim, other) = (truth().claim().clone(), &scene.groups[0]);
            let body = (other.root().clone(), other.ciphertext().to_vec());
            vec![GroupSum::sign(claim, body.0, body.1, &NET.params, key(HONEST)), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_signature"],
        refused: None,
    },
    Row {
        cell: Lie::ForgedSignature,
        lie: "only a sum that it did not sign",
        publishes: |_| {
            let body = (truth().root().clone(), truth().ciphertext().to_vec());
            vec![GroupSum::sign(truth().claim().clone(), body.0, body.1, &NET.params, key(HONEST))]
        },
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_signature"],
        refused: Some("group_gap"),
    },
    Row {
        cell: Lie::Replay,
        lie: "its sum of an earlier session is replayed",
        publishes: |scene| vec![scene.earlier.group(LIAR, [1, 3, 4]), truth().clone()],
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_session"],
        refused: None,
    },
    Row {
        cell: Lie::StaleSession,
        lie: "its sum for a later session shows up early",
        publishes: |_| vec![truth().clone(), claiming(|claim| claim.session = NET.session(9))],
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_session"],
        refused: None,
    },
    Row {
        cell: Lie::OtherContext,
        lie: "a sum for another deployment",
        publishes: |_| {
            let other = DeploymentId::from_name("another");
            vec![claiming(|claim| claim.deployment = other), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_deployment"],
        refused: None,
    },
    Row {
        cell: Lie::OtherContext,
        lie: "a sum under another epoch",
        publishes: |_| {
            let other = EpochDigest::from_bytes(&[7; 32]).unwrap();
            vec![claiming(|claim| claim.epoch = other), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: Some("group_epoch"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::OtherContext,
        lie: "a sum under other public parameters",
        publishes: |_| {
            let other = CrsDigest::from_bytes(&[7; 32]).unwrap();
            vec![claiming(|claim| claim.crs = other), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: Some("group_crs"),
        void: &[],
        refused: None,
    },
    Row {
        cell: Lie::DuplicateId,
        lie: "a sum of an aggregator that does not exist",
        publishes: |_| vec![claiming(|claim| claim.aggregator = AggregatorId(2)), truth().clone()],
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_unknown_aggregator"],
        refused: None,
    },
    Row {
        cell: Lie::OtherSet,
        lie: "a member that is not in the set",
        publishes: |_| {
            let statement = truth().claim().members[&CHEAT];
            vec![claiming(|claim| _ = claim.members.insert(ClientId(77), statement)), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_not_in_set"],
        refused: None,
    },
    Row {
        cell: Lie::OtherSet,
        lie: "a sum of another post of one member",
        publishes: |scene| {
            let other = scene.groups[0].claim().members[&ClientId(0)];
            vec![claiming(|claim| _ = claim.members.insert(CHEAT, other)), truth().clone()]
        },
        audit: Audit::OnFailure,
        convicts: None,
        void: &["group_posts"],
        refused: None,
    },
];

/// What the recipient makes of it, with these sums of the servers.
pub fn recover(row: &Row, sums: &[ServerBulletinEntry]) -> Result<RecoveredAggregated, NotRecovered> {
    let scene = &*SCENE;
    let groups = [&(row.publishes)(scene)[..], &scene.groups[..1]].concat();
    scene.round.recover_groups(&scene.set, &groups, sums, row.audit)
}

/// Runs every case of a cell: the aggregator is named or nobody is, and if the groups partition the set it recovers.
pub fn run(cell: Lie) -> Seen {
    let (scene, mut seen) = (&*SCENE, Seen::default());
    for row in ROWS.iter().filter(|row| row.cell == cell) {
        let lie = row.lie;
        row.void.iter().for_each(|code| seen.note(code, Attribution::Nobody));
        match (recover(row, &scene.sums), row.refused) {
            (Ok(out), None) => {
                let named: Vec<_> = row.convicts.iter().map(|code| (LIAR, *code)).collect();
                assert_eq!(found(&out), named, "{lie}");
                for culprit in &out.aggregators {
                    seen.fault(&culprit.fault);
                    // Which epoch and parameters the session has only the log tells.
                    if matches!(culprit.fault, GroupFault::WrongCrs { .. } | GroupFault::WrongEpoch { .. }) {
                        assert!(culprit.evidence.is_none(), "{lie}");
                        continue;
                    }
                    let evidence = culprit.evidence.as_ref().expect(lie).to_bytes();
                    let verdict =
                        Evidence::from_bytes(&evidence).unwrap().verify(NET.params.lattice().kernels());
                    assert_eq!(verdict.unwrap().convicted(), Attribution::Aggregator(LIAR), "{lie}");
                }
                assert_eq!(discarded(&out), row.void, "{lie}");
                assert!(out.discarded.iter().all(|f| f.attribution() == Attribution::Nobody), "{lie}");
                assert!(servers(&out).is_empty() && out.unjudged.is_empty(), "{lie}: {:?}", servers(&out));
                seen.recovers(&out.recovered.plaintext, &NET.expected(&scene.set));
            }
            (Err(refused), Some(code)) => {
                seen.fault(&refused);
                seen.stops();
                assert_eq!((refused.code(), refused.attribution()), (code, Attribution::Nobody), "{lie}");
                assert!(refused.aggregators.is_empty(), "{lie}");
                assert_eq!(refused.discarded.iter().map(Fault::code).collect::<Vec<_>>(), row.void, "{lie}");
                let again = if code == "group_gap" { Retry::SameRequest } else { Retry::Never };
                assert_eq!(refused.retry(), again, "{lie}");
            }
            (out, refused) => panic!("{lie}: {refused:?}, got {:?}", out.map(|out| found(&out))),
        }
    }
    seen
}
