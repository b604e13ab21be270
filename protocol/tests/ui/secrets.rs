//! Nothing that holds a party's secrets can be cloned or compared.

use panetiere::cs::{FreshOpening, VerifiedOpening};
use panetiere::kahe::Key;
use panetiere::pke::PrivateKey;
use panetiere::protocol::{ServerIdentity, ServerRound};
use panetiere::sig::SigningKey;

fn cloned<T: Clone>() {}
fn compared<T: PartialEq>() {}

fn main() {
    cloned::<Key>();
    cloned::<FreshOpening>();
    cloned::<VerifiedOpening>();
    cloned::<PrivateKey>();
    cloned::<SigningKey>();
    cloned::<ServerIdentity>();
    cloned::<ServerRound>();
    compared::<Key>();
    compared::<FreshOpening>();
    compared::<PrivateKey>();
    compared::<SigningKey>();
}
