//! The 32 bytes that wrap what is secret on disk, from a file that only its owner can read.

use panetiere::fault::{Attribution, Fault};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
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
    /// Others have some right to it, or its group may do more than read.
    #[error(
        "{path} has mode {mode:o}: only its owner may write it, and nobody but its owner and group read it (chmod 600)"
    )]
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
    /// It is somebody else's, who can change it.
    #[error("{path} belongs to user {owner}, expected root or user {user}, who runs this")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this program.
        user: u32,
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
            Self::Owner { .. } => "credential_owner",
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
    /// Its group may read it: systemd's `LoadCredential=` gives a file of root, of mode 0400 or, where an access list lets
    /// the service's user in, 0440, because the mask of the list stands where the group's bits do.
    ///
    /// # Errors
    /// `Mode` if its group may write or execute it, or others anything; `Owner` unless it is root's or this process's
    /// user's; `NoFile`, `Length`, `Read`.
    pub fn from_file(path: &Path) -> Result<Self, CredentialError> {
        let failed = |source| CredentialError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        // Of the open file, not of the path: nobody can exchange it in between.
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(CredentialError::NoFile { path: path.to_owned() });
        }
        let user = effective_user().map_err(failed)?;
        judge(metadata.permissions().mode() & 0o7777, metadata.uid(), user, path)?;
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

fn judge(mode: u32, owner: u32, user: u32, path: &Path) -> Result<(), CredentialError> {
    if mode & 0o037 != 0 {
        return Err(CredentialError::Mode { path: path.to_owned(), mode });
    }
    if owner != 0 && owner != user {
        return Err(CredentialError::Owner { path: path.to_owned(), owner, user });
    }
    Ok(())
}

/// The user that this process runs as, by the kernel's word.
fn effective_user() -> io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, effective, saved, of the file system.
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    effective.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/status has no user"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

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
        // As systemd gives them.
        assert_eq!(with(&[7; 32], 0o440), Ok([7; 32]));
        assert_eq!(with(&[7; 32], 0o640), Ok([7; 32]));
        for mode in [0o604, 0o620, 0o602, 0o610, 0o601, 0o444, 0o460, 0o450, 0o441] {
            assert_eq!(with(&[7; 32], mode), Err("credential_mode"), "{mode:o}");
        }
        for len in [0, 31, 33] {
            assert_eq!(with(&vec![7; len], 0o600), Err("credential_length"));
        }
        assert_eq!(Credential::from_file(directory.path()).unwrap_err().code(), "credential_no_file");
        assert_eq!(Credential::from_file(&path.join("x")).unwrap_err().code(), "credential_read");
    }

    #[test]
    fn a_credential_is_roots_or_ones_own() {
        let judged =
            |owner, user| judge(0o440, owner, user, Path::new("wrap.key")).map_err(|error| error.code());
        assert_eq!(judged(0, 1000), Ok(()));
        assert_eq!(judged(1000, 1000), Ok(()));
        assert_eq!(judged(0, 0), Ok(()));
        assert_eq!(judged(1001, 1000), Err("credential_owner"));
        assert_eq!(judged(1000, 0), Err("credential_owner"));
        // What the kernel says of this process is whose files are that it makes.
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(effective_user().unwrap(), file.as_file().metadata().unwrap().uid());
    }
}
