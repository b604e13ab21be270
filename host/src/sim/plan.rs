//! What a seed makes of a world: its shape, who lies in it, what fails.

use crate::store::disk::memory::Choices;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is left to chance, from one seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(Choices);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Choices::new(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Whether something happens that does so `per_mille` times in a thousand.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub(super) fn shuffle<T>(&mut self, of: &mut [T]) {
        for last in (1..of.len()).rev() {
            of.swap(last, self.index(last + 1));
        }
    }
}

/// What a client does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientLie {
    /// The envelope to this server holds garbage, under the client's signature. It answers complaints or does not.
    BadEnvelope { server: u16, answers: bool },
    /// The ciphertext is under another key than the shared one.
    Garbage,
    /// A post after posts have ended, with garbage in the envelope to every server; complaints are answered.
    Late,
    /// Another post once the first one is in the log.
    Second,
    /// No post at all.
    Silent,
    /// Two different posts for one session.
    TwoPosts,
}

impl ClientLie {
    /// Whether the envelope to this server holds garbage.
    pub(super) const fn spoils(self, server: u16) -> bool {
        match self {
            Self::BadEnvelope { server: to, .. } => to == server,
            Self::Late => true,
            _ => false,
        }
    }
}

/// Where a lying bulletin forks its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fork {
    /// Nowhere.
    Never,
    /// Before it writes its own leaf of this kind in this round.
    Before(&'static str, u64),
    /// Behind the post of so many clients of this round.
    Posts(usize, u64),
}

/// How the second history is made to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    /// By a leaf that means nothing.
    Junk,
    /// By what is withheld from it.
    Nothing,
    /// A client is revoked in it.
    Revoke(u32),
    /// The posts of one client never reach it.
    Without(u32),
}

/// What a lying bulletin does, each so many times in a thousand chances.
#[derive(Clone, Debug)]
pub(super) struct Lies {
    pub(super) fork: Fork,
    pub(super) twist: Twist,
    /// A leaf that was handed in never gets into a history.
    pub(super) withhold: u64,
    /// An envelope is never handed out, or in pieces.
    pub(super) envelopes: u64,
    /// A leaf of its own where none belongs: opened twice, closed early or wrongly, called off, forged.
    pub(super) meddle: u64,
    /// A reader gets the other history, or an old checkpoint.
    pub(super) confuse: u64,
    /// The log is set back to a backup.
    pub(super) set_back: u64,
    /// Windows in per mille of those announced, by history.
    pub(super) pace: [u64; 2],
    /// It has a plan: both histories get to their close, each with half of the honest servers, and who starts again is
    /// shown the other one. Liars help it by not complaining.
    pub(super) cunning: bool,
}

impl Lies {
    /// Leaves out what would keep a round from its end.
    const fn undisturbed(&mut self) {
        (self.withhold, self.envelopes, self.meddle, self.confuse, self.set_back) = (0, 0, 0, 0, 0);
        self.pace = [1000, 1000];
    }
}

/// What is taken away from the rules, to see that it is missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Without {
    /// One witness is a quorum, and it is a faulty one.
    pub(super) quorum: bool,
    /// A server that starts again does not know what it has answered.
    pub(super) guard: bool,
    /// Clients answer every complaint.
    pub(super) cap: bool,
    /// More servers lie than the deployment was made for.
    pub(super) bound: bool,
    /// The last post of a client counts.
    pub(super) first_post: bool,
    /// Posts count until the close.
    pub(super) posts_end: bool,
}

/// A world.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) servers: u16,
    pub(super) threshold: u16,
    /// f, as the deployment assumes it.
    pub(super) faulty: u16,
    pub(super) clients: u32,
    pub(super) rounds: u32,
    /// The servers that lie.
    pub(super) liars: BTreeSet<u16>,
    pub(super) client_lies: BTreeMap<u32, ClientLie>,
    /// None: the bulletin is honest.
    pub(super) lies: Option<Lies>,
    /// Messages lost and doubled, per mille.
    pub(super) loss: u64,
    pub(super) doubled: u64,
    /// Milliseconds that a message takes at most.
    pub(super) latency: u64,
    /// Things that fail until the network heals.
    pub(super) faults: u64,
    /// From when on nothing fails any more, in milliseconds.
    pub(super) heals: u64,
    /// When the world ends.
    pub(super) ends: u64,
    pub(super) without: Without,
}

/// Servers, threshold, faulty.
const SHAPES: [(u16, u16, u16); 8] =
    [(3, 2, 0), (3, 2, 1), (3, 2, 1), (4, 3, 1), (4, 3, 2), (5, 3, 1), (5, 3, 2), (5, 4, 1)];

