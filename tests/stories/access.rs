//! Who may look: people sign in with their forge or come through a proxy, and see what the forge lets them see.

use std::collections::BTreeMap;

use frognano_bot::audit::Kind as What;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Permission;
use reqwest::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Response, redirect};
use serde_json::Value;
use url::Url;

use crate::faces::on_each_forge;
use crate::house::{House, Service};

/// What the service believes its address to be; the stories bring what is sent there to where it is.
pub const PUBLIC: &str = "http://127.0.0.1:1";
pub const MINUTE_MS: i64 = 60_000;

const SIGN_IN: &str = "public_url = \"http://127.0.0.1:1\"\n[web]\naccess = \"forge\"\n[[web.sign_in]]\nforge = \"here\"\nclient_id = \"bot\"\n\
                       client_secret = { file = \"oauth\" }\n[web.roles]\noperators = [\"here:ada\"]\nauditors = [\"here:acme/watchers\"]\n";

/// A browser: keeps cookies, and goes where it is told to.
pub struct Browser {
    pub service: String,
    pub cookies: BTreeMap<String, String>,
    client: reqwest::Client,
}

impl Browser {
    pub fn at(service: &Service) -> Self {
        let client = reqwest::Client::builder().redirect(redirect::Policy::none()).no_proxy().build().unwrap();
        Self { service: service.door.replace("/webhooks/here", ""), cookies: BTreeMap::new(), client }
    }

    pub async fn send(&mut self, request: reqwest::RequestBuilder) -> Response {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let answer = request.header(COOKIE, cookies).header(ACCEPT, "text/html,*/*").send().await.unwrap();
        for kept in answer.headers().get_all(SET_COOKIE) {
            let kept = kept.to_str().unwrap();
            let (name, value) = kept.split(';').next().unwrap().split_once('=').unwrap();
            assert!(kept.contains("HttpOnly") && kept.contains("SameSite=Lax") && kept.contains("Path=/"), "{kept}");
            if kept.contains("Max-Age=0") {
                self.cookies.remove(name)
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned())
            };
        }
        answer
    }

    pub async fn get(&mut self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.service));
        self.send(request).await
    }

    pub async fn post(&mut self, path: &str, form: &str) -> Response {
        let request = self.client.post(format!("{}{path}", self.service));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
        self.send(request).await
    }

    /// The forge's page for a sign-in that begins here.
    pub async fn begin(&mut self, back: &str) -> Url {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("back", back).finish();
        let answer = self.get(&format!("/sign-in/here?{query}")).await;
        assert_eq!(answer.status(), 303);
        place(&answer).parse().unwrap()
    }

    /// Says on the forge's page who they are; the path that they are sent back to.
    pub async fn agree(&self, page: &Url, login: &str) -> String {
        let answer = self.client.get(format!("{page}&as={login}")).send().await.unwrap();
        assert_eq!(answer.status(), 302, "{page}");
        place(&answer).strip_prefix(PUBLIC).unwrap().to_owned()
    }

    pub async fn sign_in(&mut self, login: &str) {
        let page = self.begin("/api/v1/me").await;
        let back = self.agree(&page, login).await;
        let answer = self.get(&back).await;
        assert_eq!((answer.status().as_u16(), place(&answer)), (303, "/api/v1/me".to_owned()));
    }

    pub async fn json(&mut self, path: &str) -> (u16, Value) {
        let answer = self.get(path).await;
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn runs(&mut self) -> Vec<String> {
        let (status, list) = self.json("/api/v1/runs").await;
        assert_eq!(status, 200, "{list}");
        list["runs"].as_array().unwrap().iter().map(|run| run["repository"].as_str().unwrap().to_owned()).collect()
    }
}

fn place(answer: &Response) -> String {
    answer.headers()[LOCATION].to_str().unwrap().to_owned()
}

pub async fn house(kind: Kind) -> (House, Service) {
    house_at(kind, PUBLIC).await
}

/// A house whose service is reached at this address.
pub async fn house_at(kind: Kind, public: &str) -> (House, Service) {
    let house = House::new(kind).await.set(&SIGN_IN.replace(PUBLIC, public));
    std::fs::write(house.folder.path().join("oauth"), "the application's secret").unwrap();
    house.forge().add_application("bot", "the application's secret", &format!("{}/sign-in/here/done", public.trim_end_matches('/')));
    for login in ["eve", "otto"] {
        house.forge().add_user(login, false);
    }
    house.forge().state().teams.insert("acme/watchers".to_owned(), vec!["otto".to_owned()]);
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    (house, service)
}

