//! Lies of a server, and what others can do with its bytes.

use super::matrix::{Lie, Seen};
use super::{CHEAT, LIAR, NET, NOBODY, SCENE, Scene, findings, names_a_party};
use panetiere::bulletin::{Epoch, EpochError, EpochServer, ServerBulletinEntry, SumClaim};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, EpochId, ServerId};
use panetiere::pke::PrivateKey;
use panetiere::protocol::{
    Culprit, MemoryAnswers, Phase, PostSum, RecipientError, RejectReason, ServerIdentity, SetPolicy,
    VerifyError, decrypt_aggregate, recover_direct, unseal_opening,
};
use panetiere::sig::SigningKey;
use panetiere::testing::{ClientLie, ServerLie, deployment};
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

struct ServerRow {
    /// The cell of the matrix that this is a case of.
    cell: Lie,
    lie: &'static str,
    /// What the lying server has published in place of, or beside, an honest sum.
    publishes: fn(&Scene) -> Vec<ServerBulletinEntry>,
    /// The error's code; none where nothing is wrong.
    code: Option<&'static str>,
    blamed: Attribution,
}

fn one(scene: &Scene, lie: ServerLie) -> Vec<ServerBulletinEntry> {
    vec![scene.round.lying_sum(LIAR, &scene.set, &lie)]
}

pub fn honest(scene: &Scene, server: ServerId) -> ServerBulletinEntry {
    scene.sums[usize::from(server.0)].clone()
}

const SERVER: Attribution = Attribution::Server(LIAR);

