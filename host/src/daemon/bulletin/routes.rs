//! What the bulletin's two planes serve.

use super::Service;
use crate::net::{Answer, BodyRule, Call, Handler, Principal, Resource, Role, Rule};
use crate::round::{Phase, Record, Session};
use http::{Method, StatusCode};
use panetiere::bulletin::Mode;
use panetiere::protocol::ProtocolParams;
use panetiere_api::leaf::{MAX_LEAF, RoundId};
use panetiere_api::limits::{MAX_EVIDENCE_BYTES, MAX_OPERATOR_BYTES, MAX_SMALL_BYTES, RoundLimits};
use panetiere_api::media::MediaType;
use panetiere_api::path::{Path, PathError, query};
use panetiere_api::problem::{Code, Problem};
use std::sync::Arc;

/// A plane.
pub(super) struct Routes {
    pub(super) service: Arc<Service>,
    /// Whether it is the parties' own.
    pub(super) operator: bool,
}

/// A resource and the numbers of its query.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) path: Path,
    pub(super) query: [Option<u64>; 2],
}

fn keys(path: &Path) -> [&'static str; 2] {
    match path {
        Path::Wait | Path::Cosign => ["size", "ms"],
        Path::Leaves | Path::ServerOpenings(_) => ["from", "to"],
        Path::Rounds => ["limit", "before"],
        Path::Closing(_) => ["ms", ""],
        _ => ["", ""],
    }
}

fn path_problem(error: &PathError) -> Problem {
    let status = match error {
        PathError::Unknown => StatusCode::NOT_FOUND,
        PathError::TooLong(_) => StatusCode::URI_TOO_LONG,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::of(error, status).with_detail(error.to_string())
}

/// A round that is none of the latest, or not open yet.
fn unknown(record: &Record, round: RoundId) -> Problem {
    if round < record.next_round() {
        let problem = Problem::new("round_over", StatusCode::GONE, "The round is over");
        return problem.with_detail(format!("round {round} is none of the latest"));
    }
    let problem = Problem::new("round_not_open", StatusCode::TOO_EARLY, "The round is not open yet");
    let next = record.next_round();
    problem.with_detail(format!("round {next} is opened next, round {round} was named")).with_retry_after(1)
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).expect("usize has at most 64 bits")
}

/// Clients of a closed round; of one that is not, as many as there may be: its sums are refused later.
fn clients(session: &Session) -> u32 {
    session.closed().map_or_else(|| session.params().max_clients(), |closed| closed.set.count())
}

/// Bytes of a result at most: the leaf, then every client's message with its length.
fn longest_result(record: &Record, session: &Session) -> u64 {
    let terms = record.epoch_of(session.epoch()).map(|epoch| &epoch.plan().terms);
    let message = terms.map_or(0, |terms| terms.channel().max_message_bytes());
    MAX_OPERATOR_BYTES + u64::from(clients(session)) * (bytes(message) + 8)
}

impl Routes {
    fn put_rule(&self, path: &Path) -> Result<Option<BodyRule>, Problem> {
        let at_most = |media, max| Some(BodyRule::AtMost { media, max });
        let exact = |media, len| Some(BodyRule::Exact { media, len });
        let of = |round: RoundId, rule: &dyn Fn(&Record, &Session, &ProtocolParams) -> Option<BodyRule>| {
            self.service.bulletin.with_record(|record| match record.round(round) {
                Some(session) => Ok(rule(record, session, session.params())),
                None => Err(unknown(record, round)),
            })
        };
        if !self.operator {
            return match *path {
                Path::Admission(_) => Ok(at_most(MediaType::Admission, MAX_SMALL_BYTES)),
                Path::Answer(round, ..) => {
                    of(round, &|_, _, params| exact(MediaType::Answer, RoundLimits::from(params).answer))
                }
                Path::Openings(round, _) => {
                    of(round, &|_, _, params| exact(MediaType::Openings, RoundLimits::from(params).openings))
                }
                Path::Post(round, _) => of(round, &|_, _, params| {
                    let media =
                        if params.mode() == Mode::Direct { MediaType::Post } else { MediaType::RsPost };
                    exact(media, RoundLimits::from(params).post)
                }),
                _ => Ok(None),
            };
        }
        match *path {
            Path::Checked(..) => Ok(at_most(MediaType::Checked, bytes(MAX_LEAF))),
            Path::Cosignatures(_) => Ok(at_most(MediaType::Text, MAX_SMALL_BYTES)),
            Path::Evidence(_) => Ok(at_most(MediaType::Evidence, MAX_EVIDENCE_BYTES)),
            Path::GroupSum(round, _) => of(round, &|_, session, params| {
                let members = usize::try_from(clients(session)).expect("usize has at least 32 bits");
                at_most(MediaType::GroupSum, RoundLimits::group_sum(params, members))
            }),
            Path::LaneSum(round, _) => of(round, &|_, session, params| {
                exact(MediaType::LaneSum, RoundLimits::lane_sum(params, clients(session))?)
            }),
            Path::Result(round) => {
                of(round, &|record, session, _| at_most(MediaType::Result, longest_result(record, session)))
            }
            Path::ServerSum(round, _) => of(round, &|_, session, params| {
                exact(MediaType::ServerSum, RoundLimits::server_sum(params, clients(session)))
            }),
            _ => Ok(None),
        }
    }

