//! What is answered when the bulletin does not take something.

use crate::bulletin::{CosignError, Refused};
use crate::chain::chain;
use crate::net::compute::ComputeError;
use crate::round::Void;
use crate::store::StoreError;
use http::StatusCode;
use panetiere_api::problem::{Code, Problem};

/// Seconds after which to try again when there is as much to do as is taken on.
const RETRY_AFTER_S: u64 = 1;

fn of_store(error: &StoreError) -> StatusCode {
    match error {
        StoreError::Busy { .. } | StoreError::Stopped | StoreError::Poisoned { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        StoreError::BlobMismatch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        StoreError::KeyExists { .. } => StatusCode::CONFLICT,
        StoreError::Deleted { .. } => StatusCode::GONE,
        StoreError::NotFound | StoreError::UnknownCheckpoint { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn of_void(void: &Void) -> StatusCode {
    match void {
        Void::Phase { .. } => StatusCode::GONE,
        Void::SecondDiffers { .. } | Void::SecondSame { .. } | Void::DuplicateKey { .. } => {
            StatusCode::CONFLICT
        }
        Void::UnknownClient { .. } => StatusCode::FORBIDDEN,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// The status of a refusal.
fn status(error: &Refused) -> StatusCode {
    match error {
        Refused::Malformed(_) => StatusCode::BAD_REQUEST,
        Refused::Statement(_) => StatusCode::UNAUTHORIZED,
        Refused::NotAdmitted { .. } | Refused::OtherName | Refused::UnknownName => StatusCode::FORBIDDEN,
        Refused::UnknownRound { .. } => StatusCode::NOT_FOUND,
        Refused::NoEnvelopes { .. } | Refused::OtherOpenings { .. } | Refused::WitnessAhead { .. } => {
            StatusCode::CONFLICT
        }
        Refused::Read(error) if error.kind() == std::io::ErrorKind::NotFound => StatusCode::GONE,
        Refused::Read(_) | Refused::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        Refused::Store(error) => of_store(error),
        Refused::Void(void) => of_void(void),
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn finished(problem: Problem, status: StatusCode, detail: String) -> Problem {
    match status {
        // What went wrong inside is for the daemon's own log.
        StatusCode::INTERNAL_SERVER_ERROR => problem,
        StatusCode::SERVICE_UNAVAILABLE => problem.with_detail(detail).with_retry_after(RETRY_AFTER_S),
        _ => problem.with_detail(detail),
    }
}

/// The problem of a refusal.
pub(super) fn refused(error: &Refused) -> Problem {
    let status = status(error);
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::debug!(error = %chain(error), "refused by a fault of ours");
    }
    finished(Problem::of(error, status), status, chain(error))
}

/// The problem of the store.
pub(super) fn store(error: &StoreError) -> Problem {
    let status = of_store(error);
    finished(Problem::of(error, status), status, chain(error))
}

/// The problem of cosignatures.
pub(super) fn cosign(error: &CosignError) -> Problem {
    match error {
        CosignError::Keep(error) => refused(error),
        CosignError::Store(error) => store(error),
        error => Problem::of(error, StatusCode::UNPROCESSABLE_ENTITY).with_detail(chain(error)),
    }
}

/// The problem of a job that was not done.
pub(super) fn compute(error: &ComputeError) -> Problem {
    match error {
        ComputeError::Shed => Problem::from(Code::Shed).with_retry_after(RETRY_AFTER_S),
        _ => Problem::from(Code::Internal),
    }
}
