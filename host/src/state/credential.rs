//! The 32 bytes that wrap what is secret on disk, from a file that only its owner can read.

use panetiere::fault::{Attribution, Fault};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// Not 32 bytes.
    #[error("{path} has {found} bytes, a credential has {expected}", expected = Credential::LEN)]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },
    /// Group or others have some right to it.
    #[error("{path} has mode {mode:o}: only its owner may read it (chmod 600)")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not a file.
    #[error("{path} is no regular file")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Fault for CredentialError {
    fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "credential_length",
            Self::Mode { .. } => "credential_mode",
            Self::NoFile { .. } => "credential_no_file",
            Self::Read { .. } => "credential_read",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// 32 uniform bytes that wrap epoch keys. Wiped on drop, never shown.
pub struct Credential(Zeroizing<[u8; Self::LEN]>);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

impl Credential {
    /// Bytes of a credential.
    pub const LEN: usize = 32;

    /// A credential from its bytes.
    pub const fn new(bytes: Zeroizing<[u8; Self::LEN]>) -> Self {
        Self(bytes)
    }

    /// Reads a credential file: exactly 32 bytes, as `head -c 32 /dev/urandom` writes them.
    ///
    /// # Errors
    /// `Mode` if group or others may read, write or execute it; `NoFile`, `Length`, `Read`.
    pub fn from_file(path: &Path) -> Result<Self, CredentialError> {
        let failed = |source| CredentialError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        // Of the open file, not of the path: nobody can exchange it in between.
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(CredentialError::NoFile { path: path.to_owned() });
        }
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(CredentialError::Mode { path: path.to_owned(), mode });
        }
        if metadata.len() != 32 {
            return Err(CredentialError::Length { path: path.to_owned(), found: metadata.len() });
        }
        let mut bytes = Zeroizing::new([0; Self::LEN]);
        file.read_exact(&mut *bytes).map_err(failed)?;
        Ok(Self(bytes))
    }

    /// The bytes, where they are used.
    pub(super) fn expose(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_credential_is_32_bytes_that_only_its_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("wrap.key");
        let with = |bytes: &[u8], mode: u32| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = Credential::from_file(&path).map(|credential| *credential.expose());
            read.map_err(|error| error.code())
        };
        assert_eq!(with(&[7; 32], 0o600), Ok([7; 32]));
        assert_eq!(with(&[7; 32], 0o400), Ok([7; 32]));
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601] {
            assert_eq!(with(&[7; 32], mode), Err("credential_mode"), "{mode:o}");
        }
        for len in [0, 31, 33] {
            assert_eq!(with(&vec![7; len], 0o600), Err("credential_length"));
        }
        assert_eq!(Credential::from_file(directory.path()).unwrap_err().code(), "credential_no_file");
        assert_eq!(Credential::from_file(&path.join("x")).unwrap_err().code(), "credential_read");
    }
}
