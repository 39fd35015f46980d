//! Serves the in-memory account of Microsoft's crate `azure_data_cosmos_driver` over HTTP, on
//! free ports of 127.0.0.1, until it is killed. It prints `endpoint: URL` when it is ready.
//!
//! With `--regions` the account has two regions, the first of which takes the writes. Each has
//! a port, which it prints before as `region NAME: URL`; the endpoint is that of the first.
//!
//! The account checks no key. It answers all requests but these as the crate does, which are
//! some of those that manage the embedded account:
//!
//! ```text
//! POST   /_emulator/split {"database": d, "container": c, "range": "0"} → {"children": ["4", "5"]}
//! POST   /_emulator/failover {"region": r, "kind": "planned"} → {"regions": […]}
//! POST   /_emulator/replication {"region": r, "paused": true} → {"regions": […]}
//! POST   /_emulator/faults {"region": r, "drop": "before"} → {"id": r}, the region is offline
//! DELETE /_emulator/faults → {"removed": 1}, all regions are online
//! ```

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{AsyncRawResponse, Request as AccountRequest, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    InMemoryEmulatorHttpClient, RegionStatus, ReplicationConfig, VirtualAccountConfig,
    VirtualRegion,
};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{json, Value};
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;

struct Account {
    client: InMemoryEmulatorHttpClient,
}

// The account needs a runtime for its splits. One thread is enough: it never waits for I/O.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let names: &[&str] = match std::env::args().nth(1).as_deref() {
        None => &["East US"],
        Some("--regions") => &["West Europe", "North Europe"],
        Some(other) => return Err(format!("there is no argument {other}, only --regions").into()),
    };
    let mut listeners = Vec::new();
    let mut regions = Vec::new();
    for name in names {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = Url::parse(&format!("http://{}/", listener.local_addr()?))?;
        regions.push(VirtualRegion::new(name, endpoint.clone()));
        listeners.push((listener, endpoint));
    }
    // A write arrives in the other region at once, as on the embedded account without a lag.
    let config =
        VirtualAccountConfig::new(regions)?.with_replication_config(ReplicationConfig::immediate());
    let client = InMemoryEmulatorHttpClient::try_new(config)?;
    if names.len() > 1 {
        for (name, (_, endpoint)) in names.iter().zip(&listeners) {
            println!("region {name}: {endpoint}");
        }
    }
    println!("endpoint: {}", listeners[0].1);
    let account = Arc::new(Account { client });
    let mut tasks = tokio::task::JoinSet::new();
    for (listener, endpoint) in listeners {
        tasks.spawn(accept(Arc::clone(&account), listener, endpoint));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Serves the connections of a region.
async fn accept(
    account: Arc<Account>,
    listener: TcpListener,
    endpoint: Url,
) -> Result<(), Failure> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (account, endpoint) = (Arc::clone(&account), endpoint.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (account, endpoint) = (Arc::clone(&account), endpoint.clone());
                async move { account.serve(request, endpoint).await }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(failure) = connection.await {
                eprintln!("connection: {failure}"); // most often the client has closed it
            }
        });
    }
}

impl Account {
    /// Answers a request that has arrived at the endpoint of a region; failures of this program
    /// are a 500 with their text. It fails if the region is offline, which closes the connection.
    async fn serve(
        &self,
        request: Request<Incoming>,
        endpoint: Url,
    ) -> io::Result<Response<Full<Bytes>>> {
        let answer = if request.uri().path().starts_with("/_emulator/") {
            self.manage(request).await
        } else {
            let region = self.client.store().config().region_for_url(&endpoint);
            if region.is_some_and(|region| region.status == RegionStatus::Offline) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.pass_on(request, endpoint).await
        };
        Ok(answer.unwrap_or_else(|failure| {
            let mut response = Response::new(Full::from(failure.to_string()));
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }))
    }

