//! A schema registry over HTTP that can be down, in the test's process.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Id of the schema that the registry has and the program does not.
pub const ID: u32 = 1201;
/// The schema of that id.
pub const SCHEMA: &str = r#"{"type":"record","name":"alert","namespace":"lsst.v12_1","fields":[
    {"name":"diaSourceId","type":"long"}]}"#;

/// A registry that answers with one HTTP status after the other, the last one for ever; it ends with the process.
pub struct Registry {
    /// Its address.
    pub url: String,
    asked: Arc<AtomicUsize>,
    from_now: Arc<AtomicUsize>,
}

impl Registry {
    /// Starts one.
    pub fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, from_now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, status) = (asked.clone(), from_now.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                assert!(first.starts_with(&format!("GET /schemas/ids/{ID} ")), "{first}");
                while !lines.next().unwrap().unwrap().is_empty() {}
                let n = count.fetch_add(1, Ordering::SeqCst);
                let status = match status.load(Ordering::SeqCst) {
                    0 => usize::from(statuses[n.min(statuses.len() - 1)]),
                    set => set,
                };
                let body = serde_json::json!({ "schema": SCHEMA }).to_string();
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                // A client that gave up does not read its answer.
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { url, asked, from_now }
    }

    /// From now on it answers with this status.
    pub fn answer(&self, status: u16) {
        self.from_now.store(usize::from(status), Ordering::SeqCst);
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A packet of that schema with this `diaSourceId` (0 to 63).
pub fn packet(id: u8) -> Vec<u8> {
    [&[0], ID.to_be_bytes().as_slice(), &[id * 2]].concat()
}
