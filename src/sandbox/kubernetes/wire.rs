//! The one exec of a sandbox, as streams that end when it ends, or its pod.
//!
//! What must hold: however the exec ends, also when its connection breaks without a word, reading from it ends and writing to it fails. (The streams
//! of the kube crate stay open then, and who waits for them waits for ever; and a cluster may keep the exec of a program open that was killed while
//! it was fed.)

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use kube::api::AttachedProcess;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use super::super::{Link, Patience};

/// The exec; it ends with this value.
pub(super) struct Wire {
    _process: AttachedProcess,
    said: Arc<Mutex<String>>,
    over: CancellationToken,
    _ends_it: DropGuard,
}

impl Wire {
    /// Takes the exec over, with the link that speaks over it; none when it came without its streams. Must be called within a tokio runtime.
    pub(super) fn new(mut process: AttachedProcess, patience: Patience) -> Option<(Self, Link)> {
        let (output, input, stderr) = (process.stdout()?, process.stdin()?, process.stderr()?);
        let (status, over) = (process.take_status()?, CancellationToken::new());
        let (end, said) = (over.clone(), Arc::new(Mutex::new(String::new())));
        let saying = Arc::clone(&said);
        tokio::spawn(async move {
            let message = status.await.and_then(|status| status.message).unwrap_or_default();
            if let Ok(mut said) = saying.lock() {
                *said = message;
            }
            end.cancel();
        });
        let link = Link::new(Until::new(output, &over), Until::new(input, &over), Until::new(stderr, &over), patience);
        Some((Self { _process: process, said, over: over.clone(), _ends_it: over.drop_guard() }, link))
    }

    /// Ends the streams when this comes to its end before them.
    pub(super) fn end_with(&self, pod: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        tokio::spawn(async move {
            if over.run_until_cancelled(pod).await.is_some() {
                over.cancel();
            }
        });
    }

    /// What the cluster said of the end of the program inside; empty when it said nothing.
    pub(super) fn said(&self) -> String {
        self.said.lock().map(|said| said.clone()).unwrap_or_default()
    }
}

/// A stream until the exec is over.
struct Until<T> {
    inner: T,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<T> Until<T> {
    fn new(inner: T, over: &CancellationToken) -> Self {
        Self { inner, over: Box::pin(over.clone().cancelled_owned()) }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.over.as_mut().poll(context).is_ready()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Until<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            // What was written before the end is read first.
            Poll::Pending if self.is_over(context) => Poll::Ready(Ok(())),
            other => other,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Until<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, simplex};

    use super::*;

    #[tokio::test]
    async fn what_was_said_before_the_end_is_read_and_then_all_ends() {
        let over = CancellationToken::new();
        let (reader, mut writer) = simplex(64);
        let mut reading = Until::new(reader, &over);
        writer.write_all(b"last words").await.unwrap();
        over.cancel();
        let mut read = Vec::new();
        reading.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"last words");
        let (_reader, full) = simplex(4);
        let over = CancellationToken::new();
        let mut writing = Until::new(full, &over);
        let (written, ()) = tokio::join!(writing.write_all(b"more than there is room for"), async { over.cancel() });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
