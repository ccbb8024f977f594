//! The pages: what they show and to whom, what they do, and that no text of anybody acts in them.

mod below;
mod browser;
mod lists;
mod world;

use frognano_bot::demo::{Kind, project};

use crate::house::{House, PATIENCE};
use world::{HOSTILE, Site, bend_report, hostile_script, post, raw};

const BROWSER: [(&str, &str); 1] = [("accept", "text/html,application/xhtml+xml")];

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_stranger_acts_on_any_page_and_every_page_shuts_its_browser_in() {
    let house = House::with_script(Kind::Gitea, &hostile_script()).await;
    let service = house.service().await;
    let issue = house.forge().open_issue(project::PATH, project::READER, HOSTILE, HOSTILE, &[]).unwrap().number;
    service.take(&house.label(issue)).await;
    service.work_off().await;
    let site = Site::of(&service.door);
    let job = service.jobs().await.remove(0);
    let run = format!("/runs/{}", job.run.clone().unwrap());
    bend_report(&house.database()).await;
    let detail = site.get(&run).await;
    for seen in [
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "⟨U+202E⟩",
        "⟨U+001B⟩",
        "thought &lt;img",
        "said &lt;img",
        "answered &lt;img",
        "img src=x onerror=alert(7)&gt;.txt",
    ] {
        assert!(detail.body.contains(seen), "{seen} is not shown: {}", detail.body);
    }
    let told = detail.body.matches("&lt;script&gt;alert(1)&lt;/script&gt;&lt;img").count();
    assert!(told >= 20, "what a report says is shown, {told} times: {}", detail.body);
    assert!(detail.body.contains("each holds"), "the rows of the chain are checked");
    let search = format!("/runs?person={}", url::form_urlencoded::byte_serialize(&HOSTILE.as_bytes()[..60]).collect::<String>());
    for path in ["/", "/runs", &run, "/repositories", "/reviews", "/health", "/audit", &search, "/nowhere/<script>"] {
        let page = site.ask("GET", path, &BROWSER, "").await;
        assert_eq!(page.status, if path.contains("nowhere") { 404 } else { 200 }, "{path}: {}", page.body);
        assert!(page.body.contains("<main id=\"main\""), "{path} is a page: {}", page.body);
        for acts in ["<script>", "<img", "<b ", "href=\"javascript:", "\u{202e}", "\u{1b}", " style=", " onerror=alert(1)>", "<!--"] {
            assert!(!page.body.contains(acts), "{path} has {acts:?}: {}", page.body);
        }
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let others = ["x-content-type-options", "referrer-policy", "cache-control"].map(|name| page.header(name).to_owned());
        assert_eq!(others, ["nosniff", "no-referrer", "no-store"], "{path}");
    }
    let export = site.get(&format!("{run}/export")).await;
    assert!(export.header("content-disposition").starts_with("attachment"), "{:?}", export.headers);
    frognano_bot::audit::Export::verify(export.body.as_bytes(), None).unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_do_what_they_say_for_who_has_the_pages_token_and_for_nobody_else() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let site = Site::of(&service.door);
    let job = service.jobs().await.remove(0);
    let page = site.get(&format!("/runs/{}", job.id)).await;
    let csrf = page.csrf();
    let mut events = reqwest::get(format!("{}/events", site.base)).await.unwrap();
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    let first = String::from_utf8(events.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.starts_with("data: {\"version\":"), "{first}");
    let cancel = format!("/runs/{}/cancel", job.id);
    for wrong in ["", "csrf=", "csrf=0000", "other=1", "csrf=%00"] {
        assert_eq!(post(&site, &cancel, wrong).await.status, 403, "{wrong}");
    }
    assert_eq!(site.ask("GET", &cancel, &[], "").await.status, 405);
    assert_eq!(post(&site, "/runs/nobody/cancel", &csrf).await.status, 404);
    assert_eq!(post(&site, &format!("/runs/{}/retry", job.id), &csrf).await.status, 409, "it waits already");
    let told = post(&site, &cancel, &csrf).await;
    assert_eq!((told.status, told.header("location")), (303, format!("/runs/{}", job.id).as_str()));
    assert!(site.get(&format!("/runs/{}", job.id)).await.body.contains("It is asked to stop: local asked for it"));
    while service.worker.answer_next().await.unwrap().is_some() {}
    let ended = service.jobs().await.remove(0);
    assert_eq!((ended.state.as_str(), ended.outcome.as_deref()), ("done", Some("cancelled")));
    let again = post(&site, &format!("/runs/{}/retry", job.id), &csrf).await;
    assert_eq!(again.status, 303, "{}", again.body);
    assert_eq!(post(&site, &format!("/runs/{}/retry", job.id), &csrf).await.status, 409);
    assert_eq!(service.jobs().await.len(), 2);
    let audit = site.get("/audit?person=local").await;
    assert!(audit.status == 200, "{}", audit.body);
    service.store.seal().await.unwrap();
    let audit = site.get("/audit?kind=operator&person=local").await;
    assert_eq!(audit.body.matches("&quot;did&quot;:&quot;").count(), 2, "both acts are in the chain: {}", audit.body);
    assert_eq!(post(&site, "/health", "csrf=0000").await.status, 403);
    assert_eq!(house.model.requests().len(), 0, "nothing was looked at");
    for _ in 0..2 {
        assert_eq!(post(&site, "/health", &csrf).await.status, 303);
    }
    assert_eq!(house.model.requests().len(), 1, "one look a minute");
    let health = site.get("/health").await.body;
    assert!(health.contains("reaches nothing") && health.contains("Checks of database"), "{health}");
    let told = async { while events.chunk().await.unwrap().is_some() {} };
    let stop = async { tokio::join!(service.end(), told) };
    tokio::time::timeout(PATIENCE, stop).await.expect("who listens is let go when the service stops");
}

