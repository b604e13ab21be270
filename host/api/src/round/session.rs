//! One round as the log has it: what has been posted, checked, answered, and what came of it.

use super::epoch::EpochState;
use super::void::Void;
use crate::leaf::{AbortReason, RoundClose, RoundId, RoundKind, RoundOpen, RoundResult, Signed};
use panetiere::bulletin::{
    Answer, CanonicalSet, Checked, LanePurpose, Mode, SignedGroupClaim, SignedLaneClaim, SignedPost,
    SignedSumClaim, StatementContext, VerifiedPost, posts_digest,
};
use panetiere::fault::Attribution;
use panetiere::ids::{
    AggregatorId, CiphertextDigest, ClientId, EpochDigest, NodeId, PostsDigest, RootDigest, ServerId,
    SessionId, SetDigest,
};
use panetiere::protocol::{
    AnswerFault, Exclusion, ProtocolParams, compare_checked, set_rule, verify_answer, verify_checked,
    verify_complaint,
};
use panetiere::sig::VerifyingKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The canonical set of a closed round and what it was derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Where the close stands in the log.
    pub at: u64,
    /// RFC 6962 hash of that leaf.
    pub hash: [u8; 32],
    /// The set.
    pub set: CanonicalSet,
    /// Digest of the posts in it, by the roots of their key shares: what servers' sums name.
    pub posts: PostsDigest,
    /// Digest of the posts in it, by the roots of their coded shares, in erasure mode: what lanes' sums name.
    pub lane_posts: Option<PostsDigest>,
}

/// How far a round is, by its leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Posts are taken.
    Collecting,
    /// Servers check, clients answer.
    Checking,
    /// The set is settled. Whether sums may be released follows from who has cosigned that.
    Closed(Closed),
    /// Called off.
    Aborted(AbortReason),
}

impl Phase {
    const fn name(&self) -> &'static str {
        match self {
            Self::Collecting => "collecting posts",
            Self::Checking => "being checked",
            Self::Closed(_) => "closed",
            Self::Aborted(_) => "called off",
        }
    }
}

/// What a complaint has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenComplaint {
    /// The client complained about.
    pub client: ClientId,
    /// The server that complains.
    pub server: ServerId,
}

/// Why a client whose post counts is not in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Out {
    /// Complaints and answers put it out.
    Complaint(Exclusion),
    /// Evidence convicts it.
    Expelled,
    /// Its admission was revoked.
    Revoked,
}

/// What the leaves before a close make of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The clients that are in.
    pub members: Vec<ClientId>,
    /// The clients whose posts count and that are not in, each with the reason.
    pub out: BTreeMap<ClientId, Out>,
}

/// One round.
#[derive(Clone, Debug)]
pub struct Session {
    id: SessionId,
    open: RoundOpen,
    opened: (u64, [u8; 32]),
    params: Arc<ProtocolParams>,
    phase: Phase,
    posts: BTreeMap<ClientId, (VerifyingKey, VerifiedPost)>,
    roots: BTreeMap<RootDigest, ClientId>,
    ciphertexts: BTreeMap<CiphertextDigest, ClientId>,
    checked: BTreeMap<ServerId, Checked>,
    answers: Vec<Answer>,
    expelled: BTreeMap<ClientId, [u8; 32]>,
    out: BTreeMap<ClientId, Out>,
    server_sums: BTreeMap<ServerId, SignedSumClaim>,
    lane_sums: BTreeMap<NodeId, SignedLaneClaim>,
    group_sums: BTreeMap<AggregatorId, SignedGroupClaim>,
    result: Option<RoundResult>,
    #[cfg(feature = "test-util")]
    missing: super::record::Missing,
}

impl Session {
    pub(super) const fn new(
        id: SessionId,
        open: RoundOpen,
        opened: (u64, [u8; 32]),
        params: Arc<ProtocolParams>,
    ) -> Self {
        Self {
            id,
            open,
            opened,
            params,
            phase: Phase::Collecting,
            posts: BTreeMap::new(),
            roots: BTreeMap::new(),
            ciphertexts: BTreeMap::new(),
            checked: BTreeMap::new(),
            answers: Vec::new(),
            expelled: BTreeMap::new(),
            out: BTreeMap::new(),
            server_sums: BTreeMap::new(),
            lane_sums: BTreeMap::new(),
            group_sums: BTreeMap::new(),
            result: None,
            #[cfg(feature = "test-util")]
            missing: super::record::Missing { first_post: false, posts_end: false },
        }
    }

    #[cfg(feature = "test-util")]
    pub(super) fn without(self, missing: super::record::Missing) -> Self {
        Self { missing, ..self }
    }