static SERVER_ROWS: &[ServerRow] = &[
    ServerRow {
        cell: Lie::WrongSum,
        lie: "one randomness coefficient is one less",
        publishes: |scene| one(scene, ServerLie::Altered { part: 0 }),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::WrongShare,
        lie: "one leaf digit is one less",
        publishes: |scene| one(scene, ServerLie::Altered { part: 7 }),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::BadPath,
        lie: "one path digit is one less",
        publishes: |scene| one(scene, ServerLie::Altered { part: 14 }),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::WrongSum,
        lie: "leaves a client out and claims the whole set",
        publishes: |scene| one(scene, ServerLie::Omits(ClientId(3))),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::Swapped,
        lie: "another server's opening under its own claim",
        publishes: |scene| one(scene, ServerLie::Opening(Box::new(honest(scene, ServerId(0))))),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::StaleSession,
        lie: "its opening of an earlier session under this session's claim",
        publishes: |scene| one(scene, ServerLie::Opening(Box::new(scene.earlier_sums[2].clone()))),
        code: Some("sum_invalid_opening"),
        blamed: SERVER,
    },
    // Not proof of a lie: an honest server that was shown another log signs this very sum.
    ServerRow {
        cell: Lie::OtherSet,
        lie: "sums over another set and says so",
        publishes: |scene| one(scene, ServerLie::Over(NET.all_but(ClientId(0)))),
        code: Some("sum_set"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::OtherContext,
        lie: "sums under other public parameters",
        publishes: |scene| one(scene, ServerLie::WrongCrs),
        code: Some("sum_crs"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::OtherContext,
        lie: "sums under another epoch",
        publishes: |scene| one(scene, ServerLie::WrongEpoch),
        code: Some("sum_epoch"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::TwoAnswers,
        lie: "signs an honest sum and one over another set",
        publishes: |scene| {
            vec![honest(scene, LIAR), one(scene, ServerLie::Over(NET.all_but(ClientId(0)))).remove(0)]
        },
        code: Some("sum_double"),
        blamed: SERVER,
    },
    ServerRow {
        cell: Lie::TwoAnswers,
        lie: "signs an honest sum and an altered one",
        publishes: |scene| vec![one(scene, ServerLie::Altered { part: 3 }).remove(0), honest(scene, LIAR)],
        code: Some("sum_double"),
        blamed: SERVER,
    },
    // What anybody can do with a server's bytes: the server is not named for it.
    ServerRow {
        cell: Lie::Replay,
        lie: "its sum of an earlier session is replayed",
        publishes: |scene| vec![scene.earlier_sums[2].clone()],
        code: Some("sum_session"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::StaleSession,
        lie: "its sum for a later session shows up early",
        publishes: |scene| one(scene, ServerLie::WrongSession(NET.session(7))),
        code: Some("sum_session"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::OtherContext,
        lie: "its sum for another deployment shows up here",
        publishes: |scene| one(scene, ServerLie::WrongDeployment),
        code: Some("sum_deployment"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::ForgedSignature,
        lie: "signs with its own key in server 1's name",
        publishes: |scene| one(scene, ServerLie::InTheNameOf(ServerId(1))),
        code: Some("sum_signature"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::DuplicateId,
        lie: "signs for a server that does not exist",
        publishes: |scene| {
            // Its bytes would not even parse; this one is handed over as a value.
            let (sum, key) = (honest(scene, LIAR), NET.server(LIAR).signing_key());
            let claim = SumClaim { server: ServerId(4), ..*sum.claim() };
            vec![ServerBulletinEntry::sign(claim, sum.opening().clone(), &NET.params, key)]
        },
        code: Some("sum_unknown_server"),
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::DuplicateId,
        lie: "its honest sum is delivered twice",
        publishes: |scene| vec![honest(scene, LIAR), honest(scene, LIAR)],
        code: None,
        blamed: NOBODY,
    },
    ServerRow {
        cell: Lie::Replay,
        lie: "its honest sum and its replay are delivered",
        publishes: |scene| vec![scene.earlier_sums[2].clone(), honest(scene, LIAR)],
        code: Some("sum_session"),
        blamed: NOBODY,
    },
];

/// Runs every case of a cell: the server is named and no other is, and three honest ones are enough.
pub fn run(cell: Lie) -> Seen {
    let (scene, mut seen) = (&*SCENE, Seen::default());
    let expected = NET.expected(&scene.set);
    for ServerRow { lie, publishes, code, blamed, .. } in SERVER_ROWS.iter().filter(|row| row.cell == cell) {
        code.iter().for_each(|code| seen.note(code, *blamed));
        let lies = publishes(scene);
        let others = [0, 1, 3].map(|server| scene.sums[server].clone());
        let culprits: Vec<_> =
            code.iter().filter(|_| names_a_party(*blamed)).map(|code| (LIAR, *code)).collect();
        let discarded: Vec<_> = code.iter().filter(|_| !names_a_party(*blamed)).copied().collect();

        // Three honest servers remain: the same plaintext, in whatever order the sums come.
        for entries in [[&lies[..], &others].concat(), [&others, &lies[..]].concat()] {
            let recovered = scene.round.recover(&scene.set, &entries).unwrap();
            seen.recovers(&recovered.plaintext, &expected);
            assert_eq!(findings(&recovered), (culprits.clone(), discarded.clone()), "{lie}");
            assert!(recovered.culprits.iter().all(proven), "{lie}");
            let faults = recovered.culprits.iter().map(|culprit| &culprit.fault).chain(&recovered.discarded);
            assert!(faults.map(Fault::attribution).all(|attribution| attribution == *blamed), "{lie}");
        }

        // An attempt that excludes nobody stops at this very lie.
        let once = scene.round.recover_once(&scene.set, &[&lies[..], &others].concat());
        match code {
            Some(code) => {
                let refused = once.unwrap_err();
                assert_eq!((refused.code(), refused.attribution()), (*code, *blamed), "{lie}");
            }
            None => assert_eq!(once.as_ref(), Ok(&expected), "{lie}"),
        }

        // Two honest servers and the liar: without its share the round waits for more, and says who lied.
        let outcome = scene.round.recover(&scene.set, &[&lies[..], &others[..2]].concat());
        if lies.contains(&honest(scene, LIAR)) && !names_a_party(*blamed) {
            assert_eq!(outcome.unwrap().plaintext, expected, "{lie}");
            continue;
        }
        match outcome.unwrap_err() {
            RecipientError::Rejected(RejectReason::SharesExhausted {
                remaining,
                need,
                culprits: found,
                discarded: void,
            }) => {
                assert_eq!((remaining, need), (2, 3), "{lie}");
                let found: Vec<_> = found.iter().map(|c| (c.server, c.fault.code())).collect();
                assert_eq!(found, culprits, "{lie}");
                assert_eq!(void.iter().map(Fault::code).collect::<Vec<_>>(), discarded, "{lie}");
            }
            other => panic!("{lie}: {other:?}"),
        }
    }
    seen
}

/// Whether a culprit's evidence convicts it, read back from its bytes. Which epoch and parameters a session has only the
/// log tells, so a lie about those is not proven.
fn proven(culprit: &Culprit) -> bool {
    let only_the_log_tells =
        matches!(culprit.fault, VerifyError::WrongCrs { .. } | VerifyError::WrongEpoch { .. });
    let convicts = culprit.evidence.as_ref().map(|evidence| {
        let read = Evidence::from_bytes(&evidence.to_bytes()).expect("an encoder's bytes parse");
        read.verify(NET.params.lattice().kernels()).expect("evidence").convicted()
    });
    convicts == (!only_the_log_tells).then_some(Attribution::Server(culprit.server))
}

#[test]
fn every_post_is_fetched_once_and_every_sum_computed_once() {
    let scene = &*SCENE;
    let lie = scene.round.lying_sum(LIAR, &scene.set, &ServerLie::Altered { part: 0 });
    let entries = [&[lie][..], &scene.sums[..2], &scene.sums[3..]].concat();
    let (mut asked, mut phases) = (Vec::new(), Vec::new());
    let mut posts = PostSum::new(&NET.params, scene.round.session, &scene.set);
    for (key, post) in scene.set.clients().iter().filter_map(|client| scene.round.fetch(*client)) {
        posts.add(&key, &post).unwrap();
    }
    let out = decrypt_aggregate(&posts, &NET.epoch, &entries, &mut |phase| phases.push(phase)).unwrap();
    assert_eq!(phases, [Phase::VerifyOpenings, Phase::Interpolate, Phase::Decrypt]);
    let policy = SetPolicy::anchored(scene.set.clone(), 2, 300);
    let fetch = |client| {
        asked.push(client);
        scene.round.fetch(client)
    };
    let (params, session, epoch) = (&NET.params, &scene.round.session, &NET.epoch);
    assert_eq!(recover_direct(params, session, epoch, &policy, fetch, &entries), Ok(out));
    assert_eq!(asked, scene.set.clients());
}

#[test]
fn a_server_that_lied_is_named_where_the_sum_does_not_decrypt_either() {
    let mut round = NET.open(2);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        round.submit(&round.client(client)).accepted();
    }
    round.submit(&round.lying_client(CHEAT, &ClientLie::OversizedNoise)).accepted();
    let set = NET.all();
    let mut sums = round.sums(&set);
    sums[2] = round.lying_sum(LIAR, &set, &ServerLie::Altered { part: 0 });
    let refused = round.recover(&set, &sums).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("noise_overflow", NOBODY));
    let RecipientError::Rejected(RejectReason::WithFaults { culprits, discarded, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(culprits.iter().map(|culprit| culprit.server).collect::<Vec<_>>(), [LIAR]);
    assert!(culprits.iter().all(proven) && discarded.is_empty());
    let once = round.recover_once(&set, &sums).unwrap_err();
    assert_eq!(once.code(), "sum_invalid_opening");
}

#[test]
fn any_altered_polynomial_of_a_sum_names_its_server() {
    let scene = &*SCENE;
    // Randomness, leaf digits, and for each of two levels both children's digits without one: 5 + 6 + 2 * 5.
    for part in 0..21 {
        let lie = scene.round.lying_sum(LIAR, &scene.set, &ServerLie::Altered { part });
        let entries = [&[lie][..], &scene.sums[..2], &scene.sums[3..]].concat();
        let recovered = scene.round.recover(&scene.set, &entries).unwrap();
        assert_eq!(findings(&recovered), (vec![(LIAR, "sum_invalid_opening")], vec![]), "part {part}");
        assert_eq!(recovered.plaintext, NET.expected(&scene.set));
    }
}

#[test]
fn two_lying_servers_are_both_named() {
    let scene = &*SCENE;
    let lies = [
        scene.round.lying_sum(ServerId(3), &scene.set, &ServerLie::Altered { part: 1 }),
        scene.round.lying_sum(ServerId(1), &scene.set, &ServerLie::Omits(ClientId(2))),
    ];
    let entries = [&lies[..], &scene.sums[..1], &scene.sums[2..3]].concat();
    let refused = scene.round.recover(&scene.set, &entries).unwrap_err();
    assert_eq!((refused.code(), refused.retry()), ("shares_exhausted", Retry::SameRequest));
    let RecipientError::Rejected(RejectReason::SharesExhausted { culprits, remaining, .. }) = refused else {
        panic!("{refused:?}");
    };
    let found: Vec<_> = culprits.iter().map(|c| (c.server, c.fault.code())).collect();
    assert_eq!(found, [(ServerId(1), "sum_invalid_opening"), (ServerId(3), "sum_invalid_opening")]);
    assert_eq!(remaining, 2);
}

#[test]
fn bytes_that_are_no_sum_are_refused_before_anything_is_verified() {
    let scene = &*SCENE;
    let honest = honest(scene, LIAR).to_bytes(&NET.params);
    // Header, four digests, server, digests of set and posts, number of clients, opening, signature.
    let (server, clients, opening) = (4 + 128, 4 + 128 + 2 + 64, 4 + 128 + 2 + 64 + 4);
    let signature = honest.len() - 64;
    let at = |offset, what, kind| DecodeError { offset, what, kind };
    let differs = |expected, found| DecodeErrorKind::Unexpected { expected, found };
    let edited = |at: usize, with: &[u8]| {
        let mut bytes = honest.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    let out_of_range = DecodeErrorKind::OutOfRange;
    let rows: Vec<(&str, Vec<u8>, DecodeError)> = vec![
        ("empty", vec![], at(0, "object type", DecodeErrorKind::Truncated { need: 2, have: 0 })),
        (
            "one byte short",
            honest[..honest.len() - 1].to_vec(),
            at(signature, "signature", DecodeErrorKind::Truncated { need: 64, have: 63 }),
        ),
        (
            "one byte long",
            [honest.as_slice(), &[0]].concat(),
            at(honest.len(), "end of object", DecodeErrorKind::Trailing { extra: 1 }),
        ),
        ("a post's type", edited(0, &[2, 1]), at(0, "object type", differs(0x0201, 0x0102))),
        ("version 2", edited(2, &[2, 0]), at(2, "object version", differs(1, 2))),
        ("server 4 of 4", edited(server, &[4, 0]), at(server, "server id", out_of_range)),
        ("no clients", edited(clients, &[0; 4]), at(clients, "number of clients", out_of_range)),
        ("301 clients", edited(clients, &[45, 1, 0, 0]), at(clients, "number of clients", out_of_range)),
        ("2^32 - 1 clients", edited(clients, &[0xFF; 4]), at(clients, "number of clients", out_of_range)),
        // Four clients: randomness in [-432, 432], ten bits a coefficient, 865 to 1023 unused.
        ("a digit out of range", edited(opening, &[0xFF; 2]), at(opening, "randomness sum", out_of_range)),
        ("r = 0", edited(signature, &[0; 32]), at(signature, "signature", out_of_range)),
        ("s above n", edited(signature + 32, &[0xFF; 32]), at(signature, "signature", out_of_range)),
    ];
    for (row, bytes, expected) in rows {
        let refused = ServerBulletinEntry::from_bytes_with(&NET.params, &bytes);
        assert_eq!(refused.unwrap_err(), expected, "{row}");
    }
    // Whoever holds only such bytes holds no sum: three others recover, and nobody is named.
    let recovered = scene.round.recover(&scene.set, &[&scene.sums[..2], &scene.sums[3..]].concat()).unwrap();
    assert_eq!(findings(&recovered), (vec![], vec![]));
}

#[test]
fn too_few_sums_name_nobody() {
    let scene = &*SCENE;
    let refused = scene.round.recover(&scene.set, &scene.sums[..2]).unwrap_err();
    assert_eq!(refused.code(), "below_share_threshold");
    assert_eq!((refused.attribution(), refused.retry()), (NOBODY, Retry::SameRequest));
    // Three times the same sum is one sum.
    let refused = scene.round.recover(&scene.set, &vec![scene.sums[0].clone(); 3]).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("shares_exhausted", NOBODY));
}

#[test]
fn a_server_with_the_wrong_keys_names_no_client() {
    // Keys that the document does not name never become an identity: every client would look like a cheat to it.
    let other = SigningKey::generate(&mut ChaCha20Rng::from_seed([1; 32]));
    let own = || SigningKey::from_scalar(&NET.server(LIAR).signing_key().expose_scalar()).unwrap();
    let published = || PrivateKey::from_seed(&NET.server(LIAR).envelope_key().expose_seed());
    let rows = [
        (LIAR, PrivateKey::generate(&mut ChaCha20Rng::from_seed([2; 32])), own()),
        (LIAR, published(), other),
        (ServerId(1), published(), own()),
        (ServerId(4), published(), own()),
    ];
    for (server, envelope_key, signing_key) in rows {
        let refused =
            ServerIdentity::new(server, envelope_key, signing_key, &NET.epoch, MemoryAnswers::fresh())
                .unwrap_err();
        assert_eq!(refused, EpochError::ForeignKeys { server, epoch: EpochId(0) });
        assert_eq!(refused.attribution(), Attribution::Operator);
    }
    assert!(ServerIdentity::new(LIAR, published(), own(), &NET.epoch, MemoryAnswers::fresh()).is_ok());

    // Last epoch's keys, honestly held, in this epoch's round.
    let old = deployment(100).servers(4).threshold(3).epoch(1).build();
    let post = &SCENE.round.inboxes[2][1];
    let refused = unseal_opening(old.server(LIAR), &NET.params, &post.0, &post.1).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("envelope_wrong_epoch", Attribution::Operator));
    assert!(unseal_opening(NET.server(LIAR), &NET.params, &post.0, &post.1).is_ok());
}

#[test]
fn a_split_view_of_the_log_names_no_server() {
    // Somebody shows server 2 another log than the recipient: another set, or the second of two statements that one
    // client signed. The server is honest and answers what it was shown.
    let all = NET.all();
    let mut shown = NET.open(1);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        shown.submit(&shown.client(client)).accepted();
    }
    shown.submit(&NET.open(1).lying_client(CHEAT, &ClientLie::SecondStatement)).accepted();
    let other_posts = shown.close(LIAR, &all).unwrap();
    let other_set = NET.posted(1).close(LIAR, &NET.all_but(CHEAT)).unwrap();
    let scene = &*SCENE;
    for (sum, code) in [(&other_posts, "sum_posts"), (&other_set, "sum_set")] {
        let entries = [&[sum.clone()][..], &scene.sums[..2], &scene.sums[3..]].concat();
        let recovered = scene.round.recover(&scene.set, &entries).unwrap();
        assert_eq!(findings(&recovered), (vec![], vec![code]));
        assert_eq!(recovered.plaintext, NET.expected(&scene.set));
        let refused = scene.round.recover_once(&scene.set, &entries).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), (code, NOBODY));
    }
    // Answers to both views are two answers for one session, and nobody else can have signed them.
    for (first, second) in
        [(&other_posts, &other_set), (&scene.sums[2], &other_posts), (&other_set, &scene.sums[2])]
    {
        let entries = [&[first.clone(), second.clone()][..], &scene.sums[..2], &scene.sums[3..]].concat();
        let recovered = scene.round.recover(&scene.set, &entries).unwrap();
        assert_eq!(findings(&recovered), (vec![(LIAR, "sum_double")], vec![]));
    }
}

#[test]
fn sums_are_checked_against_the_epoch_that_the_round_is_in() {
    // A document that puts another key in server 2's place: what that key signs is not server 2's.
    let scene = &*SCENE;
    let other = SigningKey::generate(&mut ChaCha20Rng::from_seed([3; 32]));
    let mut servers = NET.epoch.servers().to_vec();
    let (deployment, number) = (NET.epoch.deployment(), NET.epoch.number());
    let envelope_key = servers[2].envelope_key.clone();
    servers[2] = EpochServer::sign(deployment, number, LIAR, envelope_key, &other);
    let forged = Epoch::new(*deployment, number, servers).unwrap();
    let lie = scene.round.lying_sum(LIAR, &scene.set, &ServerLie::Omits(CHEAT));
    let framed = ServerBulletinEntry::sign(*lie.claim(), lie.opening().clone(), &NET.params, &other);
    let policy = SetPolicy::anchored(scene.set.clone(), 2, 300);
    let (params, session) = (&NET.params, &scene.round.session);
    let entries = [&[framed][..], &scene.sums[..2], &scene.sums[3..]].concat();
    let recover = |epoch: &Epoch| {
        recover_direct(params, session, epoch, &policy, |client| scene.round.fetch(client), &entries)
    };
    assert_eq!(findings(&recover(&NET.epoch).unwrap()), (vec![], vec!["sum_signature"]));
    let refused = recover(&forged).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("sum_document", Attribution::Caller));
}

#[test]
fn two_servers_with_one_key_are_no_two_servers() {
    // Whoever holds the key holds two shares of everything.
    let (deployment, number) = (NET.epoch.deployment(), NET.epoch.number());
    let keys = |server: u16| {
        (
            NET.server(ServerId(server)).signing_key(),
            NET.epoch.servers()[usize::from(server)].envelope_key.clone(),
        )
    };
    let epoch = |places: [(u16, u16); 3]| {
        let signed = (0..).map(ServerId).zip(places).map(|(server, (identity, envelope))| {
            EpochServer::sign(deployment, number, server, keys(envelope).1, keys(identity).0)
        });
        Epoch::new(*deployment, number, signed.collect())
    };
    assert!(epoch([(0, 0), (1, 1), (2, 2)]).is_ok());
    assert!(epoch([(2, 0), (1, 2), (0, 1)]).is_ok(), "whatever the places");
    for places in [[(0, 0), (1, 1), (0, 2)], [(0, 0), (1, 1), (2, 0)]] {
        let refused = epoch(places).unwrap_err();
        assert_eq!(refused, EpochError::DuplicateKey { server: LIAR, first: ServerId(0) });
        assert_eq!((refused.code(), refused.attribution()), ("epoch_duplicate_key", Attribution::Operator));
    }
}