#[tokio::test]
async fn bad_input_is_refused_with_words_and_nothing_is_shown_to_who_is_not_here() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let site = Site::of(&service.door);
    let long = "x".repeat(3000);
    for (path, status, words) in [
        ("/runs/../../etc/passwd", 404, "nothing at this address"),
        ("/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, "no run of this name"),
        ("/runs/%00", 404, "no run of this name"),
        ("/runs/%ff", 400, "UTF-8"),
        ("/static/../Cargo.toml", 404, "nothing"),
        ("/runs?older=9999999999999999999.a", 400, "place in the list"),
        ("/runs?older=1.a&newer=1.a", 400, "not both"),
        ("/runs?older=-5.zz", 200, ""),
        ("/runs?from=2026-02-31", 400, "a day is written"),
        ("/runs?outcome=<script>", 400, "no such outcome"),
        (&format!("/runs?person={long}"), 400, "more than 300"),
        ("/repositories?days=1000000", 400, "7, 30 or 90"),
        ("/repositories?days=x", 400, "days"),
        ("/audit?kind=x", 400, "no such kind"),
        ("/audit?before=x", 400, "is no number"),
        ("/audit?before=-9223372036854775808", 200, ""),
        ("/runs/x/export", 404, "nothing of a run"),
        ("/runs/%00/export", 404, "nothing of a run"),
        ("/audit?run=%00", 200, ""),
    ] {
        let json = site.get(path).await;
        assert_eq!(json.status, status, "{path}: {}", json.body);
        let page = site.ask("GET", path, &BROWSER, "").await;
        assert_eq!(page.status, status, "{path}");
        if status != 200 {
            let message = serde_json::from_str::<serde_json::Value>(&json.body).unwrap()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(words), "{path}: {message}");
            assert!(
                page.body.contains("To the list of runs") && page.body.to_lowercase().contains(&words.to_lowercase()),
                "{path}: {}",
                page.body
            );
        }
    }
    for (host, header) in [("evil.example.com", ""), ("localhost.evil.example.com", ""), ("127.0.0.1", "X-Forwarded-For: 10.0.0.1\r\n")] {
        for path in ["/", "/runs", "/events", "/audit", "/health"] {
            let answer = raw(&service.door, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}Connection: close\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{host} {path}: {answer}");
        }
    }
    // What many proxies ask for everybody, without a word of whom it is for.
    let answer = raw(&service.door, "GET /runs HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");
    let mut followed = site.ask("GET", "/runs", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], "").await;
    assert_eq!(followed.status, 200, "a link from elsewhere may be followed");
    assert_eq!(followed.headers.remove("cross-origin-resource-policy").unwrap(), "same-origin");
    for of in ["text/plain", "multipart/form-data; boundary=x", "application/json"] {
        let request = format!(
            "POST /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {of}\r\nContent-Length: 6\r\nConnection: close\r\n\r\ncsrf=x"
        );
        let answer = raw(&service.door, &request).await;
        assert!(answer.starts_with("HTTP/1.1 415"), "{of}: {answer}");
    }
    service.end().await;
}
