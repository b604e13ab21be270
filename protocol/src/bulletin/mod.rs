//! What the parties publish, and its bytes: epochs, posts, envelopes, server sums, canonical sets.

mod answer;
mod checked;
mod context;
mod delivery;
mod envelope;
mod epoch;
mod group_sum;
mod lane_item;
mod lane_sum;
mod post;
mod rs_post;
mod server_sum;
mod set;

pub use answer::Answer;
pub use checked::Checked;
pub use context::{ContextError, StatementContext};
pub use delivery::delivery_root;
pub(crate) use delivery::readdress;
pub use envelope::{Envelope, env_root};
pub use epoch::{Epoch, EpochError, EpochServer};
pub use group_sum::{GroupClaim, GroupSum, SignedGroupClaim};
pub use lane_item::LaneItem;
pub use lane_sum::{LaneBulletinEntry, LaneClaim, LanePurpose, SignedLaneClaim};
pub(crate) use post::ciphertext_digest;
pub use post::{
    ClientBulletinEntry, Mode, PostHead, PostStatement, PostView, SignedPost, StatementError, VerifiedPost,
};
pub use rs_post::RsClientBulletinEntry;
pub use server_sum::{ServerBulletinEntry, SignedSumClaim, SumClaim};
pub use set::{CanonicalSet, SetError, posts_digest};
