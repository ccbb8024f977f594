//! Traces: one a run, without a word of anybody, and never in the way of a run.

#[path = "traces/collector.rs"]
pub mod collector;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use frognano_bot::demo::forge::{Delivery, deliver};
use frognano_bot::demo::{Kind, model_server, project};
use frognano_bot::domain::{Outcome, SystemClock};
use frognano_bot::telemetry::metrics;
use frognano_bot::telemetry::traces::{self, About, Counted, Pace, Settings, Traces, trace_of};
use frognano_bot::worker::Ended;

use crate::commands::heard;
use crate::crashes::Bot;
use crate::house::{House, SECRET, TOKEN};
use collector::{Collector, Mood, is_root, said, texts, tree};

const KEY: &str = "the-key-of-the-collector-91c4";
const CANARY: &str = "canary-of-the-issue-b7d2";

async fn tell(deliveries: &[Delivery], bot: &Bot) {
    for delivery in deliveries {
        assert_eq!(deliver(delivery, &bot.door).await.unwrap(), 202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_that_tells_every_part_and_nobodys_words() {
    let collector = Collector::start(Mood::Takes).await;
    let lines = format!(
        "{}header = \"x-collector-key\"\nheader_value = {{ file = \"collector-key\" }}\nservice_name = \"the-bot\"\n\
         attributes = {{ \"deployment.environment.name\" = \"stories\" }}\nlink = \"https://traces.example.com/t/{{trace}}?a=1&b=2\"\n",
        collector.lines()
    );
    let house = House::new(Kind::Gitea).await.set(&lines);
    std::fs::write(house.folder.path().join("collector-key"), KEY).unwrap();
    let service = house.service().await;
    let body = format!("{}\n{CANARY}", project::issue_body());
    let issue = house.forge().open_issue(project::PATH, project::READER, project::issue_title(), &body, &[]).unwrap().number;
    service.take(&house.label(issue)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    collector.until(|heard| heard.spans.iter().any(is_root)).await;

    let (job, run) = (service.jobs().await[0].id.clone(), service.jobs().await[0].run.clone().unwrap());
    collector.heard(|heard| {
        let tree = tree(&heard.spans, &job);
        for part in [
            "run",
            "run > queue wait",
            "run > admitting > GET /repos/{}/{}",
            "run > admitting > GET /repos/{}/{}/collaborators/{}/permission",
            "run > cloning",
            "run > proving > sandbox start > probe",
            "run > proving > sandbox fill",
            "run > tests_before > test run",
            "run > agent > model turn",
            "run > agent > tool call",
            "run > tests_after > sandbox start > probe",
            "run > tests_after > test run",
            "run > publishing > push",
            "run > publishing > pull request > POST /repos/{}/{}/pulls",
        ] {
            assert!(
                tree.iter().any(|(names, _)| names == part),
                "{part} is not in {:#?}",
                tree.iter().map(|(names, _)| names).collect::<Vec<_>>()
            );
        }
        let of = |name: &str| tree.iter().filter(|(_, span)| span.name == name).map(|(_, span)| *span).collect::<Vec<_>>();
        let tools = of("tool call").iter().map(|span| said(span, "gen_ai.tool.name").unwrap()).collect::<Vec<_>>();
        assert_eq!(tools, ["Glob", "Read", "Read", "Bash", "Edit", "Bash"]);
        let turns = of("model turn");
        assert_eq!(turns.len(), 6);
        for turn in turns {
            let tokens = |key: &str| said(turn, key).unwrap().parse::<u64>().unwrap();
            assert!(tokens("gen_ai.usage.input_tokens") > 0 && tokens("gen_ai.usage.output_tokens") > 0);
            assert!(["stop", "tool_calls"].contains(&said(turn, "gen_ai.response.finish_reason").unwrap().as_str()));
            assert_eq!(said(turn, "frognano.attempt").as_deref(), Some("1"));
        }
        let root = of("run")[0];
        let told = ["frognano.run", "frognano.outcome", "frognano.reason", "frognano.proof", "frognano.attempt"].map(|key| said(root, key));
        assert_eq!(told, [Some(run.clone()), Some("proposed".to_owned()), None, Some("fixed".to_owned()), None]);
        let began = tree.iter().map(|(_, span)| span.start_time_unix_nano).min().unwrap();
        assert_eq!(root.start_time_unix_nano, began, "from the label on");
        let later = tree.iter().filter(|(_, span)| span.end_time_unix_nano > root.end_time_unix_nano);
        assert_eq!(later.map(|(names, _)| names).collect::<Vec<_>>(), Vec::<&String>::new(), "to the outcome");
        assert_eq!(heard.resource["service.name"], "the-bot");
        assert_eq!(heard.resource["deployment.environment.name"], "stories");
        assert!(heard.headers.iter().all(|headers| headers["x-collector-key"] == KEY));
        let path = project::PATH.split('/').collect::<Vec<_>>();
        let sent = heard.bodies.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect::<String>();
        let hidden =
            [TOKEN, SECRET, KEY, CANARY, project::READER, path[0], path[1], "nstalment", "plan.py", "divmod", "unittest", "127.0.0.1"];
        for hidden in hidden {
            assert!(!sent.contains(hidden), "{hidden} was sent");
        }
        // So short a name stands in ids by chance.
        let texts = heard.spans.iter().flat_map(|span| texts(span).into_iter().chain([span.name.clone()]));
        let words = texts.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>());
        assert!(words.into_iter().all(|word| word != project::MAINTAINER));
    });

    let trace = trace_of(&job);
    let page = reqwest::get(service.door.replace("/webhooks/here", &format!("/runs/{run}"))).await.unwrap().text().await.unwrap();
    let escaped = page.replace("&amp;", "&").replace("&#38;", "&");
    let link = format!("https://traces.example.com/t/{trace}?a=1&b=2");
    assert!(escaped.contains(&format!("href=\"{link}\"")) && !page.contains("a=1&b=2"), "{page}");
    let url = service.door.replace("/webhooks/here", "");
    let shown = Command::new(env!("CARGO_BIN_EXE_frognano-bot")).args(["runs", "show", &run, "--url", &url]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&trace) && shown.contains(&link), "{shown}");
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_goes_on_after_a_kill_is_still_one_trace() {
    let collector = Collector::start(Mood::Takes).await;
    let house = House::new(Kind::GitLab).await.set(&collector.lines());
    house.open_issue();
    let bot = Bot::start(&house);
    let reached = house.model.hold(2);
    tell(&house.label(1), &bot).await;
    reached.await.unwrap();
    collector.until(|heard| heard.spans.iter().filter(|span| span.name == "model turn").count() == 2).await;
    bot.kill();
    // No variable leads spans elsewhere, or off.
    let elsewhere = "http://127.0.0.1:1";
    let variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
    let variables =
        variables.map(|name| (name, elsewhere)).into_iter().chain([("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_SAMPLER", "always_off")]);
    let bot = Bot::start_with(&house, &variables.collect::<Vec<_>>());
    collector.until(|heard| heard.spans.iter().any(is_root)).await;
    bot.stop();
    let job = frognano_bot::store::Store::open(&house.database()).await.unwrap().jobs(10).await.unwrap()[0].id.clone();
    collector.heard(|heard| {
        let lost = |span: &&opentelemetry_proto::tonic::trace::v1::Span| said(span, "frognano.lease").as_deref() == Some("1");
        let turns = heard.spans.iter().filter(|span| span.name == "model turn").collect::<Vec<_>>();
        assert_eq!((turns.len(), turns.iter().copied().filter(lost).count()), (6, 2), "each turn once");
        // What was open when it was killed was not told; what was below it is a part of the same trace all the same.
        let ids = heard.spans.iter().map(|span| &span.span_id).collect::<std::collections::BTreeSet<_>>();
        let whole = heard.spans.iter().filter(|span| !lost(span) || ids.contains(&span.parent_span_id)).cloned().collect::<Vec<_>>();
        assert!(whole.len() + 20 > heard.spans.len());
        assert!(tree(&whole, &job).iter().any(|(names, _)| names == "run > agent > model turn"));
        assert!(heard.spans.iter().all(|span| span.trace_id == heard.spans[0].trace_id));
        let root = heard.spans.iter().find(|span| is_root(span)).unwrap();
        assert_eq!(said(root, "frognano.lease").as_deref(), Some("2"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_put_back_and_is_stopped_while_it_waits_is_a_whole_trace() {
    let collector = Collector::start(Mood::Takes).await;
    let house = House::new(Kind::GitHub).await.set(&collector.lines());
    let service = house.service().await;
    let issue = house.open_issue();
    house.model.set_mood(model_server::Mood::Down);
    service.take(&house.label(issue)).await;
    assert_eq!(service.step().await, Some(Ended::PutBack));
    service.take(&house.forge().close_issue(project::PATH, issue, project::READER).unwrap()).await;
    heard(&service).await;
    collector.until(|heard| heard.spans.iter().any(is_root)).await;
    let job = service.jobs().await[0].id.clone();
    collector.heard(|heard| {
        let tree = tree(&heard.spans, &job);
        let of = |part: &str| tree.iter().find(|(names, _)| names == part).map(|(_, span)| *span).unwrap();
        assert_eq!(said(of("run"), "frognano.outcome").as_deref(), Some("cancelled"));
        assert_eq!(said(of("run > put back"), "frognano.reason").as_deref(), Some("model_down"));
        assert!(of("run > agent > model turn").status.is_some(), "it failed");
    });
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_costs_a_run_nothing_and_a_stop_a_few_seconds() {
    let collector = Collector::start(Mood::Hangs).await;
    let house = House::new(Kind::Gitea).await.set(&collector.lines());
    house.open_issue();
    let mut bot = Bot::start(&house);
    tell(&house.label(1), &bot).await;
    house.until(|house| house.has_proposed(1)).await;
    bot.ended.recv().await.unwrap();
    let began = std::time::Instant::now();
    let log = bot.stop();
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?} to stop", began.elapsed());
    assert!(log.contains("before the collector of [telemetry.traces] has taken all spans"), "{log}");
}

fn settings(endpoint: &str) -> Settings {
    let moment = Duration::from_millis(20);
    let pace = Pace { gather: moment, patience: 5 * moment, again: vec![moment, moment], closing: Duration::from_secs(60) };
    Settings { endpoint: endpoint.parse().unwrap(), header: None, ca_bundle: None, resource: Vec::new(), share: 1.0, pace }
}

async fn tell_spans(traces: &Traces, spans: u32) {
    let about = About { job: "job", run: "run", repository: "here/1", asked_ms: 0, lease: 1 };
    traces.of(&about).within(async { (0..spans).for_each(|_| drop(traces::span("a moment"))) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_span_is_counted_as_sent_or_as_lost_whatever_the_collector_does() {
    metrics::start();
    let collector = Collector::start(Mood::Takes).await;
    let counted = async |endpoint: &str, mood: Mood, spans: u32, settings: Settings| {
        collector.set(mood);
        let before = collector.heard(|heard| heard.bodies.len());
        let traces = Traces::start(Settings { endpoint: endpoint.parse().unwrap(), ..settings }, Arc::new(SystemClock)).unwrap();
        tell_spans(&traces, spans).await;
        traces.close().await;
        (traces.counted(), collector.heard(|heard| heard.bodies.len()) - before)
    };
    let here = collector.endpoint.clone();
    let none = Counted::default();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("http://{}/v1/traces", free.local_addr().unwrap());
    drop(free);
    let twice = here.replace("/v1/traces", "/nothing/here");
    for (endpoint, mood, spans, expected, requests) in [
        (&here, Mood::Takes, 1000, Counted { sent: 1000, ..none }, None),
        (&here, Mood::LeavesOut(3), 10, Counted { sent: 7, refused: 3, ..none }, Some(1)),
        (&here, Mood::Answers(500), 10, Counted { refused: 10, ..none }, Some(1)),
        (&here, Mood::Answers(301), 10, Counted { refused: 10, ..none }, Some(1)),
        (&here, Mood::Hangs, 10, Counted { unsent: 10, ..none }, None),
        (&gone, Mood::Takes, 10, Counted { unsent: 10, ..none }, Some(0)),
        (&twice, Mood::Takes, 10, Counted { refused: 10, ..none }, Some(0)),
        (&here, Mood::Hangs, 5000, Counted { unsent: 4096, dropped: 904, ..none }, None),
    ] {
        let (told, asked) = counted(endpoint, mood, spans, settings(&here)).await;
        assert_eq!(told.sent + told.dropped + told.refused + told.unsent, u64::from(spans), "{mood:?}: {told:?}");
        if spans == 5000 {
            assert!(told.sent == 0 && told.dropped > 0 && told.unsent >= 4096, "{told:?}");
        } else {
            assert_eq!(told, expected, "{mood:?}");
        }
        assert!(requests.is_none_or(|requests| requests == asked), "{mood:?}: {asked} requests");
    }
    collector.set(Mood::Takes);
    assert_eq!(traces::ask(settings(&here)).await, Ok(()));
    collector.set(Mood::Answers(401));
    assert_eq!(traces::ask(settings(&here)).await, Err("it answers with status 401".to_owned()));
    // Of what may pass it is tried again.
    collector.set(Mood::Answers(503));
    let traces = Traces::start(settings(&here), Arc::new(SystemClock)).unwrap();
    let before = collector.heard(|heard| heard.bodies.len());
    tell_spans(&traces, 10).await;
    collector.until(|heard| heard.bodies.len() == before + 1).await;
    collector.set(Mood::Takes);
    collector.until(|heard| heard.bodies.len() == before + 2).await;
    traces.close().await;
    assert_eq!(traces.counted(), Counted { sent: 10, ..none });
    let text = metrics::exposition().unwrap();
    for came_to in ["sent", "dropped", "refused", "unsent"] {
        assert!(text.contains(&format!("frognano_trace_spans_total{{came_to=\"{came_to}\"}}")), "{text}");
    }
}

#[tokio::test]
async fn what_is_not_chosen_or_not_configured_tells_nothing() {
    let collector = Collector::start(Mood::Takes).await;
    let traces = Traces::start(Settings { share: 0.0, ..settings(&collector.endpoint) }, Arc::new(SystemClock)).unwrap();
    tell_spans(&traces, 10).await;
    drop(traces::span("outside of any run"));
    traces.close().await;
    assert_eq!((traces.counted(), collector.heard(|heard| heard.bodies.len())), (Counted::default(), 0));
    let off = Traces::default();
    tell_spans(&off, 10).await;
    off.close().await;
    assert_eq!(off.counted(), Counted::default());
}

#[tokio::test]
async fn words_of_somebody_do_not_get_into_a_span_by_mistake() {
    let collector = Collector::start(Mood::Takes).await;
    let traces = Traces::start(settings(&collector.endpoint), Arc::new(SystemClock)).unwrap();
    let about = About { job: "job", run: "a run of somebody", repository: "here/1", asked_ms: 0, lease: 1 };
    traces.of(&about).ended("refused", "a sentence of somebody", None);
    traces.close().await;
    collector.heard(|heard| {
        let told = ["frognano.run", "frognano.reason", "frognano.repository"].map(|key| said(&heard.spans[0], key).unwrap());
        assert_eq!(told, ["other", "other", "here/1"]);
    });
}
