use tokio::io::{DuplexStream, duplex};

use super::*;

/// A program inside that answers each question with the next of these, whatever it was asked.
fn scripted(answers: Vec<Vec<u8>>) -> Link {
    let (near, far) = duplex(1 << 16);
    let (far_out, far_in) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut questions = BufReader::new(far_out).lines();
        let mut output = far_in;
        for answer in answers {
            let _ = questions.next_line().await;
            let _ = output.write_all(&answer).await;
        }
        if questions.next_line().await.is_ok_and(|line| line.is_some()) {
            std::future::pending::<()>().await;
        }
    });
    link_to(near, b"last words\x1b[31m")
}

fn link_to(near: DuplexStream, stderr: &'static [u8]) -> Link {
    let (output, input) = tokio::io::split(near);
    Link::new(output, input, stderr, Patience { grace: Duration::from_millis(50), transfer: Duration::from_millis(50) })
}

async fn refused(answer: &[u8]) -> String {
    let mut link = scripted(vec![answer.to_vec()]);
    let Err(SandboxError::Lost(why)) = link.list("/workspace", Listing::Exact).await else {
        panic!("{} was believed", answer.escape_ascii())
    };
    assert!(
        matches!(link.list("/workspace", Listing::Exact).await, Err(SandboxError::Lost(_))),
        "the link lives on after {}",
        answer.escape_ascii()
    );
    why
}

#[tokio::test]
async fn an_answer_that_no_honest_program_gives_ends_the_link() {
    assert!(refused(b"{\"id\":2,\"bytes\":0}\n").await.contains("not the one"));
    assert!(refused(b"{\"id\":null,\"bytes\":0}\n").await.contains("not the one"));
    assert!(refused(b"[1]\n").await.contains("not the one"));
    assert!(refused(b"hello\n").await.contains("no JSON"));
    assert!(refused(b"{\"id\":1,\"bytes\":-1}\n").await.contains("whether bytes follow"));
    assert!(refused(b"{\"id\":1}\n").await.contains("whether bytes follow"));
    assert!(refused(b"{\"id\":1,\"bytes\":3}\nabc").await.contains("no end"));
    assert!(refused(b"{\"id\":1,\"error\":\"x\",\"kind\":\"failed\"}\n").await.contains("could not do"));
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_the_link() {
    let mut link = scripted(vec![b"{\"id\":1,\"observation\":\"ok\",\"bytes\":4}\nabcd".to_vec()]);
    assert!(matches!(link.call("Read", &json!({})).await, Err(SandboxError::Lost(_))));
}

#[tokio::test]
async fn more_bytes_than_were_asked_for_end_the_link() {
    let mut link = scripted(vec![b"{\"id\":1,\"bytes\":999999999999}\n".to_vec()]);
    assert!(matches!(link.list("/workspace", Listing::Exact).await, Err(SandboxError::TooLarge { limit: LONGEST_LIST, .. })));
    assert!(link.is_lost());
    let mut link = scripted(vec![b"{\"id\":1,\"bytes\":99999}\n".to_vec()]);
    let forged = link.take("/workspace", &[b"a".to_vec()], 10).await;
    assert!(matches!(forged, Err(SandboxError::Lost(why)) if why.contains("more bytes than were asked for")));
    assert!(link.is_lost());
}

#[tokio::test]
async fn honest_errors_leave_the_link_usable() {
    let mut link = scripted(vec![
        b"{\"id\":1,\"error\":\"disk full\",\"kind\":\"no_room\"}\n".to_vec(),
        b"{\"id\":2,\"error\":\"much\",\"kind\":\"too_large\"}\n".to_vec(),
        b"{\"id\":3,\"observation\":\"still here\"}\n".to_vec(),
    ]);
    assert!(matches!(link.put("/workspace", b"").await, Err(SandboxError::NoRoom(why)) if why == "disk full"));
    assert!(matches!(link.take("/workspace", &[], 7).await, Err(SandboxError::TooLarge { limit: 7, .. })));
    assert_eq!(link.call("Read", &json!({})).await.unwrap(), "still here");
}

#[tokio::test]
async fn silence_past_the_deadline_ends_the_link() {
    let mut link = scripted(vec![Vec::new()]);
    assert!(matches!(link.list("/workspace", Listing::Exact).await, Err(SandboxError::Lost(why)) if why.contains("within 50 ms")));
    assert_eq!(link.last_words().await, "last words\u{fffd}[31m");
}

#[tokio::test]
async fn a_call_dropped_half_way_ends_the_link() {
    let mut link = scripted(vec![Vec::new()]);
    tokio::select! {
        biased;
        _ = link.list("/workspace", Listing::Exact) => panic!("nothing answers"),
        () = tokio::task::yield_now() => {}
    }
    assert!(matches!(link.list("/workspace", Listing::Exact).await, Err(SandboxError::Lost(why)) if why.contains("already ended")));
}

#[tokio::test]
async fn a_closed_channel_is_told_apart_from_a_cut_answer() {
    let (near, far) = duplex(64);
    drop(far);
    assert!(matches!(link_to(near, b"").run(&command()).await, Err(SandboxError::Lost(why)) if why.contains("channel")));
    let (near, mut far) = duplex(1 << 16);
    far.write_all(b"{\"id\":1,").await.unwrap();
    far.shutdown().await.unwrap();
    let lost = link_to(near, b"").run(&command()).await;
    assert!(matches!(lost, Err(SandboxError::Lost(why)) if why.contains("middle of an answer")));
}

fn command() -> Command {
    Command { script: "true".to_owned(), timeout: Duration::from_millis(10), output_limit: 10 }
}

#[tokio::test]
async fn a_probe_answer_about_other_targets_is_forged() {
    let mut link =
        scripted(vec![br#"{"id":1,"probed":[{"kind":"tcp","address":"127.0.0.1:1","reached":false,"why":""}]}"#.to_vec(), b"\n".to_vec()]);
    let target = Target { kind: "tcp".to_owned(), address: "127.0.0.1:2".to_owned() };
    assert!(matches!(link.probe(&[target]).await, Err(SandboxError::Lost(_))));
}

#[test]
fn the_time_of_a_bash_call_follows_the_tool() {
    assert_eq!(bash_time(&json!({})), DEFAULT_BASH);
    assert_eq!(bash_time(&json!({"timeout": 5})), DEFAULT_BASH);
    assert_eq!(bash_time(&json!({"timeout": 600})), Duration::from_secs(600));
    assert_eq!(bash_time(&json!({"timeout": 600_000})), Duration::from_secs(600));
    assert_eq!(bash_time(&json!({"timeout_ms": 300_000})), Duration::from_secs(300));
    assert_eq!(bash_time(&json!({"timeout": 1e300})), LONGEST_BASH);
    assert_eq!(bash_time(&json!({"timeout": -1})), DEFAULT_BASH);
}
