//! What this machine does per second at work everybody knows, so that figures of two machines can be compared.

use sha2::{Digest, Sha256};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BLOCK: usize = 16 << 10;
const BATCHES: usize = 40;
const BLOCKS_PER_BATCH: u32 = 64;

/// GB/s of SHA-256 and AES-256-GCM over 16 KiB blocks, one thread: by our crates, and by `openssl speed` if installed.
pub(super) fn measure() -> serde_json::Value {
    let mut block = vec![0x5A; BLOCK];
    let sha256 = best(|| {
        black_box(Sha256::digest(black_box(&block)));
    });
    let aes256gcm = best(|| {
        black_box(panetiere::pke::steps::encrypt(&[7; 32], &[9; 12], b"", black_box(&mut block)));
    });
    serde_json::json!({
        "sha256_gb_s": sha256,
        "aes256gcm_gb_s": aes256gcm,
        "openssl_sha256_gb_s": openssl("sha256"),
        "openssl_aes256gcm_gb_s": openssl("aes-256-gcm"),
    })
}

/// The fastest of some batches, in GB/s.
fn best(mut work: impl FnMut()) -> f64 {
    let mut batch = || {
        let started = Instant::now();
        (0..BLOCKS_PER_BATCH).for_each(|_| work());
        started.elapsed()
    };
    let fastest = (0..BATCHES).map(|_| batch()).min().unwrap_or(Duration::MAX);
    let bytes = f64::from(u32::try_from(BLOCK).expect("16 KiB")) * f64::from(BLOCKS_PER_BATCH);
    (bytes / fastest.as_secs_f64() / 1e6).round() / 1e3
}

/// GB/s by `openssl speed`, or nothing where it is not installed.
fn openssl(algorithm: &str) -> Option<f64> {
    let arguments = ["speed", "-mr", "-seconds", "1", "-bytes", "16384", "-evp", algorithm];
    let output = Command::new("openssl").args(arguments).stderr(Stdio::null()).output().ok()?;
    parse_openssl(&String::from_utf8_lossy(&output.stdout))
}

/// The last figure of the machine-readable line `+F:index:name:bytes/s`, in GB/s.
fn parse_openssl(text: &str) -> Option<f64> {
    let line = text.lines().rfind(|line| line.starts_with("+F:"))?;
    let bytes_per_second: f64 = line.rsplit(':').next()?.parse().ok()?;
    Some((bytes_per_second / 1e6).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_output_is_read() {
        let text = "+DT:sha256:1:16384\n+R:118000:sha256:1.000000\n+H:16384\n+F:25:sha256:1938000000.00\n";
        assert_eq!(parse_openssl(text), Some(1.938));
        assert_eq!(parse_openssl("speed: unknown algorithm"), None);
    }
}
