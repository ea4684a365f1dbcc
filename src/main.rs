//! Command line in, exit code out. Everything else is in the library.

use std::error::Error;
use std::io::{ErrorKind, Write};
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
    let files = api::crd::yaml_files();
    let mut text = String::new();
    for (name, yaml) in files {
        let Some(folder) = out else {
            text += &format!("---\n{}\n", yaml.trim_start_matches("---\n").trim_end());
            continue;
        };
        let path = folder.join(name);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, yaml))
            .map_err(|error| format!("--out {}: cannot write {}: {error}", folder.display(), path.display()))?;
        text += &format!("{}\n", path.display());
    }
    print(&text)
}

fn plan(paths: &[PathBuf], config: Option<PathBuf>) -> Result<ExitCode, Box<dyn Error>> {
    let config = Config::load(&Flags { config, ..Flags::default() })?;
    print(&offline::plan_files(paths, &config.plan(), Timestamp::now())?)
}

/// Prints to a reader that may go away before the end, like `head`.
fn print(text: &str) -> Result<ExitCode, Box<dyn Error>> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
