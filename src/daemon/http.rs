//! An HTTP listener for whoever watches the daemon: `/metrics` for Prometheus, `/status` as JSON, `/healthz`. It listens on a
//! loopback address only, where it is configured, reads nothing but a request's head, and changes nothing.
use super::service::Service;
use crate::{documents, proto::DaemonState};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 16;
/// How long a connection may take, from its first byte to its last.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest head of a request.
const MAX_HEAD: usize = 16 << 10;
/// How long accepting rests after a failure, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, service: Arc<Service>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = service.clone();
                tokio::spawn(async move {
                    let _in_time = time::timeout(LIMIT, answer(stream, service)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("an HTTP connection could not be accepted: {error}");
                time::sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, service: Arc<Service>) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, &service);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(LIMIT).max_buf_size(MAX_HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), respond).await {
        tracing::debug!("an HTTP connection failed: {error}");
    }
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn respond(request: &Request<Incoming>, service: &Service) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "wanted GET\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => match service.metrics() {
            Ok(text) => response(StatusCode::OK, METRICS, text),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
        "/status" => response(StatusCode::OK, JSON, format!("{:#}\n", documents::status(&service.status()))),
        "/healthz" => match service.state() {
            DaemonState::Ready => response(StatusCode::OK, TEXT, "ready\n"),
            other => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", other.name())),
        },
        _ => response(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /status and /healthz\n"),
    }
}