    fn is_read(&self, path: &Path) -> bool {
        match path {
            Path::Blob(_)
            | Path::Closing(_)
            | Path::GroupSum(..)
            | Path::LaneSum(..)
            | Path::Leaves
            | Path::LogCheckpoint
            | Path::LogTile(_)
            | Path::Post(..)
            | Path::Result(_)
            | Path::Round(_)
            | Path::Rounds
            | Path::ServerSum(..)
            | Path::Wait => true,
            Path::Cosign | Path::ServerOpenings(_) => self.operator,
            _ => false,
        }
    }

    /// Whether the round is where such a body belongs: told before it is sent.
    fn belongs(&self, path: &Path) -> Result<(), Problem> {
        let (Path::Openings(round, _) | Path::Post(round, _)) = *path else { return Ok(()) };
        self.service.bulletin.with_record(|record| {
            let session = record.round(round).ok_or_else(|| unknown(record, round))?;
            // A post that was taken is asked for its receipt again.
            if matches!(session.phase(), Phase::Collecting) || matches!(*path, Path::Post(..)) {
                return Ok(());
            }
            let problem = Problem::new("round_over", StatusCode::GONE, "The round is over");
            Err(problem.with_detail(format!("round {round} takes no more envelopes")))
        })
    }
}

/// Who may write what.
fn may(path: &Path, role: Role) -> bool {
    match (path, role) {
        (Path::Checked(_, server) | Path::ServerSum(_, server), Role::Server(id)) => *server == id,
        (Path::LaneSum(_, lane), Role::Lane(id)) => *lane == id,
        (Path::GroupSum(_, group), Role::Aggregator(id)) => *group == id,
        (Path::Result(_), role) => role == Role::Recipient,
        (Path::Cosign | Path::Cosignatures(_), role) => matches!(role, Role::Server(_) | Role::Witness),
        (Path::ServerOpenings(_), role) => matches!(role, Role::Server(_)),
        (Path::Evidence(_), _) => true,
        _ => false,
    }
}

impl Handler for Routes {
    type Route = Route;

    fn resource(&self, path: &str, asked: Option<&str>) -> Result<Resource<Route>, Problem> {
        let path: Path = path.parse().map_err(|error| path_problem(&error))?;
        let query = query(asked, keys(&path)).map_err(|error| path_problem(&error))?;
        let mut rules = Vec::new();
        if self.is_read(&path) {
            rules.push(Rule::GET);
        }
        match self.put_rule(&path) {
            Ok(rule) => rules.extend(rule.map(Rule::put)),
            // What can be read of a round that takes nothing is read.
            Err(problem) if rules.is_empty() => return Err(problem),
            Err(_) => {}
        }
        if rules.is_empty() {
            return Err(Code::NotFound.into());
        }
        Ok(Resource { route: Route { path, query }, rules })
    }

    fn admit(&self, route: &Route, method: &Method, principal: Option<&Principal>) -> Result<(), Problem> {
        let guarded = *method != Method::GET || matches!(route.path, Path::Cosign | Path::ServerOpenings(_));
        if self.operator && guarded && !principal.is_some_and(|party| may(&route.path, party.role)) {
            return Err(Code::Forbidden.into());
        }
        if *method == Method::GET { Ok(()) } else { self.belongs(&route.path) }
    }

    async fn handle(&self, call: Call<Route>) -> Result<Answer, Problem> {
        if call.method == Method::GET { self.service.get(call).await } else { self.service.put(call).await }
    }
}
