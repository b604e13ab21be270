//! Lies of a client: named where its own signature proves it, nobody named where nothing does.

use super::matrix::{Lie, Seen};
use super::{CHEAT, LIAR, NET, NOBODY, SCENE, Scene, findings};
use panetiere::bulletin::Envelope;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, ServerId};
use panetiere::protocol::{ClientRound, ServerRoundError};
use panetiere::testing::{ClientLie, Delivery, OpeningPart, Round, deployment};
use panetiere::wire::{DecodeWith, Encode};

/// Where a client's lie shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// When the statement is checked: the post does not exist for anybody.
    Statement,
    /// When these servers open their envelopes; the others have nothing to object to.
    Envelopes(&'static [u16]),
    /// When the post is added to the sum.
    Post,
    /// When the sum of all is recovered from all four servers.
    Recovery,
}

struct ClientRow {
    /// The cell of the matrix that this is a case of.
    cell: Lie,
    lie: &'static str,
    tells: fn(&Scene) -> ClientLie,
    shows: Shows,
    code: &'static str,
    blamed: Attribution,
}

const CLIENT: Attribution = Attribution::Client(CHEAT);

static CLIENT_ROWS: &[ClientRow] = &[
    ClientRow {
        cell: Lie::WrongShare,
        lie: "the seed in an opening is altered",
        tells: |_| ClientLie::Opening(ServerId(1), OpeningPart::Seed),
        shows: Shows::Envelopes(&[1]),
        code: "envelope_bad_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::WrongShare,
        lie: "the share in an opening is altered",
        tells: |_| ClientLie::Opening(ServerId(3), OpeningPart::Share),
        shows: Shows::Envelopes(&[3]),
        code: "envelope_bad_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::BadPath,
        lie: "the sibling in an opening is altered",
        tells: |_| ClientLie::Opening(ServerId(0), OpeningPart::Sibling),
        shows: Shows::Envelopes(&[0]),
        code: "envelope_bad_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::WrongShare,
        lie: "posts the root of another commitment",
        tells: |_| ClientLie::ForeignRoot,
        shows: Shows::Envelopes(&[0, 1, 2, 3]),
        code: "envelope_bad_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OutOfRangeDigit,
        lie: "seals bytes that are no opening",
        tells: |_| ClientLie::Garbage { server: ServerId(2), fill: 0xFF },
        shows: Shows::Envelopes(&[2]),
        code: "envelope_malformed_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::WrongShare,
        lie: "seals zeros",
        tells: |_| ClientLie::Garbage { server: ServerId(2), fill: 0 },
        shows: Shows::Envelopes(&[2]),
        code: "envelope_bad_opening",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "seals to a stale key and says so",
        tells: |_| stale(true),
        shows: Shows::Envelopes(&[1]),
        code: "envelope_stale_key",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "seals to a stale key and names the current one",
        tells: |_| stale(false),
        shows: Shows::Envelopes(&[1]),
        code: "envelope_unopenable",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::Swapped,
        lie: "swaps what it seals to two servers",
        tells: |_| ClientLie::SwappedEnvelopes(ServerId(0), ServerId(3)),
        shows: Shows::Envelopes(&[0, 3]),
        code: "envelope_unopenable",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::StaleSession,
        lie: "signs its envelopes of an earlier session again",
        tells: |scene| ClientLie::EarlierEnvelopes(Box::new(scene.earlier.client(CHEAT))),
        shows: Shows::Envelopes(&[0, 1, 2, 3]),
        code: "envelope_unopenable",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::Swapped,
        lie: "signs another client's envelopes",
        tells: |scene| ClientLie::EarlierEnvelopes(Box::new(scene.round.client(ClientId(0)))),
        shows: Shows::Envelopes(&[0, 1, 2, 3]),
        code: "envelope_unopenable",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::ForgedSignature,
        lie: "the statement is signed by another key",
        tells: |_| ClientLie::OtherSigner,
        shows: Shows::Statement,
        code: "statement_signature",
        blamed: NOBODY,
    },
    ClientRow {
        cell: Lie::StaleSession,
        lie: "the statement is for another session",
        tells: |_| ClientLie::WrongSession(NET.session(0)),
        shows: Shows::Statement,
        code: "statement_session",
        blamed: NOBODY,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "the statement is for another deployment",
        tells: |_| ClientLie::WrongDeployment,
        shows: Shows::Statement,
        code: "statement_deployment",
        blamed: NOBODY,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "the statement names another epoch",
        tells: |_| ClientLie::WrongEpoch,
        shows: Shows::Statement,
        code: "statement_epoch",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "the statement names other public parameters",
        tells: |_| ClientLie::WrongCrs,
        shows: Shows::Statement,
        code: "statement_crs",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OtherContext,
        lie: "the statement names another mode",
        tells: |_| ClientLie::WrongMode,
        shows: Shows::Statement,
        code: "statement_mode",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::ShortOrLongBody,
        lie: "the statement names another length",
        tells: |_| ClientLie::WrongCiphertextLength,
        shows: Shows::Statement,
        code: "statement_ciphertext_length",
        blamed: CLIENT,
    },
    ClientRow {
        cell: Lie::OutOfRangeDigit,
        lie: "a ciphertext coefficient is out of range, under a valid signature",
        tells: |_| ClientLie::CiphertextOutOfRange,
        shows: Shows::Post,
        code: "post_ciphertext",
        blamed: CLIENT,
    },
    // Three lies that the sum shows and that cannot be traced: nobody is named, least of all a server.
    ClientRow {
        cell: Lie::InconsistentShares,
        lie: "deals one share off the polynomial",
        tells: |_| ClientLie::InconsistentShare(ServerId(3)),
        shows: Shows::Recovery,
        code: "shares_inconsistent",
        blamed: NOBODY,
    },
    ClientRow {
        cell: Lie::OversizedNoise,
        lie: "an error as large as a message step",
        tells: |_| ClientLie::OversizedNoise,
        shows: Shows::Recovery,
        code: "noise_overflow",
        blamed: NOBODY,
    },
    ClientRow {
        cell: Lie::OversizedNoise,
        lie: "a key as large as its ring",
        tells: |_| ClientLie::KeyOutOfBounds,
        shows: Shows::Recovery,
        code: "noise_overflow",
        blamed: NOBODY,
    },
];