    /// Whether something may still come of it: it is not called off, and has no result.
    pub const fn awaits_result(&self) -> bool {
        !self.is_called_off() && self.result().is_none()
    }

    /// Whether a post may count now.
    const fn takes_posts(&self) -> bool {
        #[cfg(feature = "test-util")]
        if self.missing.posts_end && matches!(self.phase, Phase::Checking) {
            return true;
        }
        matches!(self.phase, Phase::Collecting)
    }

    /// The post of a client that another one of it cannot replace.
    fn first_post(&self, client: ClientId, post: &VerifiedPost) -> Option<&VerifiedPost> {
        let (_, first) = self.posts.get(&client)?;
        #[cfg(feature = "test-util")]
        if self.missing.first_post && first.statement() != post.statement() {
            return None;
        }
        let _ = post;
        Some(first)
    }

    /// The session's id.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// The round's number.
    pub const fn round(&self) -> RoundId {
        self.open.round
    }

    /// The epoch's document.
    pub const fn epoch(&self) -> &EpochDigest {
        &self.open.epoch
    }

    /// What it carries.
    pub const fn kind(&self) -> &RoundKind {
        &self.open.kind
    }

    /// The leaf that opened it.
    pub const fn announcement(&self) -> &RoundOpen {
        &self.open
    }

    /// Where that leaf stands in the log.
    pub const fn opened_at(&self) -> u64 {
        self.opened.0
    }

    /// RFC 6962 hash of that leaf.
    pub const fn opened_hash(&self) -> &[u8; 32] {
        &self.opened.1
    }

    /// The parameters.
    pub const fn params(&self) -> &Arc<ProtocolParams> {
        &self.params
    }

    /// How far it is.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether it was called off: nothing more comes of it.
    pub const fn is_called_off(&self) -> bool {
        matches!(self.phase, Phase::Aborted(_))
    }

    /// The settled set, if it is closed.
    pub const fn closed(&self) -> Option<&Closed> {
        match &self.phase {
            Phase::Closed(closed) => Some(closed),
            _ => None,
        }
    }

    /// The posts that count, with the keys of their clients.
    pub const fn posts(&self) -> &BTreeMap<ClientId, (VerifyingKey, VerifiedPost)> {
        &self.posts
    }

    /// What servers found, the first of each.
    pub const fn checked(&self) -> &BTreeMap<ServerId, Checked> {
        &self.checked
    }

    /// The answers that count, in the order of the log.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Clients whose posts count and that are not in the closed set, with the reason.
    pub const fn out(&self) -> &BTreeMap<ClientId, Out> {
        &self.out
    }

    /// The servers' sums, the first of each.
    pub const fn server_sums(&self) -> &BTreeMap<ServerId, SignedSumClaim> {
        &self.server_sums
    }

    /// The lanes' sums, the first of each.
    pub const fn lane_sums(&self) -> &BTreeMap<NodeId, SignedLaneClaim> {
        &self.lane_sums
    }

    /// The aggregators' sums that count: the first of each that overlaps none before it.
    pub const fn group_sums(&self) -> &BTreeMap<AggregatorId, SignedGroupClaim> {
        &self.group_sums
    }

    /// The result, if there is one.
    pub const fn result(&self) -> Option<&RoundResult> {
        self.result.as_ref()
    }

    /// Whether enough sums are published to recover the round: the threshold of servers, and with lanes enough of them, or
    /// groups that cover the set. Sums may be wrong; a recipient may need more.
    pub fn recoverable(&self) -> bool {
        let bodies = match (self.params.mode(), self.params.lanes(), self.closed()) {
            (Mode::Erasure, Some(shape), _) => self.lane_sums.len() >= usize::from(shape.needed),
            (Mode::Aggregated, _, Some(closed)) => {
                let covered: usize = self.group_sums.values().map(|sum| sum.claim().members.len()).sum();
                covered == closed.set.clients().len()
            }
            (_, _, closed) => closed.is_some(),
        };
        bodies && self.server_sums.len() >= usize::from(self.params.threshold())
    }

    /// The complaints that are still to be answered: without an answer that counts, and not beyond what a client answers.
    pub fn open_complaints(&self) -> Vec<OpenComplaint> {
        let mut complaints: BTreeMap<ClientId, Vec<ServerId>> = BTreeMap::new();
        for (&server, checked) in &self.checked {
            for &client in checked.complaints().keys() {
                if self.complains(server, client) {
                    complaints.entry(client).or_default().push(server);
                }
            }
        }
        let answerable =
            complaints.into_iter().filter(|(_, by)| by.len() <= self.params.max_answers().into());
        answerable
            .flat_map(|(client, by)| by.into_iter().map(move |server| OpenComplaint { client, server }))
            .filter(|open| !self.answered(open.client, open.server))
            .collect()
    }

