//! The release rule, checked exhaustively for small deployments.
//!
//! S servers, which are the witnesses too; f of them are faulty: they cosign every checkpoint and sign every sum. The
//! bulletin is malicious: it shows any history to anyone in any order, and of what a server has published, it puts into a
//! log what it likes. Histories: one that closes over two clients (`A`); its continuation, with a later post and a second
//! close over three (`AA`); one that forks off before the close and closes over three (`B`). An honest server decides by
//! [`decide`] and cosigns by tlog's `check`, both called for real, on real leaves, paths, proofs and signatures. It may
//! crash at any point, between taking an answer down and giving it, and lose its state.
//!
//! Checked in every reachable state: no two sets have t sums each (P1), and no honest server has released two (P2).
//!
//! What a restore of an old backup does is not more than these: a record is there or not, so an old one is the same or
//! none; a head only grows, so an old one is an earlier one.

use super::scene::{History, Leaf, origin};
use super::{Closing, Record, SummedSet, decide};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use tlog::checkpoint::{Checkpoint, Log, TreeHead};
use tlog::key::NoteSigner;
use tlog::merkle::consistency_proof;
use tlog::quorum::{QuorumError, quorum_size};
use tlog::witness::{Request, check};

mod checks;

const HISTORIES: usize = 3;
const NAMES: [&str; HISTORIES] = ["A", "AA", "B"];

/// What of the rule is in force, and who breaks what.
#[derive(Clone, Copy, Debug)]
struct Setting {
    servers: usize,
    /// Faulty ones that the quorum is made for.
    assumed: usize,
    /// Faulty ones that there are.
    faulty: usize,
    /// Honest servers that may lose all state, and know it.
    losses: bool,
    /// Honest servers that may be set back to an earlier state without anybody noticing.
    set_back: usize,
    quorum: bool,
    guard: bool,
    /// Only a session's first close counts.
    first_close: bool,
    /// A server that lost its state never cosigns with the same key again.
    retire: bool,
}

impl Setting {
    const fn new(servers: usize, faulty: usize) -> Self {
        Self {
            servers,
            assumed: faulty,
            faulty,
            losses: true,
            set_back: 0,
            quorum: true,
            guard: true,
            first_close: true,
            retire: true,
        }
    }
}

/// An honest server, all of it. Histories by number from 1, sets likewise; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Server {
    /// Last head it remembers to have cosigned.
    head: u8,
    /// Cosignatures of its key that exist, by bit.
    cosigned: u8,
    retired: bool,
    set_back: bool,
    /// The set on record.
    record: u8,
    /// Sets over which it has released, by bit.
    released: u8,
    /// History that this process has read.
    imported: u8,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Cosign(usize),
    Import(usize, u8),
    Release(usize, usize),
    RecordThenCrash(usize, usize),
    Restart,
    Lose,
    SetBack(u8),
}

struct Step(usize, Act);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(server, act) = self;
        write!(f, "server {server} ")?;
        match act {
            Act::Cosign(history) => write!(f, "cosigns {}", NAMES[*history]),
            Act::Import(history, sums) => {
                write!(f, "reads {} with {} own sums in it", NAMES[*history], sums.count_ones())
            }
            Act::Release(history, close) => {
                write!(f, "releases over close {close} of {}", NAMES[*history])
            }
            Act::RecordThenCrash(history, close) => {
                write!(f, "takes down close {close} of {} and crashes", NAMES[*history])
            }
            Act::Restart => f.write_str("restarts"),
            Act::Lose => f.write_str("loses its state"),
            Act::SetBack(head) => {
                let name = head.checked_sub(1).map_or("nothing", |head| NAMES[usize::from(head)]);
                write!(f, "is set back, unnoticed, to when it had cosigned {name}")
            }
        }
    }
}

struct World {
    histories: [History; HISTORIES],
    sets: [SummedSet; 2],
    /// The set of each close, by history.
    closes: [Vec<u8>; HISTORIES],
    /// Whether a witness at a head, 0 for none, cosigns a history.
    accepts: [[bool; HISTORIES]; HISTORIES + 1],
}

