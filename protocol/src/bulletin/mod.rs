//! What the parties publish, and its bytes: epochs, posts, envelopes, server sums, canonical sets.

mod answer;
mod checked;
mod context;
mod envelope;
mod epoch;
mod group_sum;
mod post;
mod server_sum;
mod set;

pub use answer::Answer;
pub use checked::{Checked, Complaint};
pub use context::{ContextError, StatementContext};
pub use envelope::{Envelope, env_root};
pub use epoch::{Epoch, EpochError, EpochServer};
pub use group_sum::{GroupClaim, GroupSum};
pub(crate) use post::ciphertext_digest;
pub use post::{
    ClientBulletinEntry, Mode, PostHead, PostStatement, PostView, SignedPost, StatementError, VerifiedPost,
};
pub use server_sum::{ServerBulletinEntry, SumClaim};
pub use set::{CanonicalSet, SetError, posts_digest};