    fn complains(&self, server: ServerId, client: ClientId) -> bool {
        let Some((_, post)) = self.posts.get(&client) else { return false };
        let complains = |checked| verify_complaint(checked, post) == Ok(true);
        self.checked.get(&server).is_some_and(complains)
    }

    fn answered(&self, client: ClientId, server: ServerId) -> bool {
        self.answers.iter().any(|answer| (answer.client(), answer.server()) == (client, server))
    }

    /// What a close would settle here.
    pub fn derive(&self, epoch: &EpochState) -> Derived {
        let mut out = BTreeMap::new();
        let mut candidates = self.posts.clone();
        candidates.retain(|client, _| {
            if self.expelled.contains_key(client) {
                out.insert(*client, Out::Expelled);
            } else if epoch.member(*client).is_none_or(|member| member.revoked_at.is_some()) {
                out.insert(*client, Out::Revoked);
            }
            !out.contains_key(client)
        });
        let checked: Vec<Checked> = self.checked.values().cloned().collect();
        let ruled =
            set_rule(&self.params, &self.id, &epoch.plan().document, &candidates, &checked, &self.answers);
        let ruled = ruled.expect("the session's parameters were made from this document");
        out.extend(ruled.excluded.into_iter().map(|(client, why)| (client, Out::Complaint(why))));
        Derived { members: ruled.members, out }
    }

    /// The close that the bulletin has to write here, if a round may be closed over what there is.
    ///
    /// # Errors
    /// As [`Record::apply`](super::Record::apply) would find of a close.
    pub fn closing(&self, epoch: &EpochState) -> Result<RoundClose, Void> {
        self.may_close(epoch).map(|(closed, _)| RoundClose {
            session: self.id,
            set: closed.set.digest(),
            posts: closed.posts,
            clients: closed.set.count(),
        })
    }

    fn may_close(&self, epoch: &EpochState) -> Result<(Closed, BTreeMap<ClientId, Out>), Void> {
        self.expect(matches!(self.phase, Phase::Checking), "a close comes once, behind the end of posts")?;
        let (needed, found) = (self.params.threshold(), self.checked.len());
        if found < usize::from(needed) {
            return Err(Void::TooFewChecked { needed, found });
        }
        let Derived { members, out } = self.derive(epoch);
        let (found, floor) = (members.len(), self.params.min_clients());
        let below = Void::BelowFloor { found, floor };
        if found < usize::try_from(floor).expect("usize has at least 32 bits") {
            return Err(below);
        }
        let set = CanonicalSet::new(members).map_err(|_| below)?;
        let roots = |of: &dyn Fn(&VerifiedPost) -> Option<RootDigest>| {
            let posts = set.clients().iter().map(|client| &self.posts[client].1);
            let roots: Option<Vec<_>> = posts.map(of).collect();
            roots.map(|roots| posts_digest(set.clients().iter().zip(&roots)))
        };
        let posts = roots(&|post| Some(*post.root())).expect("every post has a root");
        let lane_posts = roots(&|post| post.share_root().copied());
        Ok((Closed { at: 0, hash: [0; 32], set, posts, lane_posts }, out))
    }

    const fn expect(&self, holds: bool, expected: &'static str) -> Result<(), Void> {
        if holds {
            Ok(())
        } else {
            Err(Void::Phase { round: self.open.round, phase: self.phase.name(), expected })
        }
    }

    pub(super) fn post(&mut self, epoch: &EpochState, signed: &SignedPost) -> Result<ClientId, Void> {
        self.expect(self.takes_posts(), "posts count until their end")?;
        let client = signed.claim().client;
        let member = epoch.member(client).ok_or(Void::UnknownClient { client })?;
        if member.revoked_at.is_some() {
            return Err(Void::Revoked { client });
        }
        let post = signed.check(&self.params, &self.id, &member.key).map_err(Void::Post)?;
        if let Some(first) = self.first_post(client, &post) {
            let same = first.statement() == post.statement();
            return Err(second(same, "post", Attribution::Client(client)));
        }
        let max = self.params.max_clients();
        if self.posts.len() >= usize::try_from(max).expect("usize has at least 32 bits") {
            return Err(Void::TooManyPosts { max });
        }
        let roots = &post.statement().roots;
        if let Some(&first) = roots.iter().find_map(|root| self.roots.get(root)) {
            return Err(Void::CopiedRoot { client, first });
        }
        if let Some(&first) = self.ciphertexts.get(&post.statement().ciphertext) {
            return Err(Void::CopiedCiphertext { client, first });
        }
        self.roots.extend(roots.iter().map(|root| (*root, client)));
        self.ciphertexts.insert(post.statement().ciphertext, client);
        self.posts.insert(client, (member.key, post));
        Ok(client)
    }

