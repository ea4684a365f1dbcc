//! Where to listen: the address forms that Go's `net.Listen` users write.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;

/// A listening address as a flag or the configuration file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// `0`: do not listen.
    Off,
    /// `:8080`: every interface, IPv6 and IPv4.
    Every(u16),
    /// `127.0.0.1:8080`, `[::1]:8080`.
    Ip(IpAddr, u16),
    /// `localhost:8080`: resolved when the socket is opened.
    Host(String, u16),
}

/// Why an address was refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not an address to listen on: {problem}. Write \":8080\", \"127.0.0.1:8080\", \"[::1]:8080\" or \"0\" (off)"
)]
pub struct AddressError {
    text: String,
    problem: &'static str,
}

impl ListenAddr {
    /// Reads one of Go's forms: `0`, `:port`, `host:port`, `ip:port`, `[ipv6]:port`. Port 0 asks for any free port.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let fail = |problem| AddressError { text: text.to_string(), problem };
        if text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| fail("the port is missing"))?;
        let port = port.parse().map_err(|_| fail("the port must be a number from 0 to 65535"))?;
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| fail("a bracket is not closed"))?;
            let ip = inner.parse().map_err(|_| fail("there is no IPv6 address between the brackets"))?;
            return Ok(Self::Ip(IpAddr::V6(ip), port));
        }
        if host.is_empty() {
            return Ok(Self::Every(port));
        }
        if host.contains(':') {
            return Err(fail("an IPv6 address must stand in brackets"));
        }
        if let Ok(ip) = host.parse() {
            return Ok(Self::Ip(ip, port));
        }
        let named = host.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_');
        // `300.1.1.1` is a mistyped address and no name.
        if !named || host.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(fail("the part before the port is neither an IP address nor a host name"));
        }
        Ok(Self::Host(host.to_string(), port))
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::Every(port) => write!(f, ":{port}"),
            Self::Ip(IpAddr::V6(ip), port) => write!(f, "[{ip}]:{port}"),
            Self::Ip(ip, port) => write!(f, "{ip}:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_forms() {
        let every = [
            ("0", ListenAddr::Off),
            (":8080", ListenAddr::Every(8080)),
            (":0", ListenAddr::Every(0)),
            ("127.0.0.1:8080", ListenAddr::Ip("127.0.0.1".parse().unwrap(), 8080)),
            ("[::]:8080", ListenAddr::Ip("::".parse().unwrap(), 8080)),
            ("[::1]:8082", ListenAddr::Ip("::1".parse().unwrap(), 8082)),
            ("localhost:9", ListenAddr::Host("localhost".into(), 9)),
        ];
        for (text, wanted) in every {
            assert_eq!(ListenAddr::parse(text).as_ref(), Ok(&wanted), "{text}");
            assert_eq!(wanted.to_string(), text);
        }
    }

    #[test]
    fn refused() {
        for text in ["", "8080", ":http", ":70000", "::1:8080", "[::1:8080", "[x]:1", "300.1.1.1:80", "a b:80"] {
            let error = ListenAddr::parse(text).expect_err(text);
            assert!(error.to_string().contains("Write \":8080\""), "{error}");
        }
    }
}
