//! The codeword check of a round with lanes, before its close: who asks for the lanes' sums, and what follows.
//!
//! A client that committed to shares that are no codeword would spoil the round with nobody named. While the round is
//! checked, the bulletin asks every lane for its sum over the candidates; sums that verify and are no codeword lead to the
//! client by halves ([`Bisection`]), its items convict it, and the evidence goes into the log as an `Expulsion`.

use crate::round::recover::{Bodies, Body};
use panetiere::bulletin::{CanonicalSet, LaneBulletinEntry, LaneItem, RsClientBulletinEntry};
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::ClientId;
use panetiere::protocol::{Bisection, BisectionError, CodewordVerdict, LaneCulprit, NextStep, RsPosts};
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::leaf::Expulsion;
use panetiere_api::round::{EpochState, Session};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask every lane for its sum over this set, and give the answers to [`Check::answer`].
    Ask(CanonicalSet),
    /// The candidates can be closed over: their sums are a codeword.
    Clean,
    /// Have this appended, with the evidence beside it; then check those that are left.
    Expel {
        /// The leaf.
        leaf: Expulsion,
        /// What it names.
        evidence: Box<Evidence>,
    },
    /// Fetch this client's items of any k lanes, and give them to [`Check::items`].
    Items(ClientId),
    /// No more than k lanes have answered, and any k sums are a codeword: nothing can be seen.
    Unseen,
}

/// A check under way. It remembers what the lanes have answered; what follows is computed from that each time, so nothing
/// is lost if it is made again.
#[derive(Clone, Debug, Default)]
pub struct Check {
    answers: Vec<(CanonicalSet, Vec<LaneBulletinEntry>)>,
    items: Vec<LaneItem>,
}

impl Check {
    /// Takes the lanes' sums over a set that was asked about.
    pub fn answer(&mut self, set: CanonicalSet, sums: Vec<LaneBulletinEntry>) {
        self.answers.push((set, sums));
    }

    /// Takes items of a client that was found.
    pub fn items(&mut self, items: Vec<LaneItem>) {
        self.items.extend(items);
    }

    /// What to do next, and the lanes whose sums were false. `posts` are those of [`posts_of`].
    ///
    /// # Errors
    /// As [`Bisection::start`] and [`Bisection::answer`]: more lanes have to answer.
    pub fn step(
        &self,
        session: &Session,
        epoch: &EpochState,
        posts: &RsPosts<'_>,
    ) -> Result<(Step, Vec<LaneCulprit>), BisectionError> {
        let document = &epoch.plan().document;
        let Ok(candidates) = CanonicalSet::new(session.derive(epoch).members) else {
            return Ok((Step::Clean, Vec::new()));
        };
        let sums_over = |set: &CanonicalSet| self.answers.iter().find(|(of, _)| of == set);
        let Some((_, sums)) = sums_over(&candidates) else { return Ok((Step::Ask(candidates), Vec::new())) };
        let (verdict, mut culprits) = Bisection::start(posts, document, &candidates, sums)?;
        let mut search = match verdict {
            CodewordVerdict::Codeword => return Ok((Step::Clean, culprits)),
            CodewordVerdict::Unseen => return Ok((Step::Unseen, culprits)),
            CodewordVerdict::NotACodeword(search) => search,
        };
        loop {
            let asked = match search.next_step() {
                NextStep::Ask(set) => set,
                NextStep::Found(client) => return Ok((self.convict(session, epoch, client), culprits)),
            };
            let Some((_, sums)) = sums_over(&asked) else { return Ok((Step::Ask(asked), culprits)) };
            culprits.extend(search.answer(sums)?);
        }
    }

    fn convict(&self, session: &Session, epoch: &EpochState, client: ClientId) -> Step {
        let (key, post) = &session.posts()[&client];
        let items: Vec<LaneItem> = self.items.iter().filter(|item| item.client == client).cloned().collect();
        let (params, document) = (session.params(), &epoch.plan().document);
        let evidence = Evidence::not_a_codeword(params, document, key, post.signed(), &items);
        let party = Attribution::Client(client);
        evidence.if_it_convicts(params, party).map_or(Step::Items(client), |evidence| Step::Expel {
            leaf: expulsion(session, client, &evidence),
            evidence,
        })
    }
}

/// The leaf that takes a client out of an open round for what convicts it. The evidence goes beside it, as
/// [`keep_evidence`](crate::round::library::keep_evidence) keeps it.
pub fn expulsion(session: &Session, client: ClientId, evidence: &Evidence) -> Expulsion {
    let bytes = evidence.to_bytes();
    let len = u64::try_from(bytes.len()).expect("a length fits 64 bits");
    Expulsion { session: *session.id(), client, evidence: blake3::hash(&bytes).into(), len }
}

/// The posts of a round with lanes, as far as they are at hand and are what the log names.
pub fn posts_of<'a>(session: &'a Session, bodies: &dyn Bodies) -> RsPosts<'a> {
    let mut posts = RsPosts::new(session.params(), *session.id());
    for (&client, (key, _)) in session.posts() {
        let body = bodies.body(session.round(), Body::Post(client)).ok().flatten();
        let post =
            body.and_then(|bytes| RsClientBulletinEntry::from_bytes_with(session.params(), &bytes).ok());
        if let Some(post) = post {
            // What is refused is no post of the round: the step that needs it says that it is missing.
            let _refused = posts.add(key, &post);
        }
    }
    posts
}
