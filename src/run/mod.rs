pub mod driver; pub mod metrics;
