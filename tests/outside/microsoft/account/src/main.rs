//! Serves the in-memory account of Microsoft's crate `azure_data_cosmos_driver` over HTTP, on
//! a free port of 127.0.0.1, until it is killed. It prints `endpoint: URL` when it is ready.
//!
//! The account checks no key. It answers all requests but one as the crate does:
//!
//! ```text
//! POST /_emulator/split {"database": d, "container": c, "range": "0"} → {"children": ["4", "5"]}
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{AsyncRawResponse, Request as AccountRequest, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    InMemoryEmulatorHttpClient, VirtualAccountConfig, VirtualRegion,
};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;

struct Account {
    endpoint: Url,
    client: InMemoryEmulatorHttpClient,
}

// The account needs a runtime for its splits. One thread is enough: it never waits for I/O.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = Url::parse(&format!("http://{}/", listener.local_addr()?))?;
    let region = VirtualRegion::new("East US", endpoint.clone());
    let client = InMemoryEmulatorHttpClient::try_new(VirtualAccountConfig::new(vec![region])?)?;
    println!("endpoint: {endpoint}");
    let account = Arc::new(Account { endpoint, client });
    loop {
        let (stream, _) = listener.accept().await?;
        let account = Arc::clone(&account);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let account = Arc::clone(&account);
                async move { Ok::<_, Infallible>(account.serve(request).await) }
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
    /// Answers a request; failures of this program are a 500 with their text.
    async fn serve(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = if request.uri().path() == "/_emulator/split" {
            self.split(request).await
        } else {
            self.pass_on(request).await
        };
        answer.unwrap_or_else(|failure| {
            let mut response = Response::new(Full::from(failure.to_string()));
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
    }

    async fn pass_on(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
        let (head, body) = request.into_parts();
        let mut url = self.endpoint.clone();
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
        Ok(response(answer).await?)
    }

    async fn split(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
        let body: serde_json::Value =
            serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
        let text = |name: &str| body[name].as_str().ok_or(format!("{name} is missing"));
        let (database, container) = (text("database")?, text("container")?);
        let range: u32 = text("range")?.parse()?;
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
        let answer = serde_json::json!({ "children": children });
        Ok(Response::new(Full::from(answer.to_string())))
    }
}

async fn response(answer: AsyncRawResponse) -> Result<Response<Full<Bytes>>, Failure> {
    let answer = answer.try_into_raw_response().await?;
    let mut builder = Response::builder().status(u16::from(answer.status()));
    for (name, value) in answer.headers().iter() {
        builder = builder.header(name.as_str(), value.as_str());
    }
    Ok(builder.body(Full::from(answer.body().as_ref().to_vec()))?)
}