impl Plan {
    /// The world of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let shape = dice.pick(&SHAPES);
        let mut plan = Self::shaped(seed, shape, &mut dice);
        if dice.chance(600) {
            plan.lies = Some(plan.draw_lies(&mut dice));
            // Nothing is promised that would take longer.
            plan.ends = 13_000;
        }
        plan
    }

    fn shaped(seed: u64, (servers, threshold, faulty): (u16, u16, u16), dice: &mut Dice) -> Self {
        let clients = u32::try_from(dice.between(3, 4)).unwrap();
        let mut ids: Vec<u16> = (0..servers).collect();
        dice.shuffle(&mut ids);
        let liars =
            ids[..usize::from(u16::try_from(dice.between(0, faulty.into())).unwrap())].iter().copied();
        let liars = liars.collect();
        let mut client_lies = BTreeMap::new();
        for client in 0..clients {
            if dice.chance(200) {
                let server = dice.pick(&ids);
                let lie = match dice.below(10) {
                    8 => ClientLie::Late,
                    9 => ClientLie::Second,
                    0..4 => ClientLie::BadEnvelope { server, answers: dice.chance(500) },
                    4 => ClientLie::Garbage,
                    5 => ClientLie::Silent,
                    _ => ClientLie::TwoPosts,
                };
                client_lies.insert(client, lie);
            }
        }
        let calm = dice.chance(300);
        Self {
            seed,
            servers,
            threshold,
            faulty,
            clients,
            rounds: u32::try_from(dice.between(1, 2)).unwrap(),
            liars,
            client_lies,
            lies: None,
            loss: if calm { 0 } else { dice.below(150) },
            doubled: dice.below(150),
            latency: dice.between(5, 200),
            faults: if calm { 0 } else { dice.below(10) },
            heals: 7000,
            ends: 24_000,
            without: Without::default(),
        }
    }

    fn draw_lies(&self, dice: &mut Dice) -> Lies {
        let round = dice.between(1, self.rounds.into());
        let client = u32::try_from(dice.below(self.clients.into())).unwrap();
        let fork = match dice.below(6) {
            0 => Fork::Never,
            1 => Fork::Before("round_open", round),
            2 => Fork::Before("posts_end", round),
            3 => Fork::Before("round_close", round),
            _ => Fork::Posts(dice.index(usize::try_from(self.clients).unwrap()), round),
        };
        let twist = match dice.below(5) {
            0 => Twist::Nothing,
            1 => Twist::Junk,
            2 => Twist::Revoke(client),
            _ => Twist::Without(client),
        };
        // Most lies at once keep every round from its end; so each is often left out.
        let mut sometimes = |most: u64| if dice.chance(400) { dice.below(most) } else { 0 };
        let (withhold, envelopes) = (sometimes(200), sometimes(200));
        let (meddle, confuse, set_back) = (sometimes(100), sometimes(200), sometimes(6));
        let pace = [dice.pick(&[1000, 1000, 300, 2000]), dice.pick(&[1000, 1000, 300, 2000])];
        let mut lies = Lies {
            fork,
            twist,
            withhold,
            envelopes,
            meddle,
            confuse,
            set_back,
            pace,
            cunning: dice.chance(200),
        };
        if lies.cunning {
            lies.undisturbed();
        }
        lies
    }

    /// A world in which a bulletin forks, as early as makes two sets possible, in a shape in which two sets of servers
    /// with the liars among both reach the threshold.
    pub(super) fn forked(seed: u64, without: Without) -> Self {
        let mut dice = Dice::new(seed ^ 0xf0f0);
        let shape = if without.guard || without.bound {
            (5, 3, 1)
        } else {
            dice.pick(&[(3, 2, 1), (4, 3, 2), (5, 3, 1)])
        };
        let mut plan = Self::shaped(seed, shape, &mut dice);
        plan.client_lies.clear();
        plan.rounds = 1;
        let liars = if without.bound { 3 } else { plan.faulty };
        plan.liars = (0..liars).collect();
        let client = u32::try_from(dice.below(plan.clients.into())).unwrap();
        let fork = dice.pick(&[Fork::Posts(0, 1), Fork::Posts(1, 1), Fork::Before("posts_end", 1)]);
        let mut lies = plan.draw_lies(&mut dice);
        (lies.fork, lies.twist, lies.cunning) = (fork, Twist::Revoke(client), true);
        lies.undisturbed();
        (plan.loss, plan.ends) = (0, 13_000);
        if without.bound {
            // A server starts again once it has summed, and finds the other history. Whoever starts again more often than
            // that has no key to cosign with, and then neither history gets its quorum.
            (plan.faults, plan.heals) = (0, 9_000);
        }
        plan.lies = Some(lies);
        plan.without = without;
        plan
    }

    /// A world with more lying servers than a client may answer.
    pub(super) fn complaining(seed: u64, without: Without) -> Self {
        let mut dice = Dice::new(seed ^ 0xcafe);
        let shape = dice.pick(&[(5, 3, 2), (4, 3, 2)]);
        let mut plan = Self::shaped(seed, shape, &mut dice);
        plan.liars = (0..2).collect();
        plan.client_lies.clear();
        (plan.faults, plan.loss) = (0, 0);
        plan.lies = dice.chance(500).then(|| plan.draw_lies(&mut dice));
        plan.without = without;
        plan
    }

    /// A world in which one client posts what it should not: another post, or one too late. Everybody else is honest and
    /// nothing fails, so that the round has to have a result.
    pub(super) fn posting(seed: u64, lie: ClientLie, without: Without) -> Self {
        let mut dice = Dice::new(seed ^ 0xb057);
        let shape = dice.pick(&[(3, 2, 1), (4, 3, 1), (5, 3, 1)]);
        let mut plan = Self::shaped(seed, shape, &mut dice);
        plan.liars.clear();
        plan.client_lies = BTreeMap::from([(u32::try_from(dice.below(plan.clients.into())).unwrap(), lie)]);
        (plan.faults, plan.loss) = (0, 0);
        plan.without = without;
        plan
    }

    pub(super) fn lies_server(&self, server: u16) -> bool {
        self.liars.contains(&server)
    }

    /// Witnesses that have to cosign, by the formula: of S witnesses, f faulty.
    pub(super) fn quorum(&self) -> usize {
        usize::from(self.servers + self.faulty) / 2 + 1
    }
}
