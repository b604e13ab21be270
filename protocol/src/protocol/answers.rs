//! What a party has answered, so that it answers one thing a session.
//!
//! Held in memory with its keys; the form that outlives a restart is the host's.

use crate::bulletin::{LaneClaim, SumClaim};
use crate::ids::{PostsDigest, SessionId, SetDigest};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a party signs over a canonical set.
pub(super) trait Claim: Copy + Eq {
    fn session(&self) -> SessionId;
    fn set(&self) -> SetDigest;
    fn posts(&self) -> PostsDigest;
}

macro_rules! claims {
    ($($claim:ty),*) => {$(
        impl Claim for $claim {
            fn session(&self) -> SessionId {
                self.session
            }

            fn set(&self) -> SetDigest {
                self.set
            }

            fn posts(&self) -> PostsDigest {
                self.posts
            }
        }
    )*};
}

claims!(LaneClaim, SumClaim);

/// The session has another answer.
pub(super) enum OtherAnswer {
    /// Over other posts of the same clients.
    Posts { answered: PostsDigest, asked: PostsDigest },
    /// Over other clients.
    Set { answered: SetDigest, asked: SetDigest },
}

/// The answers given so far.
#[derive(Debug)]
pub(super) struct Answers<C>(Mutex<BTreeMap<SessionId, C>>);

impl<C> Default for Answers<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Claim> Answers<C> {
    /// Takes down what is about to be answered, unless this session has another answer.
    pub fn commit(&self, claim: &C) -> Result<(), OtherAnswer> {
        // Nothing panics while the lock is held, and a poisoned map is still the truth about what was answered.
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = *answers.entry(claim.session()).or_insert(*claim);
        if answered.set() != claim.set() {
            return Err(OtherAnswer::Set { answered: answered.set(), asked: claim.set() });
        }
        if answered != *claim {
            return Err(OtherAnswer::Posts { answered: answered.posts(), asked: claim.posts() });
        }
        Ok(())
    }
}
