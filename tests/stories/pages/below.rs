//! The pages below a path of a host that has other things too, whether the reverse proxy passes that path on or takes it away.

use std::collections::{BTreeSet, VecDeque};

use frognano_bot::demo::{Kind, project};
use regex::Regex;
use reqwest::header::LOCATION;

use crate::access::{Browser, PUBLIC, house_at};

const BELOW: &str = "/frognano";

/// Everywhere that a page leads: links, forms, styles, scripts, events.
fn led_to(page: &str) -> Vec<String> {
    let leads = Regex::new(r#"(?:href|src|action|data-events)="([^"]*)""#).unwrap();
    let all = leads.captures_iter(page).map(|found| found[1].replace("&amp;", "&"));
    all.filter(|address| !address.starts_with(['#', 'd']) && !address.starts_with("http")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_form_asset_and_redirect_stands_below_the_path_of_the_public_address() {
    let (house, service) = house_at(Kind::Gitea, &format!("{PUBLIC}{BELOW}/")).await;
    service.work_off().await;
    service.store.seal().await.unwrap();
    let waits = house.forge().open_issue(project::PATH, project::READER, "Another", "one", &[]).unwrap().number;
    service.take(&house.label(waits)).await;
    let mut ada = Browser::at(&service);
    let place = |answer: &reqwest::Response| answer.headers()[LOCATION].to_str().unwrap().to_owned();
    // Who is not signed in is led to the forge and back, below the path all the way.
    let to_sign_in = place(&ada.get(&format!("{BELOW}/runs?outcome=proposed")).await);
    assert!(to_sign_in.starts_with(&format!("{BELOW}/sign-in?")), "{to_sign_in}");
    let ways = led_to(&ada.get(&to_sign_in).await.text().await.unwrap());
    let way = ways.iter().find(|way| way.contains("/sign-in/here")).unwrap();
    let page = place(&ada.get(way).await).parse().unwrap();
    let back = ada.agree(&page, project::MAINTAINER).await;
    assert!(back.starts_with(&format!("{BELOW}/sign-in/here/done?")), "{back}");
    assert_eq!(place(&ada.get(&back).await), format!("{BELOW}/runs?outcome=proposed"));
    let (mut seen, mut next) = (BTreeSet::new(), VecDeque::from([format!("{BELOW}/"), format!("{BELOW}/nowhere")]));
    let mut csrf = String::new();
    while let Some(path) = next.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let below = path.strip_prefix(BELOW).unwrap_or_else(|| panic!("{path} leads out of {BELOW}"));
        assert!(below.starts_with('/'), "{path}");
        if ["/retry", "/cancel", "/sign-out"].iter().any(|act| below.ends_with(act)) {
            continue;
        }
        for address in [&path, below] {
            let mut answer = ada.get(address).await;
            let expected = if below == "/nowhere" { 404 } else { 200 };
            assert_eq!(answer.status(), expected, "{address}");
            if below.starts_with("/events") {
                assert!(answer.chunk().await.unwrap().unwrap().starts_with(b"data: "));
                continue;
            }
            let text = answer.text().await.unwrap();
            if let Some(token) = text.split("name=\"csrf\" value=\"").nth(1) {
                csrf = format!("csrf={}", token.split('"').next().unwrap());
            }
            if text.starts_with("<!doctype html>") {
                next.extend(led_to(&text));
            }
        }
    }
    for led in ["/static/style.css", "/static/live.js", "/events", "/audit", "/health", "/reviews", "/repositories", "/sign-out"] {
        assert!(seen.contains(&format!("{BELOW}{led}")), "{led}: {seen:?}");
    }
    for act in ["/retry", "/cancel"] {
        let path = seen.iter().find(|path| path.ends_with(act)).unwrap_or_else(|| panic!("no button to {act}: {seen:?}"));
        let done = ada.post(path, &csrf).await;
        assert!(done.status() == 303 && place(&done).starts_with(&format!("{BELOW}/runs/")) || done.status() == 409, "{act}: {done:?}");
    }
    let described = ada.json(&format!("{BELOW}/api/openapi.json")).await.1;
    assert_eq!(described["servers"][0]["url"], BELOW);
    assert_eq!(ada.get(&format!("{BELOW}{BELOW}/runs")).await.status(), 404, "once");
    assert_eq!(place(&ada.post(&format!("{BELOW}/sign-out"), &csrf).await), format!("{BELOW}/sign-in"));
    assert_eq!(ada.get(&format!("{BELOW}/api/v1/me")).await.status(), 401);
    service.end().await;
}
