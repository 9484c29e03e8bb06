//! TLS of the gateway and the upload: certificates from PEM files, and connections that are plain or
//! not. TLS 1.2 and 1.3; who trusts nobody in particular trusts what the system does. Files that are
//! renewed are read again ([`renewed`]).

pub mod renewed;

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use warren_sys::socket::is_readable;

use crate::tls::renewed::Renewed;
use warren_http::serve::Client;
use warren_log_show::Failure;

/// Certificates that the system trusts; Debian's ca-certificates.
const SYSTEM_TRUST: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Largest file of certificates or keys, bytes.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// What a server speaks TLS with, as the files say now.
pub type Server = Renewed<ServerConfig>;

/// What a server shows, and whose clients it takes.
///
/// # Errors
/// When a file is not there or not PEM, or the key is not the certificate's.
pub fn server(
    certificate: PathBuf,
    key: PathBuf,
    trust: Option<PathBuf>,
) -> std::result::Result<Server, Failure> {
    let files = [&certificate, &key].into_iter().chain(&trust).cloned().collect();
    Renewed::new(files, move || read_server(&certificate, &key, trust.as_deref()))
}

fn read_server(
    certificate: &Path,
    key: &Path,
    trust: Option<&Path>,
) -> std::result::Result<Arc<ServerConfig>, Failure> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| Failure(e.to_string()))?;
    let builder = match trust {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| bad(path, &e))?)
        }
    };
    let config = builder.with_single_cert(chain(certificate)?, private_key(key)?);
    Ok(Arc::new(config.map_err(|e| bad(certificate, &e))?))
}

/// Which servers a client takes, and what it shows them.
///
/// # Errors
/// The same.
pub fn client(
    identity: Option<(PathBuf, PathBuf)>,
    trust: Option<PathBuf>,
) -> std::result::Result<Renewed<ClientConfig>, Failure> {
    let trust = trust.unwrap_or_else(|| SYSTEM_TRUST.into());
    let own = identity.iter().flat_map(|(certificate, key)| [certificate, key]);
    let files = own.chain([&trust]).cloned().collect();
    Renewed::new(files, move || {
        let identity = identity.as_ref().map(|(certificate, key)| (&**certificate, &**key));
        read_client(identity, &trust)
    })
}

fn read_client(
    identity: Option<(&Path, &Path)>,
    trust: &Path,
) -> std::result::Result<Arc<ClientConfig>, Failure> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| Failure(e.to_string()))?;
    let roots = Arc::new(roots(trust)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
    let builder = builder.with_webpki_verifier(verifier.map_err(|e| bad(trust, &e))?);
    let Some((certificate, key)) = identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let config = builder.with_client_auth_cert(chain(certificate)?, private_key(key)?);
    Ok(Arc::new(config.map_err(|e| bad(certificate, &e))?))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn bad(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> std::result::Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| bad(path, &e))?;
    file.take(PEM_BYTES_MAX).read_to_end(&mut data).map_err(|e| bad(path, &e))?;
    Ok(data)
}

fn chain(path: &Path) -> std::result::Result<Vec<CertificateDer<'static>>, Failure> {
    let all: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read(path)?).collect();
    match all {
        Ok(all) if all.is_empty() => Err(bad(path, &"no certificate in PEM")),
        all => all.map_err(|e| bad(path, &e)),
    }
}

fn private_key(path: &Path) -> std::result::Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|e| bad(path, &e))
}

/// Those among the certificates of a file that can be trusted: a system's may have others.
fn roots(path: &Path) -> std::result::Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(chain(path)?) {
        (0, _) => Err(bad(path, &"no certificate that can be trusted")),
        _ => Ok(roots),
    }
}

/// The server's end of a connection.
pub struct Accepted<'a> {
    socket: &'a Client,
    tls: Option<Box<ServerConnection>>,
}