fn stale(stated: bool) -> ClientLie {
    let old = deployment(100).servers(4).threshold(3).epoch(1).build();
    let key = Box::new(old.server(ServerId(1)).envelope_key().public_key());
    ClientLie::StaleKey { server: ServerId(1), key, stated }
}

/// A round in which everybody but the cheat has honestly posted, and the cheat as it likes.
pub fn cheated(sent: &ClientRound) -> (Round<'static>, Delivery) {
    let mut round = NET.open(1);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        round.submit(&round.client(client)).accepted();
    }
    let delivery = round.submit(sent);
    (round, delivery)
}

/// Runs every case of a cell: the client is named or nobody is, and without it the round is what it would have been.
pub fn run(cell: Lie) -> Seen {
    let (scene, mut seen) = (&*SCENE, Seen::default());
    let (all, rest) = (NET.all(), NET.all_but(CHEAT));
    for ClientRow { lie, tells, shows, code, blamed, .. } in CLIENT_ROWS.iter().filter(|row| row.cell == cell)
    {
        seen.note(code, *blamed);
        let sent = scene.round.lying_client(CHEAT, &tells(scene));
        let (mut round, delivery) = cheated(&sent);
        let matches = |fault: &dyn Fault| {
            assert_eq!((fault.code(), fault.attribution()), (*code, *blamed), "{lie}: {fault}");
        };

        // The statement, for everyone who reads it.
        match (&delivery.statement, shows) {
            (Err(error), Shows::Statement) => matches(error),
            (Ok(_), Shows::Statement) | (Err(_), _) => panic!("{lie}: {:?}", delivery.statement),
            (Ok(_), _) => {}
        }
        // Each server for itself.
        let objecting = if let Shows::Envelopes(servers) = shows { *servers } else { &[] };
        for (server, taken) in (0u16..).zip(&delivery.envelopes) {
            match taken {
                Ok(()) => assert!(!objecting.contains(&server), "{lie}: server {server} took it"),
                Err(fault) => {
                    assert!(objecting.contains(&server), "{lie}: server {server} refused: {fault:?}");
                    matches(fault);
                }
            }
        }
        // A server that refused cannot be brought to sum the cheat.
        for server in objecting {
            let missing = ServerRoundError::MissingClient { client: CHEAT };
            assert_eq!(round.close(ServerId(*server), &all), Err(missing), "{lie}");
        }

        // Without the cheat the round is what it would have been.
        let sums = round.sums(&rest);
        let recovered = round.recover(&rest, &sums).unwrap();
        seen.recovers(&recovered.plaintext, &NET.expected(&rest));
        assert_eq!(findings(&recovered), (vec![], vec![]), "{lie}");

        // With the cheat in the set, the recipient finds the same fault, whatever the servers did. Honest sums of the
        // same session stand in where no server would answer over this set.
        let (mut round, _) = cheated(&sent);
        let sums = match shows {
            Shows::Statement => SCENE.sums.clone(),
            Shows::Envelopes(_) => continue,
            Shows::Post | Shows::Recovery => round.sums(&all),
        };
        for refused in [
            round.recover(&all, &sums).map(|_| ()).unwrap_err(),
            round.recover_once(&all, &sums).map(|_| ()).unwrap_err(),
        ] {
            matches(&refused);
        }
        if *shows == Shows::Recovery {
            seen.stops();
        }
    }
    seen
}

