//! Command line in, exit code out. Everything else is in the library.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kube::CustomResourceExt;
use ray_operator::cli::{Cli, Command, Flags};
use ray_operator::config::Config;
use ray_operator::{offline, run};

fn main() -> ExitCode {
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Command::Run(flags) => operate(&flags),
        Command::Crd { out } => crd(out.as_deref()),
        Command::Plan { paths, config } => plan(&paths, config),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ray-operator: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Errors from before there is a log go to standard error, later ones to the log.
fn operate(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let config = Config::load(flags)?;
    run::logs::start(&config.logs)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(config.worker_threads).enable_all().build()?;
    Ok(match runtime.block_on(run::start(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(target: "setup", "{error}");
            ExitCode::FAILURE
        }
    })
}

fn crd(out: Option<&Path>) -> Result<ExitCode, Box<dyn Error>> {
    let files = crd_files()?;
    let Some(folder) = out else {
        for (_, yaml) in files {
            println!("---\n{}", yaml.trim_start_matches("---\n").trim_end());
        }
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(folder).map_err(|error| format!("--out {}: {error}", folder.display()))?;
    for (name, yaml) in files {
        let path = folder.join(name);
        std::fs::write(&path, yaml).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// File name and YAML of each CRD.
fn crd_files() -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let crd = ray_operator::api::RayCluster::crd();
    Ok(vec![("ray.io_rayclusters.yaml".to_string(), serde_saphyr::to_string(&crd)?)])
}

fn plan(paths: &[PathBuf], config: Option<PathBuf>) -> Result<ExitCode, Box<dyn Error>> {
    let config = Config::load(&Flags { config, ..Flags::default() })?;
    print!("{}", offline::plan_files(paths, &config)?);
    Ok(ExitCode::SUCCESS)
}