impl<'a> Accepted<'a> {
    /// Over a connection on which nothing was said; plain without a configuration.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new(socket: &'a Client, config: Option<Arc<ServerConfig>>) -> Result<Accepted<'a>> {
        let tls = config.map(ServerConnection::new).transpose().map_err(Error::other)?;
        Ok(Accepted { socket, tls: tls.map(Box::new) })
    }

    /// The connection itself: to be waited at.
    pub fn socket(&self) -> &'a Client {
        self.socket
    }

    /// Reads what there is, at the latest until a time: also while the two ends still agree on keys,
    /// however slowly the client speaks.
    ///
    /// # Errors
    /// `TimedOut` after that time; what the connection says; `InvalidData` when it is no TLS, which
    /// the client is told.
    pub fn read_until(&mut self, room: &mut [u8], until: Instant) -> Result<usize> {
        loop {
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    tls.write_tls(&mut self.socket)?;
                }
                match tls.reader().read(room) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    done => return done,
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.bound_reads(left)?;
            let done = match &mut self.tls {
                None => self.socket.read(room),
                Some(tls) => tls.read_tls(&mut self.socket),
            };
            match (done, &mut self.tls) {
                (Err(e), _) if e.kind() == ErrorKind::Interrupted => {}
                (Ok(1..), Some(tls)) => {
                    if let Err(e) = tls.process_new_packets() {
                        let _ = tls.write_tls(&mut self.socket);
                        return Err(Error::new(ErrorKind::InvalidData, e));
                    }
                }
                (done, _) => return done,
            }
        }
    }

    /// Says that nothing more comes: without it, a client cannot tell the end from a cut.
    pub fn end(&mut self) -> Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        self.flush()
    }
}

impl Write for Accepted<'_> {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        match &mut self.tls {
            None => self.socket.write(data),
            Some(tls) => {
                while tls.wants_write() {
                    tls.write_tls(&mut self.socket)?;
                }
                tls.writer().write(data)
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        self.socket.flush()
    }
}

/// The client's end of a connection.
pub enum Connected {
    /// In the open.
    Plain(TcpStream),
    /// Not so.
    Tls(Box<rustls::StreamOwned<ClientConnection, TcpStream>>),
}

impl Connected {
    /// Over a connection on which nothing was said, to a server of that name or address.
    ///
    /// # Errors
    /// When there is no such name, or the two ends come to no agreement.
    pub fn tls(socket: TcpStream, config: Arc<ClientConfig>, host: &str) -> Result<Connected> {
        let bad = |e| Error::new(ErrorKind::InvalidInput, e);
        let name = ServerName::try_from(host.to_owned()).map_err(bad)?;
        let tls = ClientConnection::new(config, name).map_err(Error::other)?;
        Ok(Connected::Tls(Box::new(rustls::StreamOwned::new(tls, socket))))
    }

    /// Whether the server has hung up, or said what nobody asked for.
    pub fn has_ended(&mut self) -> bool {
        let stream = match self {
            Connected::Plain(socket) => return is_readable(socket),
            Connected::Tls(stream) => stream,
        };
        while is_readable(&stream.sock) {
            let read = stream.conn.read_tls(&mut stream.sock);
            let state = match read {
                Ok(1..) => stream.conn.process_new_packets(),
                _ => return true,
            };
            // Tickets for other connections may come at any time.
            if !state.is_ok_and(|it| it.plaintext_bytes_to_read() == 0 && !it.peer_has_closed()) {
                return true;
            }
        }
        false
    }
}

impl Read for Connected {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        match self {
            Connected::Plain(socket) => socket.read(room),
            Connected::Tls(stream) => stream.read(room),
        }
    }
}

impl Write for Connected {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        match self {
            Connected::Plain(socket) => socket.write(data),
            Connected::Tls(stream) => stream.write(data),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Connected::Plain(socket) => socket.flush(),
            Connected::Tls(stream) => stream.flush(),
        }
    }
}
