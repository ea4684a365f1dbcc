//! A log file that starts anew when it is full.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Appends to a file. A line that would make it larger than its limit goes into a fresh file; the full one becomes
/// `<name>.1`, that one `<name>.2`, and so on; the oldest is dropped.
pub struct RotatingFile {
    path: PathBuf,
    limit: u64,
    kept: usize,
    file: File,
    size: u64,
}

impl RotatingFile {
    /// Opens or makes the file. `limit` is in bytes, `kept` is how many full files stay.
    pub fn open(path: &Path, limit: u64, kept: usize) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), limit, kept, file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for n in (1..self.kept).rev() {
            match std::fs::rename(self.numbered(n), self.numbered(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, self.numbered(1))?;
        self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        self.size = 0;
        Ok(())
    }

    fn numbered(&self, n: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{n}"));
        name.into()
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A file that cannot be rotated is better than a log that is lost.
        if self.size > 0 && self.size + bytes.len() as u64 > self.limit && self.rotate().is_err() {
            self.size = 0;
        }
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_numbered_and_the_oldest_is_dropped() {
        let folder = std::env::temp_dir().join(format!("rotate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n", "a line longer than the limit\n"] {
            // Opened each time: a restart goes on where the last run ended.
            RotatingFile::open(&path, 9, 3).unwrap().write_all(line.as_bytes()).unwrap();
        }
        let files = ["log", "log.1", "log.2", "log.3", "log.4"].map(read);
        assert_eq!(files, ["a line longer than the limit\n", "five\n", "four\n", "three\n", ""].map(String::from));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
