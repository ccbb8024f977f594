//! A company's own certificate authority: forge, git, model and collector are reached by it, each where its `ca_file` names it, and not else.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use frognano_bot::app::doctor;
use frognano_bot::config::Config;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Health, Outcome, RepoRef};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::house::House;
use crate::traces::collector::{Collector, Mood, is_root};

/// An authority that no machine knows.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// Its certificate is written to this file.
    fn new(certificate: &Path) -> Self {
        let (mut params, key) = (CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        Self(Issuer::new(params, key))
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// What stands before a server and speaks TLS in its place.
struct Front {
    address: String,
    task: JoinHandle<()>,
}

impl Front {
    async fn before(server: &str, authority: &Authority) -> Self {
        let server: SocketAddr = url::Url::parse(server).unwrap().socket_addrs(|| None).unwrap()[0];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let acceptor = authority.acceptor();
        let task = tokio::spawn(async move {
            loop {
                let (stream, acceptor) = (listener.accept().await.unwrap().0, acceptor.clone());
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(server).await.unwrap();
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut inside).await;
                    }
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A house whose peers are reached by TLS alone.
struct Company {
    house: House,
    collector: Collector,
    _fronts: [Front; 3],
    /// Of each peer the address as it was, and as it is.
    addresses: [(String, String); 3],
}

impl Company {
    async fn new(kind: Kind) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let (house, collector) = (House::new(kind).await, Collector::start(Mood::Takes).await);
        let house = house.set(&collector.lines());
        let authority = Authority::new(&house.folder.path().join("ca.pem"));
        let plain = [house.running.base_url.clone(), house.model.base_url.clone(), collector.endpoint.clone()];
        let fronts = [
            Front::before(&plain[0], &authority).await,
            Front::before(&plain[1], &authority).await,
            Front::before(&plain[2], &authority).await,
        ];
        let secured = |at: usize| {
            let path = url::Url::parse(&plain[at]).unwrap().path().trim_end_matches('/').to_owned();
            format!("{}{path}", fronts[at].address)
        };
        let addresses = [0, 1, 2].map(|at| (plain[at].clone(), secured(at)));
        Self { house, collector, _fronts: fronts, addresses }
    }

    /// The configuration, in which these peers name the authority.
    fn config(&self, trusted: [bool; 3]) -> Config {
        let mut text = std::fs::read_to_string(self.house.write_config()).unwrap();
        let named = format!("ca_file = {:?}\n", self.house.folder.path().join("ca.pem"));
        for ((plain, secured), trusted) in self.addresses.iter().zip(trusted) {
            let (quoted, ca) = (format!("= \"{plain}\"\n"), if trusted { named.as_str() } else { "" });
            assert!(text.contains(&quoted), "{quoted} is not in {text}");
            text = text.replace(&quoted, &format!("= \"{secured}\"\n{ca}"));
        }
        assert!(self.addresses.iter().all(|(plain, _)| !text.contains(plain)), "{text}");
        Config::parse(&text, self.house.folder.path()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forge_git_model_and_collector_are_reached_by_the_companys_own_authority() {
    let company = Company::new(Kind::Gitea).await;
    let service = company.house.service_of(&company.config([true; 3])).await;
    let issue = company.house.open_issue();
    service.take(&company.house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    assert_eq!(company.house.pull_requests().len(), 1);
    company.collector.until(|heard| heard.spans.iter().any(is_root)).await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_name_the_authority_is_told_so_and_nothing_is_sent() {
    for kind in Kind::ALL {
        let company = Company::new(kind).await;
        let named = RepoRef { forge: "here".to_owned(), id: String::new(), path: project::PATH.to_owned() };
        let answered = *company.house.forge().answered().borrow();
        let checks = doctor::examine(&company.config([false; 3]), &[named]).await;
        for (check, word) in [("reachable", "ca_file"), ("answers", "certificate")] {
            let found = checks.iter().find(|found| found.check == check).unwrap();
            assert!(found.status == Health::Fail && found.detail.contains(word), "{kind:?}: {found:?}");
            assert!(found.detail.contains("certificate"), "{kind:?}: {found:?}");
        }
        assert_eq!(*company.house.forge().answered().borrow(), answered, "{kind:?}");
        assert_eq!(company.house.model.requests().len(), 0, "{kind:?}");
    }
}