    pub(super) fn end_posts(&mut self) -> Result<(), Void> {
        self.expect(matches!(self.phase, Phase::Collecting), "posts end once")?;
        self.phase = Phase::Checking;
        Ok(())
    }

    pub(super) fn check(&mut self, epoch: &EpochState, checked: Checked) -> Result<ServerId, Void> {
        self.expect(
            matches!(self.phase, Phase::Checking),
            "servers check between the end of posts and the close",
        )?;
        let document = &epoch.plan().document;
        verify_checked(&self.params, &self.id, document, &checked).map_err(Void::Checked)?;
        let server = checked.server();
        if let Some(first) = self.checked.get(&server) {
            compare_checked(&self.params, &self.id, document, first, &checked).map_err(Void::Checked)?;
            return Err(second(true, "statement on envelopes", Attribution::Server(server)));
        }
        self.checked.insert(server, checked);
        Ok(server)
    }

    pub(super) fn answer(&mut self, answer: Answer) -> Result<(ClientId, ServerId), Void> {
        self.expect(
            matches!(self.phase, Phase::Checking),
            "answers count between the end of posts and the close",
        )?;
        let (client, server) = (answer.client(), answer.server());
        let (key, post) = self.posts.get(&client).ok_or(Void::UnknownClient { client })?;
        if !self.complains(server, client) {
            return Err(Void::AnswerToNothing { server, client });
        }
        match verify_answer(&self.params, &self.id, key, post, &answer) {
            // A bad opening is the client's answer all the same: the first that it signed decides.
            Ok(_) | Err(AnswerFault::BadOpening { .. }) => {}
            Err(fault) => return Err(Void::Answer(fault)),
        }
        if self.answered(client, server) {
            return Err(second(true, "answer", Attribution::Nobody));
        }
        self.answers.push(answer);
        Ok((client, server))
    }

    pub(super) fn may_expel(&self, client: ClientId) -> Result<(), Void> {
        let open = matches!(self.phase, Phase::Collecting | Phase::Checking);
        self.expect(open, "clients are expelled before the close")?;
        if !self.posts.contains_key(&client) {
            return Err(Void::UnknownClient { client });
        }
        if self.expelled.contains_key(&client) {
            return Err(second(true, "expulsion", Attribution::Nobody));
        }
        Ok(())
    }

    pub(super) fn expel(&mut self, client: ClientId, evidence: [u8; 32]) {
        self.expelled.insert(client, evidence);
    }

    pub(super) fn close(
        &mut self,
        epoch: &EpochState,
        close: &RoundClose,
        (at, hash): (u64, [u8; 32]),
    ) -> Result<(), Void> {
        let (closed, out) = self.may_close(epoch)?;
        let (expected, expected_posts, expected_clients) =
            (closed.set.digest(), closed.posts, closed.set.count());
        let (found, found_posts, found_clients) = (close.set, close.posts, close.clients);
        if (found, found_posts, found_clients) != (expected, expected_posts, expected_clients) {
            return Err(Void::BadClose {
                expected_clients,
                found_clients,
                expected,
                found,
                expected_posts,
                found_posts,
            });
        }
        self.phase = Phase::Closed(Closed { at, hash, ..closed });
        self.out = out;
        Ok(())
    }

    pub(super) fn abort(&mut self, reason: AbortReason) -> Result<(), Void> {
        let open = matches!(self.phase, Phase::Collecting | Phase::Checking);
        self.expect(open, "a round is called off before the close only")?;
        self.phase = Phase::Aborted(reason);
        Ok(())
    }

    fn settled(&self, set: SetDigest, posts: PostsDigest, lanes: bool) -> Result<&Closed, Void> {
        let closed = self.closed();
        self.expect(closed.is_some(), "sums and results follow the close")?;
        let closed = closed.expect("checked in the line before");
        let expected_posts = if lanes { closed.lane_posts.unwrap_or(closed.posts) } else { closed.posts };
        let expected = closed.set.digest();
        if (set, posts) == (expected, expected_posts) {
            return Ok(closed);
        }
        Err(Void::OtherSet { expected, found: set, expected_posts, found_posts: posts })
    }

