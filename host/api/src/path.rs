//! Paths of the HTTP interface: one type, one text form each, one parser.
//!
//! ```text
//! /v1/rounds  /v1/rounds/R  /v1/rounds/R/{announcement,canonical,closing,evidence,openings,result,abort}
//! /v1/rounds/R/{openings,posts,shares}/CLIENT  /v1/rounds/R/answers/SERVER/CLIENT
//! /v1/rounds/R/{checked,sums}/SERVER  /v1/rounds/R/lane-sums/NODE  /v1/rounds/R/groups/AGGREGATOR
//! /v1/admissions/CLIENT  /v1/blobs/blake3/HEX  /v1/wait  /v1/leaves  /v1/cosign  /v1/cosignatures/SIZE
//! /log/checkpoint  /log/tile/…  /add-checkpoint
//! ```
//! Nothing is percent-decoded: no path of ours has a character that needs it, so there is one spelling of each.

use crate::leaf::RoundId;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, NodeId, ServerId};
use panetiere::sig::VerifyingKey;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;
use tlog::tile::Resource;

/// Bytes of a path and its query at most. The longest of ours is below 200.
pub const MAX_PATH: usize = 512;

macro_rules! hex_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = PathError;

            fn from_str(text: &str) -> Result<Self, PathError> {
                let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok();
                bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(PathError::Unknown)
            }
        }
    };
}

hex_name! {
    /// A client's name in paths: SHA-256 of its public key as SPKI DER. Written as 64 lower-case hex digits.
    ClientKeyId
}

impl ClientKeyId {
    /// The name of the client with this key.
    pub fn of(key: &VerifyingKey) -> Self {
        Self(Sha256::digest(key.to_spki()).into())
    }
}

hex_name! {
    /// The name of a body that lies beside the log: its BLAKE3 digest. Written as 64 lower-case hex digits.
    BlobId
}

/// A path or query that names nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A query with a key that the resource does not know, twice the same key, or a value in another form.
    #[error("the query has a key or value that this resource does not know")]
    Query,
    /// Longer than any path of ours.
    #[error("a path and its query have at most {MAX_PATH} bytes, this one has {0}")]
    TooLong(usize),
    /// No resource stands there.
    #[error("there is no resource of this name")]
    Unknown,
}

impl Fault for PathError {
    fn code(&self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::TooLong(_) => "path_too_long",
            Self::Unknown => "not_found",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// What a path names. Which methods it takes, and on which plane, is the daemons' matter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// Calls a round off.
    Abort(RoundId),
    /// A witness is given a checkpoint (C2SP tlog-witness).
    AddCheckpoint,
    /// A client's admission.
    Admission(ClientKeyId),
    /// The leaf that opened a round, with its proof.
    Announcement(RoundId),
    /// A client's answer to a server's complaint.
    Answer(RoundId, ServerId, ClientKeyId),
    /// A body by its digest.
    Blob(BlobId),
    /// Who is in a round's sum, with its proof.
    Canonical(RoundId),
    /// A server has checked its envelopes.
    Checked(RoundId, ServerId),
    /// The checkpoint with a quorum of cosignatures that covers a round's close.
    Closing(RoundId),
    /// The checkpoint that is to be cosigned now, as a request to a witness (C2SP tlog-witness).
    Cosign,
    /// Cosignatures of the checkpoint of this size.
    Cosignatures(u64),
    /// What convicts a party of a round.
    Evidence(RoundId),
    /// An aggregator's sum.
    GroupSum(RoundId, AggregatorId),
    /// A lane's sum.
    LaneSum(RoundId, NodeId),
    /// A range of the log's entries.
    Leaves,
    /// The log's latest signed checkpoint.
    LogCheckpoint,
    /// A tile or bundle of the log.
    LogTile(Resource),
    /// A client's envelopes, for all servers.
    Openings(RoundId, ClientKeyId),
    /// A client's post.
    Post(RoundId, ClientKeyId),
    /// What came out of a round.
    Result(RoundId),
    /// A round as people see it.
    Round(RoundId),
    /// The latest rounds.
    Rounds,
    /// The envelopes of a round for one server, as one stream.
    ServerOpenings(RoundId),
    /// A server's sum.
    ServerSum(RoundId, ServerId),
    /// A client's share for one lane.
    Share(RoundId, ClientKeyId),
    /// The next checkpoint that is larger than a size.
    Wait,
}

/// A decimal number in its one spelling.
fn number(text: &str) -> Result<u64, PathError> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text).ok_or(PathError::Unknown)
}

fn id<T: FromStr>(text: &str) -> Result<T, PathError> {
    text.parse().map_err(|_| PathError::Unknown)
}

impl FromStr for Path {
    type Err = PathError;

