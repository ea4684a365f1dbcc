//! How often: client-go's token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets `burst` requests through at once and `qps` in a second after that, first come, first served.
#[derive(Debug)]
pub struct Bucket {
    qps: f64,
    burst: f64,
    /// Tokens left at a moment; below 0 they are promised to those who wait.
    tokens: Mutex<(f64, Instant)>,
}

impl Bucket {
    /// A full bucket; `qps` of 0 or less means no limit.
    pub fn new(qps: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { qps, burst, tokens: Mutex::new((burst, Instant::now())) }
    }

    /// Takes a token and says how long to wait before using it.
    pub fn take(&self) -> Duration {
        if self.qps <= 0.0 {
            return Duration::ZERO;
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let grown = tokens.0 + now.saturating_duration_since(tokens.1).as_secs_f64() * self.qps;
        let left = grown.min(self.burst) - 1.0;
        *tokens = (left, now);
        if left >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-left / self.qps) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_then_rate() {
        let bucket = Bucket::new(10.0, 3);
        let waits: Vec<u128> = (0..6).map(|_| bucket.take().as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        tokio::time::advance(Duration::from_millis(350)).await;
        assert_eq!(bucket.take().as_millis(), 50);
        tokio::time::advance(Duration::from_secs(60)).await;
        let waits: Vec<u128> = (0..4).map(|_| bucket.take().as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "quiet time fills the bucket to the brim and no further");
        let open = Bucket::new(-1.0, 1);
        assert!((0..1000).all(|_| open.take().is_zero()));
    }
}