impl World {
    fn new() -> Self {
        use Leaf::{Close, Open, Other, Post};
        let common = [Other(0), Open, Post(1), Post(2)];
        let histories = [
            History::new(&[&common[..], &[Close]].concat()),
            History::new(&[&common[..], &[Close, Post(3), Close]].concat()),
            History::new(&[&common[..], &[Post(3), Close]].concat()),
        ];
        let sets = [histories[0].set(4), histories[2].set(5)];
        assert_ne!(sets[0], sets[1]);
        assert_eq!(histories[1].set(6), sets[1]);
        let closes = histories.each_ref().map(|history| {
            let number = |close| u8::from(history.set(close) != sets[0]);
            history.closes().into_iter().map(number).collect()
        });
        let signer = NoteSigner::from_seed(origin().as_str().parse().unwrap(), &[1; 32]);
        let log = Log::new(origin(), vec![signer.verifier().clone()]).unwrap();
        let accepts = std::array::from_fn(|last| {
            let last: Option<TreeHead> = last.checked_sub(1).map(|last| histories[last].head());
            std::array::from_fn(|next| {
                let next = &histories[next];
                let old = last.map_or(0, |last| last.size);
                let proof = consistency_proof(next.hashes(), old.min(next.size())).unwrap();
                let note = Checkpoint::new(origin(), next.head()).unwrap().sign(&signer).unwrap();
                check(&log, last, &Request::new(old, proof, note).unwrap()).is_ok()
            })
        });
        Self { histories, sets, closes, accepts }
    }
}

/// Honest servers, packed and sorted: they are alike.
type State = [u16; 4];

impl Server {
    fn pack(self) -> u16 {
        let Self { head, cosigned, retired, set_back, record, released, imported } = self;
        let fields = [
            (head, 2),
            (cosigned, 3),
            (retired.into(), 1),
            (set_back.into(), 1),
            (record, 2),
            (released, 2),
            (imported, 2),
        ];
        fields.into_iter().fold(0, |packed, (field, bits)| packed << bits | u16::from(field))
    }
}

/// What is left to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Nothing: visit every state.
    End,
    /// Two sets with the threshold's number of sums.
    P1,
    /// A server with two sums.
    P2,
}

#[derive(Default)]
struct Explored {
    states: usize,
    /// The most sums that two sets have at once: P1 holds for every threshold above.
    both: usize,
    /// The first state in which two sets had t sums, if t was given.
    p1: Option<Vec<String>>,
    p2: Option<Vec<String>>,
}

struct Model<'w> {
    world: &'w World,
    setting: Setting,
    needed: usize,
    /// What the rule has said, by (history, close, cosignatures, read, record).
    decided: HashMap<(usize, usize, usize, u8, u8), bool>,
}

impl Model<'_> {
    fn cosignatures(&self, state: &[Server], history: usize) -> usize {
        self.setting.faulty + state.iter().filter(|server| server.cosigned & (1 << history) != 0).count()
    }

    fn cosigned(&self, found: usize, history: usize) -> Result<TreeHead, QuorumError> {
        if self.setting.quorum && found < self.needed {
            return Err(QuorumError::TooFew { needed: self.needed, found });
        }
        Ok(self.world.histories[history].head())
    }

    /// Asks the rule itself.
    fn releases(&mut self, state: &[Server], server: Server, history: usize, close: usize) -> bool {
        let found = self.cosignatures(state, history);
        let key = (history, close, found, server.imported, server.record);
        if let Some(decided) = self.decided.get(&key) {
            return *decided;
        }
        let number = |number: u8| number.checked_sub(1).map(usize::from);
        let record = if self.setting.guard {
            Record {
                imported: number(server.imported).map(|read| self.world.histories[read].size()),
                answered: number(server.record).map(|set| self.world.sets[set]),
            }
        } else {
            Record { imported: Some(u64::MAX), answered: None }
        };
        let (shown, origin) = (&self.world.histories[history], origin());
        let index = shown.closes()[close];
        let mut closing: Closing<'_> = shown.closing(&origin, index, self.cosigned(found, history), record);
        if !self.setting.first_close {
            closing.derived.first_close = Some(closing.close.index);
        }
        let decided = decide(&closing);
        if let Ok(release) = &decided {
            assert_eq!(release.summed(), self.world.sets[usize::from(self.world.closes[history][close])]);
        }
        self.decided.insert(key, decided.is_ok());
        decided.is_ok()
    }

    /// Everything that can happen to a server next.
    fn acts(&mut self, state: &[Server], at: usize) -> Vec<(Act, Server)> {
        let server = state[at];
        let mut acts = Vec::new();
        for history in 0..HISTORIES {
            let number = u8::try_from(history + 1).unwrap();
            // Where no cosignature counts, none is worth a state.
            if self.setting.quorum && !server.retired && self.world.accepts[usize::from(server.head)][history]
            {
                let cosigned = server.cosigned | 1 << history;
                acts.push((Act::Cosign(history), Server { head: number, cosigned, ..server }));
            }
            if self.setting.guard && self.cosigned(self.cosignatures(state, history), history).is_ok() {
                // Of its own sums, the bulletin shows all, one or none.
                for sums in (0..4).filter(|sums| sums & !server.released == 0) {
                    // Another one than that on record, or two: it stops. That is the same as to do nothing.
                    let record = match (server.record, sums) {
                        (record, 0) => record,
                        (0, 1 | 2) => sums,
                        (record, sums) if record == sums => record,
                        _ => continue,
                    };
                    acts.push((Act::Import(history, sums), Server { record, imported: number, ..server }));
                }
            }
            for close in 0..self.world.closes[history].len() {
                if self.releases(state, server, history, close) {
                    let set = self.world.closes[history][close];
                    let record = if self.setting.guard { set + 1 } else { 0 };
                    let taken = Server { record, ..server };
                    let released = server.released | 1 << set;
                    acts.push((Act::Release(history, close), Server { released, ..taken }));
                    acts.push((Act::RecordThenCrash(history, close), Server { imported: 0, ..taken }));
                }
            }
        }
        acts.push((Act::Restart, Server { imported: 0, ..server }));
        let forgotten = Server { record: 0, imported: 0, head: 0, ..server };
        if self.setting.losses {
            acts.push((Act::Lose, Server { retired: self.setting.retire, ..forgotten }));
        }
        if server.set_back || state.iter().filter(|server| server.set_back).count() < self.setting.set_back {
            // Of the heads, only AA has another one before it.
            for head in [0, 1].into_iter().filter(|head| *head == 0 || server.head == 2) {
                acts.push((Act::SetBack(head), Server { head, set_back: true, ..forgotten }));
            }
        }
        acts
    }
}