#[test]
fn what_can_be_known_of_inconsistent_shares() {
    // The share of server 3 lies off the polynomial of the other three.
    let sent = SCENE.round.lying_client(CHEAT, &ClientLie::InconsistentShare(ServerId(3)));
    let (mut round, _) = cheated(&sent);
    let set = NET.all();
    let sums = round.sums(&set);
    // More than t answers: seen as what it is.
    let refused = round.recover(&set, &sums).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("shares_inconsistent", NOBODY));
    // Exactly t answers without server 3: nothing is wrong with what is at hand.
    assert_eq!(round.recover(&set, &sums[..3]).unwrap().plaintext, NET.expected(&set));
    // Exactly t answers with server 3: every opening verifies, another key comes out, and the residuals show it.
    // Whether shares or noise are to blame cannot be told, and a server never is.
    for without in 0..3 {
        let mut three = sums.clone();
        three.remove(without);
        let refused = round.recover(&set, &three).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), ("noise_overflow", NOBODY));
    }
}

#[test]
fn two_statements_of_one_client_do_not_set_a_server_against_the_log() {
    // The client signs two posts for one session. The log has the first; the second reaches server 2, whole.
    let all = NET.all();
    let (mut round, mut misled) = (NET.posted(1), NET.open(1));
    for client in NET.ids().filter(|id| *id != CHEAT) {
        misled.submit(&misled.client(client)).accepted();
    }
    let (logged, second) =
        (round.client(CHEAT), NET.open(1).lying_client(CHEAT, &ClientLie::SecondStatement));
    let other = misled.submit(&second).accepted();
    let verified = NET.open(1).submit(&logged).accepted();
    assert_ne!(other.root(), verified.root());

    // Either envelope with the other statement is one that was not delivered.
    for (post, envelope) in [(&verified, &second.envelopes[2]), (&other, &logged.envelopes[2])] {
        let refused = NET.open(1).deliver(LIAR, post, envelope).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), ("envelope_not_in_post", NOBODY));
        assert_eq!(refused.retry(), Retry::SameRequest);
    }

    // Held against the log, server 2 sees the difference, lets go of the second and takes the first.
    let server = &mut misled.running[2];
    assert_eq!(server.received(CHEAT), Some(other.root()));
    assert_ne!(server.received(CHEAT), Some(verified.root()));
    assert!(server.withdraw(CHEAT) && !server.withdraw(CHEAT));
    assert_eq!(server.received(CHEAT), None);
    misled.deliver(LIAR, &verified, &logged.envelopes[2]).unwrap();
    let sums = [round.sums(&all)[..2].to_vec(), vec![misled.close(LIAR, &all).unwrap()]].concat();
    assert!(!misled.running[2].withdraw(CHEAT), "an answer is final");
    let recovered = round.recover(&all, &sums).unwrap();
    assert_eq!(recovered.plaintext, NET.expected(&all));
    assert_eq!(findings(&recovered), (vec![], vec![]));
}

#[test]
fn a_signed_envelope_of_another_length_never_reaches_a_server() {
    let sent = SCENE.round.client(CHEAT);
    for extra in [-1isize, 1] {
        let mut envelope = sent.envelopes[0].clone();
        envelope.sealed.resize(envelope.sealed.len().strict_add_signed(extra), 0);
        assert!(Envelope::from_bytes_with(&NET.params, &envelope.to_bytes()).is_err());
    }
}
