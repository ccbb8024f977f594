//! One service a data folder.
//!
//! What must hold: two services never work in one folder, since each would take the other's jobs for those of a dead worker; a folder is
//! free from the moment on that its service has ended.

use std::fs::{File, TryLockError};
use std::path::Path;

/// A data folder that is ours until this is dropped.
#[derive(Debug)]
pub struct DataLock(File);

impl DataLock {
    /// Takes the folder.
    ///
    /// # Errors
    /// When another service has it, or the file `lock` can't be made in it; with what to do.
    pub fn take(data: &Path) -> Result<Self, String> {
        let path = data.join("lock");
        let file = File::create(&path).map_err(|error| format!("{}: can't be made: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(format!("{}: another service works in this folder; give each its own [service] data", path.display()))
            }
            Err(TryLockError::Error(error)) => Err(format!("{}: can't be locked: {error}", path.display())),
        }
    }
}

impl Drop for DataLock {
    /// A program that is being started just now has a copy of every descriptor until it runs: closing ours would not free the folder.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the data folder is free a little later");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DataLock;

    #[test]
    fn a_folder_is_taken_once_and_free_as_soon_as_it_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataLock::take(folder.path()).unwrap();
        let of_a_child = first.0.try_clone().unwrap();
        assert!(DataLock::take(folder.path()).unwrap_err().contains("another service works in this folder; give each its own"));
        drop(first);
        let second = DataLock::take(folder.path()).unwrap();
        drop((of_a_child, second));
        DataLock::take(folder.path()).unwrap();
        assert!(DataLock::take(&folder.path().join("nowhere")).unwrap_err().contains("nowhere/lock: can't be made"));
    }
}
