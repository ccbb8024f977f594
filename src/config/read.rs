//! Reading the file: each section and key by itself, so that a fault in one does not hide those in the others.

use std::path::Path;

use super::{
    Access, Audit, Config, File, Forge, ForgeSecrets, Guard, Model, Queue, Repositories, Run, Sandbox, SecretSource, Service, Traces,
    Verify, Web,
};

impl Config {
    /// Reads and checks a file and the secrets that it names.
    ///
    /// # Errors
    /// Every complaint at once, each with its place and what to do.
    pub fn load(path: &Path) -> Result<Self, Vec<String>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            vec![format!("{}: can't be read: {error}; config/frognano.example.toml is an annotated example", path.display())]
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(".")))
            .map_err(|complaints| complaints.into_iter().map(|complaint| format!("{}: {complaint}", path.display())).collect())
    }

    /// The same from text; relative secret files are looked for below `folder`.
    ///
    /// # Errors
    /// Every complaint at once.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Vec<String>> {
        let file = parse_every_section(text)?;
        let mut complaints = file.complaints();
        if file.forges.is_empty() {
            complaints.push("[[forge]]: none; the service needs one to serve".to_owned());
        }
        let forges = file.forges.iter().map(|forge| read_secrets(forge, folder, &mut complaints)).collect::<Vec<_>>();
        let mut read = |source: &Option<SecretSource>, place: &str| {
            source.as_ref().and_then(|source| source.read(folder).map_err(|why| complaints.push(format!("{place}: {why}"))).ok())
        };
        let model_key = read(&file.model.key, "[model] key");
        let operator_token = read(&file.service.operator_token, "[service] operator_token");
        let audit_key = read(&file.audit.key, "[audit] key");
        let traces_header = file.telemetry.traces.as_ref().and_then(|traces| read(&traces.header_value, "[telemetry.traces] header_value"));
        let database_password = read(&file.service.database_password, "[service] database_password");
        let mut sign_in = Vec::new();
        for entry in &file.web.sign_in {
            match entry.client_secret.read(folder) {
                Ok(secret) => sign_in.push(secret),
                Err(why) => complaints.push(format!("[[web.sign_in]] {:?} client_secret: {why}", entry.forge)),
            }
        }
        if !complaints.is_empty() {
            return Err(complaints);
        }
        let forges = forges.into_iter().flatten().collect();
        Ok(Self { file, forges, model_key, database_password, operator_token, audit_key, traces_header, sign_in })
    }
}

/// Reads each section by itself, so that a fault in one does not hide those in the others.
fn parse_every_section(text: &str) -> Result<File, Vec<String>> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| vec![error.to_string().trim().to_owned()])?;
    let whole = toml::from_str::<File>(text);
    if let Ok(file) = whole {
        return Ok(file);
    }
    let mut complaints = Vec::new();
    for (name, value) in &table {
        let place = format!("[{name}]");
        match name.as_str() {
            "service" => every_key::<Service>(value, &place, &[], &mut complaints),
            "model" => every_key::<Model>(value, &place, &["url", "name"], &mut complaints),
            "sandbox" => every_key::<Sandbox>(value, &place, &[], &mut complaints),
            "queue" => every_key::<Queue>(value, &place, &[], &mut complaints),
            "run" => every_key::<Run>(value, &place, &[], &mut complaints),
            "repositories" => every_key::<Repositories>(value, &place, &[], &mut complaints),
            "guard" => every_key::<Guard>(value, &place, &[], &mut complaints),
            "verify" => every_key::<Verify>(value, &place, &[], &mut complaints),
            "audit" => every_key::<Audit>(value, &place, &[], &mut complaints),
            "web" => every_key::<Web>(value, &place, &[], &mut complaints),
            "telemetry" => match value.as_table() {
                Some(parts) => {
                    for (key, part) in parts {
                        match key.as_str() {
                            "traces" => every_key::<Traces>(part, "[telemetry.traces]", &["endpoint"], &mut complaints),
                            other => complaints.push(format!("{place} {other}: unknown field")),
                        }
                    }
                }
                None => complaints.push("[telemetry]: is no section".to_owned()),
            },
            "forge" => match value.as_array() {
                Some(forges) => {
                    for (at, forge) in forges.iter().enumerate() {
                        every_key::<Forge>(forge, &format!("[[forge]] number {}", at + 1), &["name", "kind", "url"], &mut complaints);
                    }
                }
                None => complaints.push("[forge]: write [[forge]], one a forge".to_owned()),
            },
            other => complaints.push(format!("[{other}]: there is no such section")),
        }
    }
    if !table.contains_key("model") {
        complaints.push("[model]: missing; it names the model's server (url, name)".to_owned());
    }
    if complaints.is_empty() {
        complaints.push("the file can't be read".to_owned());
    }
    Err(complaints)
}

/// Tries each key of a section alone: a fault of one key does not hide the next.
fn every_key<T: serde::de::DeserializeOwned>(section: &toml::Value, place: &str, required: &[&str], complaints: &mut Vec<String>) {
    let Some(table) = section.as_table() else {
        complaints.push(format!("{place}: is no section"));
        return;
    };
    for (key, value) in table {
        let alone = toml::Value::Table(toml::Table::from_iter([(key.clone(), value.clone())]));
        if let Err(error) = alone.try_into::<T>() {
            let why = error.message().to_owned();
            if !why.starts_with("missing field") {
                complaints.push(format!("{place} {key}: {why}"));
            }
        }
    }
    for key in required.iter().filter(|key| !table.contains_key(**key)) {
        complaints.push(format!("{place} {key}: missing"));
    }
}

fn read_secrets(forge: &Forge, folder: &Path, complaints: &mut Vec<String>) -> Option<ForgeSecrets> {
    let mut read = |source: &SecretSource, what: &str| {
        source.read(folder).map_err(|why| complaints.push(format!("[[forge]] {:?} {what}: {why}", forge.name))).ok()
    };
    let webhook = forge.webhook_secrets.iter().filter_map(|source| read(source, "webhook_secrets")).collect();
    let access = match (&forge.token, &forge.app_id, &forge.app_key) {
        (Some(token), None, None) => Access::Token(read(token, "token")?),
        (None, Some(id), Some(key)) => Access::App { id: id.clone(), key: read(key, "app_key")? },
        _ => return None,
    };
    Some(ForgeSecrets { webhook, access })
}

impl File {
    /// A file for work on a local repository: its forges are left aside, and no secret is read.
    ///
    /// # Errors
    /// Every complaint at once.
    pub fn load_without_forges(path: &Path) -> Result<Self, Vec<String>> {
        Self::load_as(path, |file| Self { forges: Vec::new(), ..file })
    }

    /// The checked file with its forges; no secret is read.
    ///
    /// # Errors
    /// Every complaint at once.
    pub fn load_without_secrets(path: &Path) -> Result<Self, Vec<String>> {
        Self::load_as(path, |file| file)
    }

    fn load_as(path: &Path, part: impl FnOnce(Self) -> Self) -> Result<Self, Vec<String>> {
        let text = std::fs::read_to_string(path).map_err(|error| vec![format!("{}: can't be read: {error}", path.display())])?;
        let placed = |complaints: Vec<String>| {
            complaints.into_iter().map(|complaint| format!("{}: {complaint}", path.display())).collect::<Vec<_>>()
        };
        let file = part(parse_every_section(&text).map_err(placed)?);
        let complaints = file.complaints();
        if complaints.is_empty() { Ok(file) } else { Err(placed(complaints)) }
    }
}