    /// Reads a path as [`Display`](fmt::Display) writes it, without its query.
    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong(text.len()));
        }
        let rest = text.strip_prefix('/').ok_or(PathError::Unknown)?;
        if let Some(tile) = rest.strip_prefix("log/")
            && tile.starts_with("tile/")
        {
            return tile.parse().map(Self::LogTile).map_err(|_| PathError::Unknown);
        }
        let segments: Vec<&str> = rest.split('/').collect();
        Ok(match *segments.as_slice() {
            ["add-checkpoint"] => Self::AddCheckpoint,
            ["log", "checkpoint"] => Self::LogCheckpoint,
            ["v1", "admissions", client] => Self::Admission(id(client)?),
            ["v1", "blobs", "blake3", digest] => Self::Blob(id(digest)?),
            ["v1", "cosign"] => Self::Cosign,
            ["v1", "cosignatures", size] => Self::Cosignatures(number(size)?),
            ["v1", "leaves"] => Self::Leaves,
            ["v1", "rounds"] => Self::Rounds,
            ["v1", "rounds", round] => Self::Round(id(round)?),
            ["v1", "rounds", round, "abort"] => Self::Abort(id(round)?),
            ["v1", "rounds", round, "announcement"] => Self::Announcement(id(round)?),
            ["v1", "rounds", round, "answers", server, client] => {
                Self::Answer(id(round)?, id(server)?, id(client)?)
            }
            ["v1", "rounds", round, "canonical"] => Self::Canonical(id(round)?),
            ["v1", "rounds", round, "checked", server] => Self::Checked(id(round)?, id(server)?),
            ["v1", "rounds", round, "closing"] => Self::Closing(id(round)?),
            ["v1", "rounds", round, "evidence"] => Self::Evidence(id(round)?),
            ["v1", "rounds", round, "groups", group] => Self::GroupSum(id(round)?, id(group)?),
            ["v1", "rounds", round, "lane-sums", node] => Self::LaneSum(id(round)?, id(node)?),
            ["v1", "rounds", round, "openings"] => Self::ServerOpenings(id(round)?),
            ["v1", "rounds", round, "openings", client] => Self::Openings(id(round)?, id(client)?),
            ["v1", "rounds", round, "posts", client] => Self::Post(id(round)?, id(client)?),
            ["v1", "rounds", round, "result"] => Self::Result(id(round)?),
            ["v1", "rounds", round, "shares", client] => Self::Share(id(round)?, id(client)?),
            ["v1", "rounds", round, "sums", server] => Self::ServerSum(id(round)?, id(server)?),
            ["v1", "wait"] => Self::Wait,
            _ => return Err(PathError::Unknown),
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abort(round) => write!(f, "/v1/rounds/{round}/abort"),
            Self::AddCheckpoint => f.write_str("/add-checkpoint"),
            Self::Admission(client) => write!(f, "/v1/admissions/{client}"),
            Self::Announcement(round) => write!(f, "/v1/rounds/{round}/announcement"),
            Self::Answer(round, server, client) => write!(f, "/v1/rounds/{round}/answers/{server}/{client}"),
            Self::Blob(digest) => write!(f, "/v1/blobs/blake3/{digest}"),
            Self::Canonical(round) => write!(f, "/v1/rounds/{round}/canonical"),
            Self::Checked(round, server) => write!(f, "/v1/rounds/{round}/checked/{server}"),
            Self::Closing(round) => write!(f, "/v1/rounds/{round}/closing"),
            Self::Cosign => f.write_str("/v1/cosign"),
            Self::Cosignatures(size) => write!(f, "/v1/cosignatures/{size}"),
            Self::Evidence(round) => write!(f, "/v1/rounds/{round}/evidence"),
            Self::GroupSum(round, group) => write!(f, "/v1/rounds/{round}/groups/{group}"),
            Self::LaneSum(round, node) => write!(f, "/v1/rounds/{round}/lane-sums/{node}"),
            Self::Leaves => f.write_str("/v1/leaves"),
            Self::LogCheckpoint => f.write_str("/log/checkpoint"),
            Self::LogTile(resource) => write!(f, "/log/{resource}"),
            Self::Openings(round, client) => write!(f, "/v1/rounds/{round}/openings/{client}"),
            Self::Post(round, client) => write!(f, "/v1/rounds/{round}/posts/{client}"),
            Self::Result(round) => write!(f, "/v1/rounds/{round}/result"),
            Self::Round(round) => write!(f, "/v1/rounds/{round}"),
            Self::Rounds => f.write_str("/v1/rounds"),
            Self::ServerOpenings(round) => write!(f, "/v1/rounds/{round}/openings"),
            Self::ServerSum(round, server) => write!(f, "/v1/rounds/{round}/sums/{server}"),
            Self::Share(round, client) => write!(f, "/v1/rounds/{round}/shares/{client}"),
            Self::Wait => f.write_str("/v1/wait"),
        }
    }
}

