//! The arithmetic back-end that the user's environment asks for.

use chipmunk::ring::backend::{Simd, UnavailableSimd};
use std::env;
use std::ffi::OsStr;

/// The environment variable that names the back-end.
pub const VARIABLE: &str = "PANETIERE_SIMD";

/// What the commands' help says about the environment.
pub(super) const HELP: &str = "Environment:\n  \
    PANETIERE_SIMD  Arithmetic back-end: scalar, avx2 or avx512; results are the same\n                  \
    [default: the fastest of this CPU]\n  \
    NO_COLOR        If not empty: no colour";

/// [`VARIABLE`] names no back-end that this CPU runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}: {0}; give one of these, or unset the variable")]
pub struct SimdError(UnavailableSimd);

/// The back-end that [`VARIABLE`] names, or the fastest of this CPU if the variable is not set.
///
/// # Errors
/// If the variable is set and names no back-end that this CPU runs. Another one is never put in its place.
pub fn from_environment() -> Result<Simd, SimdError> {
    choose(env::var_os(VARIABLE).as_deref())
}

fn choose(name: Option<&OsStr>) -> Result<Simd, SimdError> {
    match name {
        None => Ok(Simd::detect()),
        // What is not UTF-8 keeps a replacement character, and no back-end has one in its name.
        Some(name) => name.to_string_lossy().parse().map_err(SimdError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_back_end_of_this_cpu_can_be_chosen_and_none_is_the_fastest() {
        for simd in Simd::available() {
            assert_eq!(choose(Some(OsStr::new(&simd.to_string()))), Ok(simd));
        }
        assert_eq!(choose(None), Ok(Simd::detect()));
    }

    #[test]
    fn what_names_no_back_end_is_refused_with_those_there_are() {
        for name in ["", "sse2", "AVX2", " scalar", "scalar,avx2", "auto", "0"] {
            let text = choose(Some(OsStr::new(name))).expect_err(name).to_string();
            assert!(text.starts_with(&format!("PANETIERE_SIMD: no SIMD back-end `{name}`")), "{text}");
            assert!(text.contains("available: scalar") && text.contains("unset"), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        assert!(choose(Some(OsStr::from_bytes(b"scalar\xff"))).is_err());
    }
}
