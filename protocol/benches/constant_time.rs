//! Whether a branch or an address depends on a secret: a client's work under valgrind's memcheck, with the message and
//! every byte of the random generator marked as undefined. Memcheck reports what depends on them.
//!
//! `cargo bench -p panetiere --features test-util,valgrind --bench constant_time` runs itself under valgrind for each
//! back-end that valgrind knows, the portable one and AVX2; it hides AVX-512, which this check does not cover. What is
//! published (ciphertext, root, envelopes) is marked public again where it leaves. The control branches on a secret,
//! so a check that sees nothing fails.

use anyhow::{Context, bail, ensure};
use chipmunk::ring::backend::Simd;
use chipmunk::ring::backend::secrecy::{errors, mark_public, mark_secret};
use panetiere::channel::{self, ChannelParams, Encoding, Placed};
use panetiere::codec::slots::Ticket;
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{cs_commit, kahe_encrypt, kahe_keygen, seal_openings, shamir_share};
use panetiere::testing::{Net, deployment};
use rand_chacha::ChaCha20Rng;
use rand_core::{Infallible, Rng, SeedableRng, TryCryptoRng, TryRng};
use std::hint::black_box;
use std::process::Command;

/// Sections of the check; each is reported by itself.
const PARTS: [&str; 5] = ["control", "encode", "encrypt", "share and commit", "seal"];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, simd] = arguments.as_slice()
        && flag == "--under-valgrind"
    {
        return rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| check(simd.parse()?));
    }
    ensure!(arguments.is_empty(), "no arguments are taken, got {arguments:?}");
    for simd in [Simd::Scalar, Simd::Avx2] {
        if !Simd::available().any(|available| available == simd) {
            println!("{simd}: skipped, this CPU does not run it");
            continue;
        }
        let output = Command::new("valgrind")
            .args([
                "--tool=memcheck",
                "--undef-value-errors=yes",
                "--leak-check=no",
                "--num-callers=5",
                "--quiet",
            ])
            .arg(std::env::current_exe()?)
            .args(["--under-valgrind", &simd.to_string()])
            .output()
            .context("valgrind does not start: install it (Debian: apt install valgrind)")?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            bail!("{simd} is not constant time:\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}

/// A generator whose every byte is secret.
struct Secret(ChaCha20Rng);

impl TryRng for Secret {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(out);
        mark_secret(out);
        Ok(())
    }
}

impl TryCryptoRng for Secret {}

/// Runs a part and says what memcheck found in it.
fn part<T>(simd: Simd, name: &str, work: impl FnOnce() -> T) -> (T, u64) {
    let before = errors();
    let result = work();
    let found = errors() - before;
    println!("{simd:<8} {name:<18} {found} reports");
    (result, found)
}

fn check(simd: Simd) -> anyhow::Result<()> {
    let net = deployment(1).servers(8).threshold(6).clients(2).polys(2).simd(simd).build();
    let mut rng = Secret(ChaCha20Rng::from_seed([1; 32]));

    let [control, encode, encrypt, share, seal] = PARTS;
    let ((), found) = part(simd, control, || {
        // The branch that must be seen.
        if rng.next_u32() & 1 == 0 {
            black_box(());
        }
    });
    ensure!(found > 0, "{simd}: a branch on a secret was not reported: is this running under valgrind?");

    let mut total = 0;
    let ((), found) = part(simd, encode, || encodings(simd, &net, &mut rng));
    total += found;

    let client = ClientId(0);
    let mut message: Vec<PlainPoly> = net.party(client).message.clone();
    for poly in &mut message {
        for coefficient in poly.coefficients_mut() {
            *coefficient = secret(*coefficient);
        }
    }
    let (key, found) = part(simd, encrypt, || {
        let key = kahe_keygen(&mut rng, &net.params);
        let ciphertext = kahe_encrypt(&mut rng, &net.params, &key, &message);
        black_box(&ciphertext);
        key
    });
    total += found;
    let ((commitment, openings), found) = part(simd, share, || {
        let shares = shamir_share(&mut rng, &net.params, &key);
        cs_commit(&mut rng, &net.params, &shares)
    });
    total += found;
    let root = commitment.digest(net.params.lattice());
    let (sealed, found) = part(simd, seal, || {
        let servers = net.epoch.envelope_keys();
        seal_openings(&mut rng, &net.params, &net.session(0), client, root, &openings, &servers)
    });
    black_box(&sealed);
    total += found;
    ensure!(total == 0, "{simd}: {total} branches or addresses depend on secrets");
    Ok(())
}

/// A message in each encoding.
fn encodings(simd: Simd, net: &Net, rng: &mut Secret) {
    let session = net.session(0);
    let mut payload = *b"a message of forty bytes, all of it secret";
    mark_secret(&mut payload);
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let params = ChannelParams::for_messages(encoding, 4, payload.len()).expect("a small channel");
        let params = params.with_kernels(simd.kernels());
        let _ = black_box(channel::encode_message(rng, &params, &session, &payload));
    }
    let slots = ChannelParams::for_messages(Encoding::Slots, 4, payload.len()).expect("a small channel");
    let ticket = Ticket::random(rng);
    let mut request = ticket.request(u32::try_from(payload.len()).expect("a short message"));
    let tickets = slots.ticket_channel().expect("slots have tickets").with_kernels(simd.kernels());
    let _ = black_box(channel::encode_message(rng, &tickets, &session, &request));
    // What comes out of the tickets' round is public; whose ticket is which is not.
    mark_public(&mut request);
    let others: Vec<Vec<u8>> = (1..3).map(|ticket| Ticket::new(ticket).request(8).to_vec()).collect();
    let scheduled = slots.with_tickets(&[others, vec![request.to_vec()]].concat()).expect("requests");
    // A slot for the whole message, one that is too short, and none.
    for (ticket, expected) in [
        (ticket, Placed::Sent),
        (Ticket::new(secret(1)), Placed::TooLong),
        (Ticket::new(secret(3)), Placed::NoSlot),
    ] {
        let filled = channel::encode_in_slot(&ticket, &scheduled, &session, &payload);
        let (vector, placed) = filled.expect("a schedule, and a message that slots have room for");
        black_box(vector);
        assert_eq!(placed, expected, "what the sender is told");
    }
}

/// The same number, secret.
fn secret(number: u64) -> u64 {
    let mut bytes = number.to_ne_bytes();
    mark_secret(&mut bytes);
    u64::from_ne_bytes(bytes)
}
