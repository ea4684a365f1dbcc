//! What is wrong with a spec, beyond what the API server refuses.