/// What the chain says of who came: what was done, and why not.
async fn told(house: &House) -> Vec<(String, Option<String>)> {
    let row = |event: frognano_bot::audit::Event| {
        let fact = |name: &str| event.facts[name].as_str().map(str::to_owned);
        (event.kind == What::Access).then(|| (fact("did").unwrap(), fact("why")))
    };
    house.events().await.into_iter().filter_map(row).collect()
}

on_each_forge! {
    async fn people_sign_in_with_their_forge_and_see_what_it_lets_them_see(kind: Kind) {
        let (house, service) = house(kind).await;
        let [mut rita, mut eve, mut ada, mut otto] = std::array::from_fn(|_| Browser::at(&service));
        let asked = rita.get("/api/v1/me").await;
        assert_eq!(asked.status(), 401);
        rita.cookies.insert("frognano".to_owned(), "a-session-that-somebody-chose-for-her".to_owned());
        rita.sign_in(project::READER).await;
        assert_ne!(rita.cookies["frognano"], "a-session-that-somebody-chose-for-her");
        eve.sign_in("eve").await;
        ada.sign_in(project::MAINTAINER).await;
        otto.sign_in("otto").await;
        assert_eq!(house.forge().tokens_given(), 4);
        for (browser, role) in [(&mut rita, "reader"), (&mut eve, "reader"), (&mut ada, "operator"), (&mut otto, "auditor")] {
            assert_eq!(browser.json("/api/v1/me").await.1["role"], role);
        }
        assert_eq!((otto.runs().await.len(), otto.json("/api/v1/audit").await.0), (1, 200));
        assert_eq!((rita.runs().await, ada.runs().await), (vec![project::PATH.to_owned()], vec![project::PATH.to_owned()]));
        let job = service.jobs().await[0].id.clone();
        // What she may not see is not there, whatever she asks.
        assert_eq!(eve.runs().await, Vec::<String>::new());
        for path in ["", "/steps", "/log"] {
            assert_eq!(eve.json(&format!("/api/v1/runs/{job}{path}")).await.0, 404, "{path}");
            assert_eq!(rita.json(&format!("/api/v1/runs/{job}{path}")).await.0, 200, "{path}");
        }
        assert_eq!(eve.json("/api/v1/repositories").await.1["repositories"], serde_json::json!([]));
        for path in ["/api/v1/audit", "/api/v1/queue"] {
            assert_eq!((rita.json(path).await.0, ada.json(path).await.0), (403, 200), "{path}");
        }
        // A session is no key: a page of another site could use it.
        for (browser, status) in [(&mut eve, 403), (&mut rita, 403), (&mut ada, 403)] {
            assert_eq!(browser.post(&format!("/api/v1/runs/{job}/cancel"), "").await.status(), status);
        }
        // Who loses the right on the forge loses the sight here, within minutes.
        house.forge().permit(project::PATH, project::READER, Permission::None).unwrap();
        house.pass(11 * MINUTE_MS);
        assert_eq!(rita.runs().await, Vec::<String>::new());
        assert_eq!(rita.json(&format!("/api/v1/runs/{job}")).await.0, 404);
        // Out, by a form of ours alone; the session is then nobody's.
        assert_eq!(rita.post("/sign-out", "csrf=guessed").await.status(), 403);
        assert_eq!(rita.json("/api/v1/me").await.0, 200);
        house.pass(121 * MINUTE_MS);
        assert_eq!(rita.json("/api/v1/me").await.0, 401, "idle for two hours");
        let signs = told(&house).await;
        assert_eq!(signs.iter().filter(|(did, _)| did == "sign-in").count(), 4, "{signs:?}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn readers_are_known_where_the_service_administers_nothing() {
    for (kind, private) in [(Kind::Gitea, true), (Kind::Gitea, false), (Kind::Forgejo, true), (Kind::Forgejo, false)] {
        let (house, service) = house(kind).await;
        house.forge().permit(project::PATH, project::BOT, Permission::Write).unwrap();
        house.forge().state().repositories[0].private = private;
        let [mut rita, mut eve] = std::array::from_fn(|_| Browser::at(&service));
        rita.sign_in(project::READER).await;
        eve.sign_in("eve").await;
        assert_eq!((rita.runs().await, eve.runs().await), (vec![project::PATH.to_owned()], vec![]), "{kind:?} {private}");
        house.forge().permit(project::PATH, project::READER, Permission::None).unwrap();
        house.pass(11 * MINUTE_MS);
        assert_eq!(rita.runs().await, Vec::<String>::new());
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
        service.end().await;
    }
}

#[tokio::test]
async fn a_sign_in_is_ended_once_by_the_browser_that_began_it() {
    let (house, service) = house(Kind::Gitea).await;
    let (mut rita, mut other) = (Browser::at(&service), Browser::at(&service));
    let page = rita.begin("//evil.example/").await;
    let back = rita.agree(&page, project::READER).await;
    let ticket = rita.cookies.clone();
    let refused = |answer: Response| (answer.status().as_u16(), answer.headers().contains_key(LOCATION));
    // Another browser is brought here with her code, or with a ticket of its own.
    assert_eq!(refused(other.get(&back).await), (400, false));
    other.begin("/").await;
    assert_eq!(refused(other.get(&back).await), (400, false));
    // A ticket that was written by hand, or whose state was guessed.
    let mut forged = ticket.clone();
    forged.values_mut().for_each(|value| value.replace_range(..2, "xx"));
    other.cookies = forged;
    assert_eq!(refused(other.get(&back).await), (400, false));
    rita.cookies = ticket.clone();
    assert_eq!(refused(rita.get(&back.replace("state=", "state=x")).await), (400, false));
    // Too late.
    house.pass(11 * MINUTE_MS);
    rita.cookies = ticket.clone();
    assert_eq!(refused(rita.get(&back).await), (400, false));
    assert_eq!(house.forge().tokens_given(), 0, "no code was given away");
    house.pass(-11 * MINUTE_MS);
    rita.cookies = ticket.clone();
    let answer = rita.get(&back).await;
    assert_eq!((answer.status().as_u16(), place(&answer)), (303, "/".to_owned()), "and not to the other host");
    // The same again: the code is used.
    other.cookies = ticket;
    assert_eq!(refused(other.get(&back).await), (403, false));
    // She says no on the forge.
    let page = other.begin("/").await;
    let back = other.agree(&page, "nobody").await;
    assert_eq!(refused(other.get(&back).await), (403, false));
    assert_eq!(other.json("/api/v1/me").await.0, 401);
    assert_eq!(rita.json("/api/v1/me").await.0, 200);
    assert_eq!(rita.get("/sign-in/elsewhere").await.status(), 404);
    // No forge of this name: a stranger may ask it without end, and writes nothing into the chain.
    for words in ["nowhere", "x%20y%22", "%3Cscript%3E"] {
        assert_eq!(refused(other.get(&format!("/sign-in/{words}/done?code=a&state=b")).await), (404, false));
    }
    let refusals = told(&house).await.into_iter().filter(|(did, _)| did == "refused").count();
    assert_eq!(refusals, 7);
    // Nor is the chain filled by who has no ticket, or one that is not theirs; and nobody uses up the tries of others by that.
    for _ in 0..100 {
        assert_eq!(refused(other.get("/sign-in/here/done?code=a&state=b").await), (400, false));
    }
    let refusals = told(&house).await.into_iter().filter(|(did, _)| did == "refused").count();
    assert!((8..=40).contains(&refusals), "twenty an hour, of one hour or two: {refusals}");
    other.sign_in("eve").await;
    // What the database keeps is not what a browser holds.
    let session = rita.cookies["frognano"].clone();
    let kept = std::fs::read(house.folder.path().join("data/frognano.sqlite")).unwrap_or_default();
    assert!(!kept.windows(session.len()).any(|bytes| bytes == session.as_bytes()));
}

#[tokio::test]
async fn one_account_fills_neither_the_database_nor_the_hours_of_the_forge() {
    let (house, service) = house(Kind::Gitea).await;
    let asked = || house.forge().requests().iter().filter(|asked| asked.path.contains("/collaborators/")).count();
    let mut first = Browser::at(&service);
    first.sign_in(project::READER).await;
    assert_eq!(first.runs().await.len(), 1);
    let before = asked();
    let mut last = Browser::at(&service);
    for _ in 0..25 {
        last = Browser::at(&service);
        last.sign_in(project::READER).await;
        assert_eq!(last.runs().await.len(), 1);
    }
    assert_eq!(asked(), before, "the forge's word holds for a short while also for who signs in anew");
    assert_eq!((first.json("/api/v1/me").await.0, last.json("/api/v1/me").await.0), (401, 200), "the newest sessions hold");
    // After a minute who signs in anew is asked about anew.
    house.pass(MINUTE_MS);
    last.sign_in(project::READER).await;
    assert_eq!(last.runs().await.len(), 1);
    assert!(asked() > before);
    // A clock that was an hour ahead: what was begun then holds for nobody.
    house.pass(-60 * MINUTE_MS);
    assert_eq!(last.json("/api/v1/me").await.0, 401);
}

#[tokio::test]
async fn who_signs_out_is_told_nothing_more_by_a_page_that_is_still_open() {
    let (house, service) = house(Kind::Gitea).await;
    let mut ada = Browser::at(&service);
    ada.sign_in(project::MAINTAINER).await;
    // One person does not take the places of all.
    let mut open = Vec::new();
    let full = loop {
        let listening = ada.get("/events").await;
        if listening.status() != 200 || open.len() > 20 {
            break listening.status();
        }
        open.push(listening);
    };
    assert_eq!((full.as_u16(), open.len()), (503, 16));
    let mut events = open.remove(0);
    drop(open);
    assert!(events.chunk().await.unwrap().is_some());
    let page = ada.get("/").await.text().await.unwrap();
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert_eq!(ada.post("/sign-out", &format!("csrf={csrf}")).await.status(), 303);
    house.pass(MINUTE_MS);
    let over = async { while events.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(crate::house::PATIENCE, over).await.expect("the events end");
    service.end().await;
}

#[tokio::test]
async fn who_may_read_what_stands_at_an_old_path_does_not_see_what_stood_there() {
    let (house, service) = house(Kind::Gitea).await;
    house.forge().with_repository(project::PATH, |repository| repository.path = "acme/moved".to_owned()).unwrap();
    let other = house.folder.path().join("other.git");
    project::make_bare(&other).unwrap();
    house.forge().add_repository(project::PATH, &other).unwrap();
    house.forge().permit(project::PATH, "eve", Permission::Read).unwrap();
    let (mut eve, mut rita) = (Browser::at(&service), Browser::at(&service));
    eve.sign_in("eve").await;
    rita.sign_in(project::READER).await;
    assert_eq!((eve.runs().await.len(), rita.runs().await.len()), (0, 1));
}

#[tokio::test]
async fn a_proxy_is_believed_where_it_is_and_nobody_else_anywhere() {
    let web = |trusted: &str| {
        format!("[web]\naccess = \"proxy\"\n[web.proxy]\nheader = \"X-Forwarded-User\"\ntrusted = [\"{trusted}\"]\nforge = \"here\"\n")
    };
    let ask = async |service: &Service, logins: &[&str]| {
        let mut request = reqwest::Client::new().get(service.door.replace("/webhooks/here", "/api/v1/me"));
        for login in logins {
            request = request.header("x-forwarded-user", *login);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let house = House::new(Kind::Gitea).await.set(&web("127.0.0.0/8"));
    let service = house.service().await;
    let (status, me) = ask(&service, &[project::READER]).await;
    assert_eq!((status, me["name"].as_str(), me["role"].as_str()), (200, Some(project::READER), Some("reader")), "{me}");
    for (logins, status) in [(&[][..], 401), (&["ada", "rita"], 400), (&[""], 400), (&["a b"], 400)] {
        assert_eq!(ask(&service, logins).await.0, status, "{logins:?}");
    }
    service.end().await;
    let house = House::new(Kind::Gitea).await.set(&web("10.0.0.0/8"));
    let service = house.service().await;
    for logins in [&[][..], &["ada"]] {
        let (status, answer) = ask(&service, logins).await;
        assert_eq!((status, answer.get("name")), (403, None), "{answer}");
    }
    assert_eq!(told(&house).await.len(), 1, "that somebody tried is known");
}
