//! Models from a model hub: which files a model needs, fetching them, and finding them again without a network.
//!
//! Files lie in the cache that Hugging Face's own tools use, in its layout (`hf-hub` knows it), so that a model which is there
//! already is not fetched again. What is fetched is checked before it gets its name: a blob is called by the hash of its content.
//! The transfer is ours: it goes on after a cut, can be stopped, honours NO_PROXY, and nothing unchecked ever gets its final name.
//!
//! An id is never swapped for another: what is asked for is fetched, at one exact commit, or there is an error.

mod cache;
mod client;
mod error;
mod fetch;
mod id;
mod plan;
mod remove;

use std::path::{Path, PathBuf};

pub use cache::Held;
pub use error::HubError;
pub use fetch::{FetchProgress, Watcher};
pub use id::HubId;
pub use plan::{Plan, PlannedFile};

use client::Client;

/// Where the hub is and where its files lie on this machine.
#[derive(Clone, Debug)]
pub struct Hub {
    endpoint: String,
    cache: PathBuf,
    token: Option<Token>,
    offline: bool,
    client: Client,
}

/// A user's access token; it is shown nowhere.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Hub {
    /// The hub of the environment, by the variables that Hugging Face's own tools know: `HF_ENDPOINT` (a mirror),
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`. Proxies follow `HTTPS_PROXY`, `HTTP_PROXY`,
    /// `ALL_PROXY` and `NO_PROXY`.
    ///
    /// # Errors
    /// [`HubError::NoHome`] when nothing tells where the cache is.
    pub fn from_env() -> Result<Self, HubError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// As [`Hub::from_env`], with variables from elsewhere.
    ///
    /// # Errors
    /// As [`Hub::from_env`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let variable = |name: &str| {
            variable(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let user_cache = || variable("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("huggingface"));
        let home = variable("HF_HOME").map(PathBuf::from).or_else(user_cache);
        let home = match home {
            Some(home) => home,
            None => match variable("HOME").or_else(|| variable("USERPROFILE")) {
                Some(home) => PathBuf::from(home).join(".cache/huggingface"),
                None => return Err(HubError::NoHome),
            },
        };
        let token_file = variable("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = variable("HF_TOKEN")
            .or_else(|| variable("HUGGING_FACE_HUB_TOKEN"))
            // Without a file the user has not logged in, which is the usual case.
            .or_else(|| std::fs::read_to_string(token_file).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty())
            .map(Token);
        let yes = |value: String| matches!(value.to_lowercase().as_str(), "1" | "on" | "yes" | "true");
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: variable("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
            token,
            offline: variable("HF_HUB_OFFLINE").is_some_and(yes),
            client: Client::new(),
        })
    }

    /// The folder that models are fetched into.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Whether the network may not be used.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(variables: &[(&str, &str)]) -> Hub {
        Hub::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .unwrap()
    }

    #[test]
    fn the_cache_is_where_other_tools_have_theirs() {
        let place = |variables: &[(&str, &str)]| hub(variables).cache;
        assert_eq!(place(&[("HOME", "/h")]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(
            place(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]),
            Path::new("/c/huggingface/hub")
        );
        assert_eq!(place(&[("HOME", "/h"), ("HF_HOME", "/f")]), Path::new("/f/hub"));
        assert_eq!(
            place(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/g")]),
            Path::new("/g")
        );
        assert_eq!(Hub::from_variables(|_| None).unwrap_err().code(), "no_home");
    }

    #[test]
    fn a_token_comes_from_the_environment_or_its_file_and_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        assert_eq!(hub(&[("HF_HOME", home)]).token(), None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let from_file = hub(&[("HF_HOME", home)]);
        assert_eq!(from_file.token(), Some("hf_file"));
        assert!(!format!("{from_file:?}").contains("hf_file"));
        assert_eq!(
            hub(&[("HF_HOME", home), ("HF_TOKEN", "hf_own")]).token(),
            Some("hf_own")
        );
        assert!(hub(&[("HF_HOME", home), ("HF_HUB_OFFLINE", "1")]).is_offline());
        assert!(!hub(&[("HF_HOME", home), ("HF_HUB_OFFLINE", "0")]).is_offline());
    }
}
