//! Fetches what is signed: a file, and beside it its signature.

use std::{io::Read, time::Duration};

use minisign_verify::{PublicKey, Signature};
use ureq::Agent;

use super::{Source, UpdateError, is_safe};

/// All knowledge files together have less than a megabyte.
const MOST_BYTES: u64 = 8 << 20;

/// A signature has four short lines.
const MOST_SIGNATURE_BYTES: u64 = 8 << 10;

const CONNECT: Duration = Duration::from_secs(30);
/// Longest silence.
const SILENCE: Duration = Duration::from_mins(1);

/// What is at the source's address, after its signature at the same address with `.minisig` was found to be good.
pub(super) fn signed(source: &Source) -> Result<Vec<u8>, UpdateError> {
    let wrong = |message: String| UpdateError::Signature {
        address: source.address.clone(),
        message,
    };
    let key = PublicKey::from_base64(source.public_key.trim())
        .map_err(|error| wrong(format!("the public key cannot be read: {error}")))?;
    let agent = agent(&source.address);
    let content = get(&agent, &source.address, MOST_BYTES)?;
    let beside = format!("{}.minisig", source.address);
    // Whoever cannot show a signature has none.
    let signature = get(&agent, &beside, MOST_SIGNATURE_BYTES)
        .map_err(|error| wrong(format!("there is no signature ({error})")))?;
    let signature = String::from_utf8(signature)
        .map_err(|error| error.to_string())
        .and_then(|text| Signature::decode(&text).map_err(|error| error.to_string()))
        .map_err(|error| wrong(format!("the signature cannot be read: {error}")))?;
    key.verify(&content, &signature, false)
        .map_err(|error| wrong(error.to_string()))?;
    Ok(content)
}

fn agent(address: &str) -> Agent {
    Agent::config_builder()
        .http_status_as_error(true)
        // An address that is safe may lead to another one, but to none that is not.
        .https_only(address.starts_with("https://"))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

fn get(agent: &Agent, address: &str, most: u64) -> Result<Vec<u8>, UpdateError> {
    let failed = |message: String| UpdateError::NotFetched {
        address: address.to_owned(),
        message,
    };
    if !is_safe(address) {
        return Err(failed("it does not begin with https://".to_owned()));
    }
    let mut response = agent
        .get(address)
        .call()
        .map_err(|error| failed(error.to_string()))?;
    if response.status() != 200 {
        return Err(failed(format!("the answer is {}", response.status())));
    }
    let mut content = Vec::new();
    response
        .body_mut()
        .as_reader()
        .take(most + 1)
        .read_to_end(&mut content)
        .map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > most {
        return Err(failed(format!("it is larger than {most} bytes")));
    }
    Ok(content)
}
