//! What an aggregator can do, and what others can do with its bytes.

use super::wire::{high_s, lengths};
use super::{
    ANYBODYS, Cell, Ends, Lie, NO_BYTES, NO_OBJECT, OTHER_LOG, Seen, TRUE_ELSEWHERE, WHO_DROPPED_IT, cell, no,
};
use crate::aggregated::{HONEST, NET, SCENE, forged, residues, run, shifts, truth};
use panetiere::bulletin::GroupSum;
use panetiere::protocol::Audit;
use panetiere::wire::DecodeWith;

const FALSE: &[&str] = &["group_wrong_sum"];

pub static CELLS: &[Cell] = &[
    cell(Lie::WrongSum, FALSE, &[], Ends::Same, || run(Lie::WrongSum)),
    no(Lie::WrongShare, "an aggregator has no shares; a false sum of roots is a wrong sum"),
    cell(
        Lie::OtherSet,
        &[],
        &[
            ("group_not_in_set", OTHER_LOG),
            ("group_posts", "it was sent the second of two posts that the client signed"),
            ("group_gap", "whom it was not sent, it cannot sum"),
        ],
        Ends::Stops("until a group with the client in it comes: anybody with the posts can sum one"),
        || run(Lie::OtherSet),
    ),
    cell(Lie::StaleSession, FALSE, &[("group_session", TRUE_ELSEWHERE)], Ends::Same, || {
        run(Lie::StaleSession).and(|| {
            let earlier = SCENE.earlier.group(crate::aggregated::LIAR, [1, 3, 4]);
            published(forged(|_| {}, &earlier, earlier.ciphertext().to_vec()), Audit::OnFailure)
        })
    }),
    cell(Lie::Replay, &[], &[("group_session", TRUE_ELSEWHERE)], Ends::Same, || run(Lie::Replay)),
    cell(
        Lie::OtherContext,
        &["group_crs", "group_epoch"],
        &[("group_deployment", TRUE_ELSEWHERE)],
        Ends::Same,
        || run(Lie::OtherContext),
    ),
    cell(Lie::Swapped, FALSE, &[], Ends::Same, || run(Lie::Swapped)),
    no(Lie::BadPath, "an aggregator sends no paths"),
    cell(Lie::OutOfRangeDigit, &["group_malformed"], &[], Ends::Same, || run(Lie::OutOfRangeDigit)),
    no(Lie::KernelVector, "a group's sum is added again, not hashed"),
    no(Lie::NonCodeword, "a group's sum is not coded"),
    no(Lie::InconsistentShares, "an aggregator deals no shares"),
    cell(Lie::OversizedNoise, FALSE, &[], Ends::Same, || {
        // Half a message step, 64 of 128, on every coefficient.
        let noisy = residues(truth().ciphertext(), |word, q| (word + 64) % q);
        published(forged(|_| {}, truth(), noisy), Audit::OnFailure)
    }),
    // Seen when the posts are added again, and that the channel does not deliver says when to.
    cell(Lie::BadPayload, FALSE, &[], Ends::Same, || run(Lie::BadPayload).and(shifts)),
    cell(Lie::CopiedCiphertext, FALSE, &[], Ends::Same, || {
        run(Lie::CopiedCiphertext).and(|| {
            let negated = residues(SCENE.groups[0].ciphertext(), |word, q| (q - word) % q);
            published(forged(|_| {}, truth(), negated), Audit::OnFailure)
        })
    }),
    cell(Lie::CopiedRoot, FALSE, &[], Ends::Same, || run(Lie::CopiedRoot)),
    cell(
        Lie::ForgedSignature,
        &[],
        &[("group_signature", ANYBODYS), ("group_gap", WHO_DROPPED_IT)],
        Ends::Stops("if nothing but the forgery is there, until the true sum comes; else as without the lie"),
        || run(Lie::ForgedSignature).and(|| published(truth().clone(), Audit::OnFailure)),
    ),
    cell(Lie::HighS, &[], &[(NO_OBJECT, "anybody can flip s")], Ends::Same, || {
        let mut seen = published(truth().clone(), Audit::OnFailure);
        let bytes = truth().to_bytes(&NET.params);
        seen.no_object(GroupSum::from_bytes_with(&NET.params, &high_s(&bytes, bytes.len() - 64)));
        seen
    }),
    cell(Lie::DuplicateId, &[], &[("group_unknown_aggregator", ANYBODYS)], Ends::Same, || {
        run(Lie::DuplicateId)
    }),
    cell(Lie::TwoAnswers, &["group_double"], &[], Ends::Same, || run(Lie::TwoAnswers)),
    cell(
        Lie::OverlappingGroups,
        &[],
        &[(
            "group_overlap",
            "each group may be right by itself; who was to serve the client nobody has signed",
        )],
        Ends::Stops("until the groups given partition the set; anybody can sum one that does"),
        || run(Lie::OverlappingGroups).and(|| published(truth().clone(), Audit::OnFailure)),
    ),
    cell(Lie::ShortOrLongBody, &[], &[(NO_OBJECT, NO_BYTES)], Ends::Same, || {
        let mut seen = published(truth().clone(), Audit::OnFailure);
        let bytes = truth().to_bytes(&NET.params);
        lengths(&mut seen, &bytes, |bytes| GroupSum::from_bytes_with(&NET.params, bytes));
        seen
    }),
    cell(
        Lie::Undelivered,
        &[],
        &[("group_gap", WHO_DROPPED_IT)],
        Ends::Stops("until it comes: anybody with the posts can sum the group"),
        || {
            // The honest aggregator sums the group in its stead.
            let mut seen = run(Lie::Undelivered);
            let groups = [SCENE.groups[0].clone(), SCENE.round.group(HONEST, [1, 3, 4])];
            let out = SCENE.round.recover_groups(&SCENE.set, &groups, &SCENE.sums, Audit::OnFailure).unwrap();
            seen.recovers(&out.recovered.plaintext, &NET.expected(&SCENE.set));
            seen
        },
    ),
    no(Lie::FalseComplaint, "aggregators do not complain: they open nothing"),
    no(Lie::ComplaintFlood, "aggregators do not complain: they open nothing"),
];

/// The lying aggregator publishes this in place of its sum, read back from its bytes.
fn published(sum: GroupSum, audit: Audit<'_>) -> Seen {
    let mut seen = Seen::default();
    let sum = GroupSum::from_bytes_with(&NET.params, &sum.to_bytes(&NET.params)).unwrap();
    let out =
        SCENE.round.recover_groups(&SCENE.set, &[SCENE.groups[0].clone(), sum], &SCENE.sums, audit).unwrap();
    out.aggregators.iter().for_each(|culprit| seen.fault(&culprit.fault));
    out.discarded.iter().for_each(|fault| seen.fault(fault));
    assert!(out.recovered.culprits.is_empty() && out.unjudged.is_empty());
    seen.recovers(&out.recovered.plaintext, &NET.expected(&SCENE.set));
    seen
}