/// Visits every reachable state, or as far as `until`; `threshold` is that of P1, for the trace.
fn explore(world: &World, setting: Setting, threshold: usize, until: Until) -> Explored {
    let needed = quorum_size(setting.servers, setting.assumed).unwrap();
    let mut model = Model { world, setting, needed, decided: HashMap::new() };
    let honest = setting.servers - setting.faulty;
    let first = [Server::default(); 4];
    let mut explored = Explored::default();
    let pack = |servers: &[Server]| {
        let mut state = [u16::MAX; 4];
        state.iter_mut().zip(servers).for_each(|(packed, server)| *packed = server.pack());
        state
    };
    let mut places: HashMap<State, usize> = HashMap::from([(pack(&first[..honest]), 0)]);
    let mut came: Vec<Option<(usize, Step)>> = vec![None];
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((place, all)) = queue.pop_front() {
        let state = &all[..honest];
        let sums = |set: u8| {
            setting.faulty + state.iter().filter(|server| server.released & (1 << set) != 0).count()
        };
        let both = sums(0).min(sums(1));
        explored.both = explored.both.max(both);
        if both >= threshold && explored.p1.is_none() {
            explored.p1 = Some(trace(&came, place));
        }
        if explored.p2.is_none() && state.iter().any(|server| server.released == 3) {
            explored.p2 = Some(trace(&came, place));
        }
        if (until == Until::P1 && explored.p1.is_some()) || (until == Until::P2 && explored.p2.is_some()) {
            break;
        }
        for at in 0..state.len() {
            // Servers are alike: of equal ones, the first acts for all.
            if at > 0 && state[at] == state[at - 1] {
                continue;
            }
            for (act, server) in model.acts(state, at) {
                if server == state[at] {
                    continue;
                }
                let mut next = all;
                next[at] = server;
                next[..honest].sort_unstable();
                let number = places.len();
                if let std::collections::hash_map::Entry::Vacant(entry) = places.entry(pack(&next[..honest]))
                {
                    entry.insert(number);
                    came.push(Some((place, Step(at, act))));
                    queue.push_back((number, next));
                }
            }
        }
    }
    explored.states = places.len();
    explored
}

/// What led to a state. A server's number is its place among the honest ones, sorted, before the step.
fn trace(came: &[Option<(usize, Step)>], mut place: usize) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some((before, step)) = &came[place] {
        steps.push(step.to_string());
        place = *before;
    }
    steps.reverse();
    steps
}
