pub mod election;
