//! Requests to a hub, and what its refusals mean.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::{Hub, HubError, HubId};

/// A description of the largest repositories has a few MB.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;
const CONNECT: Duration = Duration::from_secs(30);
/// Longest silence.
const SILENCE: Duration = Duration::from_mins(1);

/// Sends requests; proxies are taken from the environment.
#[derive(Clone, Debug)]
pub(super) struct Client {
    agent: Agent,
}

impl Client {
    pub(super) fn new() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A hub sends large files from other hosts, which the token is not for.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.new_agent(),
        }
    }
}

impl Hub {
    /// The hub's own description of a model at a revision: its commit, its files with sizes and hashes, its licence.
    pub(super) fn describe(&self, id: &HubId) -> Result<Value, HubError> {
        let url = format!(
            "{}/api/models/{}/revision/{}?blobs=true",
            self.endpoint,
            id.repository(),
            id.revision().replace('/', "%2F")
        );
        let mut response = self.get(&url, None)?;
        if response.status() != 200 {
            return Err(self.refusal(id, &response));
        }
        let mut text = Vec::new();
        response
            .body_mut()
            .as_reader()
            .take(MAX_DESCRIPTION_BYTES)
            .read_to_end(&mut text)
            .map_err(|error| self.not_reached(&error.to_string()))?;
        serde_json::from_slice(&text)
            .map_err(|error| self.bad_answer(format!("a description that is no JSON: {error}")))
    }

    /// A file of a model at a commit, from a byte on.
    pub(super) fn open(&self, id: &HubId, file: &str, from: u64) -> Result<Response<Body>, HubError> {
        let path: Vec<String> = file.split('/').map(|part| part.replace(' ', "%20")).collect();
        let url = format!(
            "{}/{}/resolve/{}/{}",
            self.endpoint,
            id.repository(),
            id.revision(),
            path.join("/")
        );
        let response = self.get(&url, Some(from).filter(|from| *from > 0))?;
        match response.status().as_u16() {
            200 | 206 => Ok(response),
            _ => Err(self.refusal(id, &response)),
        }
    }

    fn get(&self, url: &str, from: Option<u64>) -> Result<Response<Body>, HubError> {
        let mut request = self.client.agent.get(url);
        if let Some(token) = self.token() {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(from) = from {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request
            .call()
            .map_err(|error| self.not_reached(&error.to_string()))
    }

    /// What the hub means by a status that is no success.
    fn refusal(&self, id: &HubId, response: &Response<Body>) -> HubError {
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let repository = id.repository().to_owned();
        let token = self.token().is_some();
        match (response.status().as_u16(), header("x-error-code")) {
            (_, "GatedRepo") | (403, _) => HubError::Gated {
                page: format!("{}/{repository}", self.endpoint),
                repository,
                token,
            },
            (_, "RevisionNotFound") => HubError::NoRevision {
                repository,
                revision: id.revision().to_owned(),
            },
            // The hub hides what a user may not see: what is private looks like what is not there.
            (401, "RepoNotFound") | (404, "RepoNotFound" | "") => HubError::NoModel {
                host: self.host(),
                repository,
                token,
            },
            (401, _) if token => HubError::TokenRefused { host: self.host() },
            (401, _) => HubError::NoModel {
                host: self.host(),
                repository,
                token,
            },
            (status, code) => {
                let code = if code.is_empty() {
                    String::new()
                } else {
                    format!(" ({code})")
                };
                self.bad_answer(format!("status {status}{code}"))
            }
        }
    }

    pub(super) fn not_reached(&self, reason: &str) -> HubError {
        HubError::NotReached {
            host: self.host(),
            reason: reason.to_owned(),
        }
    }

    pub(super) fn bad_answer(&self, answer: String) -> HubError {
        HubError::BadAnswer {
            host: self.host(),
            answer,
        }
    }

    /// The endpoint without a name and password that may stand in it.
    fn host(&self) -> String {
        let after = self.endpoint.split("://").nth(1).unwrap_or(&self.endpoint);
        after.rsplit('@').next().unwrap_or(after).to_owned()
    }
}