/// The values of a query: every key known, none twice, every value a decimal number.
///
/// Returns one value for each of `keys`, `None` where the query has none.
///
/// # Errors
/// `Query` for anything else.
pub fn query<const N: usize>(text: Option<&str>, keys: [&str; N]) -> Result<[Option<u64>; N], PathError> {
    let mut values = [None; N];
    for pair in text.filter(|text| !text.is_empty()).into_iter().flat_map(|text| text.split('&')) {
        let (key, value) = pair.split_once('=').ok_or(PathError::Query)?;
        let position = keys.iter().position(|known| *known == key).ok_or(PathError::Query)?;
        let number = number(value).map_err(|_| PathError::Query)?;
        if values[position].replace(number).is_some() {
            return Err(PathError::Query);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(&'static str, Path)> {
        let (r, c) = (RoundId(7), ClientKeyId([0xab; 32]));
        vec![
            ("/add-checkpoint", Path::AddCheckpoint),
            ("/log/checkpoint", Path::LogCheckpoint),
            ("/log/tile/0/x001/234.p/5", Path::LogTile("tile/0/x001/234.p/5".parse().unwrap())),
            ("/log/tile/entries/000", Path::LogTile("tile/entries/000".parse().unwrap())),
            ("/v1/admissions/CLIENT", Path::Admission(c)),
            ("/v1/blobs/blake3/CLIENT", Path::Blob(BlobId([0xab; 32]))),
            ("/v1/rounds", Path::Rounds),
            ("/v1/rounds/7", Path::Round(r)),
            ("/v1/rounds/7/abort", Path::Abort(r)),
            ("/v1/rounds/7/announcement", Path::Announcement(r)),
            ("/v1/rounds/7/answers/3/CLIENT", Path::Answer(r, ServerId(3), c)),
            ("/v1/rounds/7/canonical", Path::Canonical(r)),
            ("/v1/rounds/7/checked/3", Path::Checked(r, ServerId(3))),
            ("/v1/cosign", Path::Cosign),
            ("/v1/cosignatures/0", Path::Cosignatures(0)),
            ("/v1/leaves", Path::Leaves),
            ("/v1/rounds/7/closing", Path::Closing(r)),
            ("/v1/rounds/7/evidence", Path::Evidence(r)),
            ("/v1/rounds/7/groups/2", Path::GroupSum(r, AggregatorId(2))),
            ("/v1/rounds/7/lane-sums/1", Path::LaneSum(r, NodeId(1))),
            ("/v1/rounds/7/openings", Path::ServerOpenings(r)),
            ("/v1/rounds/7/openings/CLIENT", Path::Openings(r, c)),
            ("/v1/rounds/7/posts/CLIENT", Path::Post(r, c)),
            ("/v1/rounds/7/result", Path::Result(r)),
            ("/v1/rounds/7/shares/CLIENT", Path::Share(r, c)),
            ("/v1/rounds/7/sums/3", Path::ServerSum(r, ServerId(3))),
            ("/v1/wait", Path::Wait),
        ]
    }

    #[test]
    fn every_path_has_the_documented_text_and_reads_back() {
        let client = "ab".repeat(32);
        for (text, path) in all() {
            let text = text.replace("CLIENT", &client);
            assert_eq!(path.to_string(), text);
            assert_eq!(text.parse(), Ok(path), "{text}");
            // Every other spelling of it names nothing.
            for other in [
                format!("{text}/"),
                format!("/{text}"),
                text.replace("/v1", "/v2"),
                text.replacen('/', "", 1),
            ] {
                assert!(other == text || other.parse::<Path>().is_err(), "{other}");
            }
        }
    }

    #[test]
    fn what_names_nothing_is_unknown() {
        let upper = "AB".repeat(32);
        for text in [
            "",
            "/",
            "v1/rounds",
            "/v1/rounds/",
            "/v1/rounds/0",
            "/v1/rounds/07",
            "/v1/rounds/+7",
            "/v1/rounds/18446744073709551616",
            "/v1/rounds/7/sums/65536",
            "/v1/rounds/7/sums",
            "/v1/rounds/%37",
            "/v1/cosignatures/01",
            "/v1/cosignatures/",
            "/v1/../v1/rounds",
            "/log/tile/0/1",
            "/log/tile/64/000",
            &format!("/v1/admissions/{upper}"),
            &format!("/v1/admissions/{}", "ab".repeat(31)),
        ] {
            assert_eq!(text.parse::<Path>(), Err(PathError::Unknown), "{text}");
        }
        let long = format!("/{}", "a".repeat(MAX_PATH));
        assert_eq!(long.parse::<Path>(), Err(PathError::TooLong(MAX_PATH + 1)));
    }

    #[test]
    fn queries_are_exact() {
        let keys = ["size", "ms"];
        assert_eq!(query(None, keys), Ok([None, None]));
        assert_eq!(query(Some(""), keys), Ok([None, None]));
        assert_eq!(query(Some("ms=30&size=0"), keys), Ok([Some(0), Some(30)]));
        for bad in [
            "ms",
            "ms=",
            "ms=1&ms=1",
            "ms=1&",
            "&ms=1",
            "ms=01",
            "ms=-1",
            "other=1",
            "ms=1&other=2",
            "ms=%31",
        ] {
            assert_eq!(query(Some(bad), keys), Err(PathError::Query), "{bad}");
        }
    }
}
