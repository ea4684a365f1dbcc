//! Command line in, exit code out. Everything else is in the library.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use ray_operator::cli::{Cli, Command, Flags};
use ray_operator::config::Config;
use ray_operator::{api, offline, run};

fn main() -> ExitCode {
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Command::Run(flags) => operate(&flags),
        Command::Crd { out } => crd(out.as_deref()),
        Command::Plan { paths, config } => plan(&paths, config),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ray-operator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn operate(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let config = Config::load(flags)?;
    run::logs::start(&config.logs)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(config.worker_threads).enable_all().build()?;
    runtime.block_on(run::start(config)).inspect_err(|error| tracing::error!("{error}"))?;
    Ok(())
}

fn crd(out: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let files = api::crd::yaml_files();
    let Some(folder) = out else {
        for (_, yaml) in files {
            println!("---\n{}", yaml.trim_start_matches("---\n").trim_end());
        }
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|error| format!("--out {}: {error}", folder.display()))?;
    for (name, yaml) in files {
        let path = folder.join(name);
        std::fs::write(&path, yaml).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn plan(paths: &[PathBuf], config: Option<PathBuf>) -> Result<(), Box<dyn Error>> {
    let config = Config::load(&Flags { config, ..Flags::default() })?;
    print!("{}", offline::plan_files(paths, &config.plan(), Timestamp::now())?);
    Ok(())
}
