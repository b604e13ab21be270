//! The round: parameters, the client's part, the server's part, verification, recovery.

mod aggregator;
mod answer_guard;
mod answers;
mod bisection;
mod client;
mod client_rs;
mod complaint;
mod delivery;
mod group;
mod judge;
mod lane;
mod lane_item;
mod lane_params;
mod lane_verify;
mod params;
mod policy;
mod post_sum;
mod recipient;
mod recipient_aggregated;
mod recipient_rs;
mod recovery;
mod server;
mod terms;
mod verify;

pub use aggregator::{AggregatorIdentity, AggregatorRound, AggregatorRoundError, run_aggregator_round};
pub use answer_guard::{AnswerGuard, GuardError, Standing};
pub use answers::{AnswerKind, AnswerLog, AnswerLogError, AnswerSlot, MemoryAnswers};
pub use bisection::{Bisection, BisectionError, CodewordVerdict, NextStep};
pub use client::{
    ClientRound, ClientRoundError, cs_commit, kahe_encrypt, kahe_keygen, run_client_round,
    run_client_round_with_openings, seal_openings, shamir_share,
};
pub use client_rs::{
    ItemMemory, RsClientRound, code_ciphertext, code_ciphertext_in, run_client_round_rs,
    run_client_round_rs_with_openings,
};
pub use complaint::{
    AnswerFault, CheckedFault, CheckedSet, Exclusion, NoComplaint, compare_checked, complain, set_rule,
    verify_answer, verify_checked, verify_complaint,
};
pub(crate) use group::check_group_context;
pub use group::{GroupFault, PostSource, SumPart, verify_group_sum};
pub use lane::{ItemSource, LaneIdentity, LaneRound, LaneRoundError, run_rs_node_round};
pub use lane_item::{ItemFault, RebuildError, VerifiedItem, rebuild_item, verify_item};
pub use lane_params::{LaneCode, LaneShape, LaneWireSizes, lane_wire_sizes};
pub use lane_verify::{LanePlace, LaneVerifyError, verify_lane_sum};
pub use params::{
    Deployment, Dimensions, ProtocolParams, RoundWireSizes, SetupError, SetupWarning, message_polys,
    round_wire_sizes, zero_message,
};
pub use policy::SetPolicy;
pub use post_sum::{IncomingPost, PostFault, PostSum};
pub use recipient::{
    Culprit, LaneCulprit, RecipientError, Recovered, RejectReason, aggregate_and_decrypt,
    aggregate_and_decrypt_timed, decrypt_aggregate, recover_direct, recover_once,
};
pub use recipient_aggregated::{
    AggregatorCulprit, Audit, NotRecovered, RecoveredAggregated, recover_aggregated,
};
pub use recipient_rs::{RecoveredRs, RsPosts, aggregate_and_decrypt_rs, decrypt_aggregate_rs};
pub use server::{
    EnvelopeFault, ServerIdentity, ServerRound, ServerRoundError, run_server_round, unseal_opening,
    unseal_openings,
};
pub(crate) use terms::RoundShape;
pub use terms::Terms;
pub use verify::{Phase, VerifyError, verify_server_sum};