    async fn pass_on(
        &self,
        request: Request<Incoming>,
        mut url: Url,
    ) -> Result<Response<Full<Bytes>>, Failure> {
        let (head, body) = request.into_parts();
        url.set_path(head.uri.path());
        let mut passed = AccountRequest::new(url, head.method.as_str().parse()?);
        for (name, value) in &head.headers {
            let name = HeaderName::from(name.as_str().to_owned());
            // A position in the feed names a document, in UTF-8.
            let value = HeaderValue::from(String::from_utf8(value.as_bytes().to_vec())?);
            passed.headers_mut().insert(name, value);
        }
        passed.set_body(body.collect().await?.to_bytes());
        let answer = self.client.execute_request(&passed).await?;
        response(answer).await
    }

    async fn manage(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)?
        };
        let answer = match (head.method.as_str(), head.uri.path()) {
            ("POST", "/_emulator/split") => self.split(&body).await?,
            ("POST", "/_emulator/failover") => self.fail_over(&body)?,
            ("POST", "/_emulator/replication") => self.replicate(&body)?,
            ("POST", "/_emulator/faults") => self.take_offline(&body)?,
            ("DELETE", "/_emulator/faults") => self.bring_online()?,
            (method, path) => return Err(format!("there is no {method} {path}").into()),
        };
        Ok(Response::new(Full::from(answer.to_string())))
    }

    async fn split(&self, body: &Value) -> Result<Value, Failure> {
        let (database, container) = (text(body, "database")?, text(body, "container")?);
        let range: u32 = text(body, "range")?.parse()?;
        let store = self.client.store();
        store.split_partition(database, container, range, Duration::ZERO);
        store.wait_for_split(database, container, range).await;
        let children: Vec<String> = store
            .child_partition_ids(database, container, &[range])
            .iter()
            .map(u32::to_string)
            .collect();
        if children.is_empty() {
            return Err(format!("range {range} of {database}/{container} did not split").into());
        }
        Ok(json!({ "children": children }))
    }

    /// Moves the writes to a region: the outcome of a planned failover, not its course.
    fn fail_over(&self, body: &Value) -> Result<Value, Failure> {
        if text(body, "kind")? != "planned" {
            return Err("this account has only planned failovers".into());
        }
        self.client
            .store()
            .set_write_region(text(body, "region")?)?;
        Ok(self.regions())
    }

    fn replicate(&self, body: &Value) -> Result<Value, Failure> {
        let region = text(body, "region")?;
        if body["paused"].as_bool().unwrap_or_default() {
            self.client.store().pause_replication(region);
        } else {
            self.client.store().resume_replication(region);
        }
        Ok(self.regions())
    }

    fn take_offline(&self, body: &Value) -> Result<Value, Failure> {
        if text(body, "drop")? != "before" {
            return Err("the only fault of this account is a region that does not answer".into());
        }
        let region = text(body, "region")?;
        self.client.store().set_region_offline(region)?;
        Ok(json!({ "id": region }))
    }

    fn bring_online(&self) -> Result<Value, Failure> {
        let store = self.client.store();
        let offline = store.config().topology_snapshot().offline;
        for region in &offline {
            store.set_region_online(region)?;
        }
        Ok(json!({ "removed": offline.len() }))
    }

    fn regions(&self) -> Value {
        let store = self.client.store();
        let names = store.config().active_region_names();
        let regions = names
            .iter()
            .map(|name| json!({ "name": name, "writes": store.config().is_write_region(name) }));
        json!({ "regions": regions.collect::<Vec<_>>() })
    }
}

fn text<'a>(body: &'a Value, name: &str) -> Result<&'a str, Failure> {
    Ok(body[name].as_str().ok_or(format!("{name} is missing"))?)
}

async fn response(answer: AsyncRawResponse) -> Result<Response<Full<Bytes>>, Failure> {
    let answer = answer.try_into_raw_response().await?;
    let mut builder = Response::builder().status(u16::from(answer.status()));
    for (name, value) in answer.headers().iter() {
        builder = builder.header(name.as_str(), value.as_str());
    }
    Ok(builder.body(Full::from(answer.body().as_ref().to_vec()))?)
}
