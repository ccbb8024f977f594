//! The databases of the stories: a file of SQLite, and an empty database on the PostgreSQL whose administrator's address is in
//! `FROGNANO_TEST_POSTGRES_URL` (tests/postgres/up starts one); what is told of one holds of both.

use std::process::Command;

use frognano_bot::store::Store;
use uuid::Uuid;

/// An empty database, gone with this.
pub struct Database {
    pub url: String,
    kept: Kept,
}

enum Kept {
    Folder { _folder: tempfile::TempDir },
    Server { administrator: String, name: String },
}

impl Database {
    /// A file, in memory where there is a place for that.
    pub fn sqlite() -> Self {
        let place = if cfg!(target_os = "linux") { "/dev/shm" } else { "/tmp" };
        let folder = tempfile::Builder::new().prefix("database-").tempdir_in(place).unwrap();
        Self { url: format!("sqlite://{}", folder.path().join("db.sqlite").display()), kept: Kept::Folder { _folder: folder } }
    }

    /// On the server; none where there is no server, which is said.
    pub fn postgres() -> Option<Self> {
        let Ok(administrator) = std::env::var("FROGNANO_TEST_POSTGRES_URL") else {
            println!("FROGNANO_TEST_POSTGRES_URL is not set: nothing was told of PostgreSQL");
            return None;
        };
        let name = format!("frognano_{}", Uuid::new_v4().simple());
        psql(&administrator, &format!("create database {name}"));
        let (server, _) = administrator.rsplit_once('/').unwrap();
        Some(Self { url: format!("{server}/{name}"), kept: Kept::Server { administrator, name } })
    }

    /// One of each kind that there is.
    pub fn each() -> Vec<Self> {
        std::iter::once(Self::sqlite()).chain(Self::postgres()).collect()
    }

    pub async fn open(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Kept::Server { administrator, name } = &self.kept {
            psql(administrator, &format!("drop database {name} with (force)"));
        }
    }
}

/// What the server answers, one line a row.
pub fn psql(url: &str, statement: &str) -> String {
    let output = Command::new("psql").args(["--no-psqlrc", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement, url]).output().unwrap();
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
