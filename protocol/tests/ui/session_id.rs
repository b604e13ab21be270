//! A session id is a position in a log: nobody makes one up.

use panetiere::ids::SessionId;

fn main() {
    let _ = SessionId([0; 32]);
    let _ = SessionId::from_digest([0; 32]);
    let _ = SessionId::from([0; 32]);
    let _ = SessionId::default();
}
