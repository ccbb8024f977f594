//! A forge, a project and a model server of our own, all on the loopback: what `frognano-bot demo` shows and what the story tests drive.
//!
//! They are the other side of the wire, and share nothing with the rooms that they talk to but the words of the domain (and, for the model, the
//! script's format). Here alone, besides `git`, the git program is started: a forge has repositories.

pub mod forge;
mod git_backend;
pub mod model_server;
pub mod project;
mod server;

use std::io;

use axum::Router;

use forge::Forge;
pub use forge::Kind;
pub use git_backend::{branch_tip, commit_folder, diff, init_bare};
use server::Server;

/// A forge that answers.
#[derive(Debug)]
pub struct Running {
    /// `http://127.0.0.1:PORT`, without a slash at the end; the API is below it at [`Kind::api`].
    pub base_url: String,
    /// The forge behind it.
    pub forge: Forge,
    server: Server,
}

impl Running {
    /// Ends the server; the forge's state stays with whoever holds a clone of it.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// Puts a forge on a free port of 127.0.0.1. The addresses that it hands out from then on are there.
///
/// # Errors
/// When no port can be had.
pub async fn start(forge: Forge) -> io::Result<Running> {
    let shared = forge.clone();
    let server = Server::start(|base_url| {
        shared.state().base_url = base_url.to_owned();
        Router::new().fallback(forge::serve).with_state(shared)
    })
    .await?;
    Ok(Running { base_url: server.base_url(), forge, server })
}
