//! Peers at the door that send nothing, or a byte now and then: each is let go after a short time, and nobody waits for them meanwhile.

use std::time::{Duration, Instant};

use frognano_bot::demo::Kind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::House;

/// Longer than this nobody is held, whatever is sent.
const LONGEST: Duration = Duration::from_secs(25);

/// More than the door holds at once.
const FLOOD: usize = 300;

/// Sends the beginning of a request and then a byte each second; what was answered, and how long the door held on.
async fn dripping(address: &str, begun: &str) -> (String, Duration) {
    let began = Instant::now();
    let mut peer = TcpStream::connect(address).await.unwrap();
    peer.write_all(begun.as_bytes()).await.unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
    while began.elapsed() < 2 * LONGEST {
        match tokio::time::timeout(Duration::from_secs(1), peer.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return (String::from_utf8_lossy(&answer).into_owned(), began.elapsed()),
            Ok(Ok(read)) => answer.extend_from_slice(&buffer[..read]),
            Err(_) if begun.is_empty() => {}
            Err(_) => drop(peer.write_all(b"x").await),
        }
    }
    panic!("{begun:?} was held for {:?}; it was answered {:?}", began.elapsed(), String::from_utf8_lossy(&answer));
}

/// Asks and asks and reads no answer; how long the door held on when no more could be asked.
async fn deaf(address: &str) -> Duration {
    let mut peer = TcpStream::connect(address).await.unwrap();
    let asks = "GET /api/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    let mut stuck = None;
    loop {
        match tokio::time::timeout(Duration::from_secs(1), peer.write_all(asks.as_bytes())).await {
            Ok(Ok(())) => stuck = None,
            Ok(Err(_)) => return stuck.map_or(Duration::ZERO, |since: Instant| since.elapsed()),
            Err(_) => assert!(stuck.get_or_insert_with(Instant::now).elapsed() < 2 * LONGEST, "who reads no answer is held"),
        }
    }
}

#[tokio::test]
async fn peers_that_send_a_byte_now_and_then_are_let_go_and_nobody_waits_for_them() {
    let house = House::new(Kind::Gitea).await.set("operator_token = { file = \"webhook-secret\" }");
    let service = house.service().await;
    let address = service.door.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let operator = format!(
        "POST /operator/queue/pause HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 9999\r\n\r\nby=",
        crate::house::SECRET
    );
    let ways = [
        ("", ""),
        ("POST /webhooks/here HTTP/1.1\r\nhost: x\r\nx-slow: ", ""),
        ("POST /webhooks/here HTTP/1.1\r\nhost: x\r\ncontent-length: 999999\r\n\r\n{", "408"),
        ("POST /webhooks/here HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n{", "408"),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "200"),
        (operator.as_str(), "408"),
    ];
    let issue = house.open_issue();
    let others = async {
        let began = Instant::now();
        service.take(&house.label(issue)).await;
        assert!(began.elapsed() < Duration::from_secs(2), "a delivery waited for {:?}", began.elapsed());
    };
    let held = futures_util::future::join_all(ways.map(|(begun, _)| dripping(&address, begun)));
    let (held, deaf, ()) = tokio::join!(held, deaf(&address), others);
    assert!(deaf < LONGEST, "{deaf:?}");
    for ((begun, answer), (answered, time)) in ways.into_iter().zip(held) {
        assert!(time < LONGEST && answered.contains(answer), "{begun:?}: {time:?}, {answered:?}");
    }
    assert_eq!((service.jobs().await.len(), service.store.paused().await.unwrap()), (1, None));
    service.end().await;
}

#[tokio::test]
async fn more_silent_peers_than_the_door_holds_put_a_delivery_off_and_do_not_lose_it() {
    let house = House::new(Kind::GitHub).await;
    let service = house.service().await;
    let address = service.door.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        flood.push(TcpStream::connect(&address).await.unwrap());
    }
    let issue = house.open_issue();
    let taken = tokio::time::timeout(2 * LONGEST, service.take(&house.label(issue))).await;
    assert!(taken.is_ok() && service.jobs().await.len() == 1);
    drop(flood);
    service.end().await;
}