    fn expect_context(&self, found: &StatementContext) -> Result<(), Void> {
        let expected = StatementContext::new(&self.params, &self.id);
        let what = if found.deployment != expected.deployment {
            "deployment"
        } else if found.epoch != expected.epoch {
            "epoch"
        } else if found.crs != expected.crs {
            "digest of the public parameters"
        } else {
            return Ok(());
        };
        Err(Void::OtherContext { what })
    }

    pub(super) fn server_sum(&mut self, epoch: &EpochState, sum: SignedSumClaim) -> Result<ServerId, Void> {
        let claim = *sum.claim();
        let server = claim.server;
        let known = epoch.plan().document.server(server).ok_or(Void::UnknownServer { server })?;
        sum.verify_signature(&known.identity).map_err(|source| Void::Signature { what: "sum", source })?;
        let (deployment, session) = (claim.deployment, claim.session);
        self.expect_context(&StatementContext { deployment, session, epoch: claim.epoch, crs: claim.crs })?;
        if let Some(first) = self.server_sums.get(&server) {
            return Err(second(first.says_the_same(&sum), "sum", Attribution::Server(server)));
        }
        self.settled(claim.set, claim.posts, false)?;
        self.server_sums.insert(server, sum);
        Ok(server)
    }

    pub(super) fn lane_sum(&mut self, epoch: &EpochState, sum: SignedLaneClaim) -> Result<NodeId, Void> {
        let claim = *sum.claim();
        let lane = claim.lane;
        let key = epoch.plan().document.lane(lane).ok_or(Void::UnknownLane { lane })?;
        sum.verify_signature(key).map_err(|source| Void::Signature { what: "sum", source })?;
        let (deployment, session) = (claim.deployment, claim.session);
        self.expect_context(&StatementContext { deployment, session, epoch: claim.epoch, crs: claim.crs })?;
        if claim.purpose != LanePurpose::Close {
            return Err(Void::LanePurpose { lane });
        }
        if let Some(first) = self.lane_sums.get(&lane) {
            return Err(second(first.says_the_same(&sum), "sum", Attribution::Lane(lane)));
        }
        self.settled(claim.set, claim.posts, true)?;
        self.lane_sums.insert(lane, sum);
        Ok(lane)
    }

    pub(super) fn group_sum(
        &mut self,
        epoch: &EpochState,
        sum: SignedGroupClaim,
    ) -> Result<AggregatorId, Void> {
        let claim = sum.claim();
        let aggregator = claim.aggregator;
        let key =
            epoch.plan().document.aggregator(aggregator).ok_or(Void::UnknownAggregator { aggregator })?;
        sum.verify_signature(key).map_err(|source| Void::Signature { what: "sum", source })?;
        let (deployment, session) = (claim.deployment, claim.session);
        self.expect_context(&StatementContext { deployment, session, epoch: claim.epoch, crs: claim.crs })?;
        if let Some(first) = self.group_sums.get(&aggregator) {
            // Over other clients or statements a second sum is no lie: whoever has the posts can compute it.
            let lie = first.claim() == claim;
            let who = if lie { Attribution::Aggregator(aggregator) } else { Attribution::Nobody };
            return Err(second(first.says_the_same(&sum), "sum", who));
        }
        self.expect(self.closed().is_some(), "sums and results follow the close")?;
        for (&client, digest) in &claim.members {
            let counts = self.closed().is_some_and(|closed| closed.set.contains(client));
            if !counts || self.posts[&client].1.statement().digest() != *digest {
                return Err(Void::GroupMember { aggregator, client });
            }
            let covering = self.group_sums.iter().find(|(_, sum)| sum.claim().members.contains_key(&client));
            if let Some((&first, _)) = covering {
                return Err(Void::GroupOverlap { aggregator, client, first });
            }
        }
        self.group_sums.insert(aggregator, sum);
        Ok(aggregator)
    }

    pub(super) fn result_of(&mut self, epoch: &EpochState, signed: &Signed<RoundResult>) -> Result<(), Void> {
        let result = signed.claim();
        if !epoch.plan().recipients.iter().any(|key| signed.verify(key).is_ok()) {
            return Err(Void::UnknownRecipient);
        }
        let (deployment, session) = (result.deployment, result.session);
        self.expect_context(&StatementContext { deployment, session, epoch: result.epoch, crs: result.crs })?;
        if let Some(first) = &self.result {
            return Err(second(first == result, "result", Attribution::Nobody));
        }
        self.settled(result.set, result.posts, false)?;
        self.result = Some(result.clone());
        Ok(())
    }
}

const fn second(same: bool, what: &'static str, who: Attribution) -> Void {
    if same { Void::SecondSame { what, who } } else { Void::SecondDiffers { what, who } }
}
