//! New ways out of the program are shown: processes, networks, code made from data, doors left open. Only a person can tell whether the issue asks
//! for them. What runs while the project is installed is refused.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ruff_python_ast::comparable::ComparableExpr;
use ruff_python_ast::{AnyNodeRef, Expr, ExprCall};

use super::Patch;
use super::python::place::{last, runs_at_import};
use super::python::{Fact, Module, Names, PythonFile, Role, each, fresh};
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "risky-call";

const KINDS: &[(&str, &[&str])] = &[
    (
        "starts a process",
        &[
            "os.system",
            "os.popen",
            "os.spawn",
            "os.posix_spawn",
            "os.startfile",
            "subprocess.",
            "pty.spawn",
            "commands.",
            "asyncio.create_subprocess",
            "multiprocessing.",
            "popen2.",
            "sh.",
            "pexpect.",
            "fabric.",
            "os.fork",
            "signal.signal",
        ],
    ),
    (
        "makes code from data",
        &[
            "eval",
            "exec",
            "compile",
            "code.interact",
            "runpy.",
            "types.FunctionType",
            "types.CodeType",
            "marshal.load",
            "importlib.util.spec_from",
            "importlib.machinery.",
            "imp.load",
        ],
    ),
    (
        "makes objects from data",
        &[
            "pickle.load",
            "pickle.Unpickler",
            "_pickle.",
            "cPickle.",
            "dill.",
            "cloudpickle.load",
            "shelve.",
            "jsonpickle.decode",
            "joblib.load",
            "pandas.read_pickle",
            "torch.load",
            "yaml.load",
            "yaml.unsafe_load",
            "yaml.full_load",
            "numpy.load",
        ],
    ),
    (
        "reaches a network",
        &[
            "socket.",
            "urllib.request",
            "urllib2.",
            "urllib3.",
            "http.client",
            "requests.",
            "httpx.",
            "aiohttp.",
            "ftplib.",
            "smtplib.",
            "telnetlib.",
            "xmlrpc.",
            "paramiko.",
            "websocket",
            "asyncio.open_connection",
            "http.server",
            "socketserver.",
            "boto3.",
            "webbrowser.",
            "grpc.",
            "websockets.",
        ],
    ),
    (
        "weakens a secure connection",
        &[
            "ssl._create_unverified_context",
            "ssl.CERT_NONE",
            "ssl._create_default_https_context",
            "ssl.wrap_socket",
            "urllib3.disable_warnings",
        ],
    ),
    ("unpacks what may lie outside its folder", &["tarfile.open().extractall", "zipfile.ZipFile().extractall", "shutil.unpack_archive"]),
    ("uses an old hash", &["hashlib.md5", "hashlib.sha1"]),
    ("calls into another language", &["ctypes.", "cffi."]),
    (
        "deletes or opens up files",
        &["shutil.rmtree", "os.chmod", "os.fchmod", "os.umask", "os.chown", "os.setuid", "tempfile.mktemp", "os.removedirs"],
    ),
    ("parses what may attack the parser", &["xml.etree", "xml.sax", "xml.dom", "lxml.etree"]),
];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(fresh(patch, RULE, facts))
}

fn facts(file: &PythonFile<'_>, module: &Module) -> Vec<Fact> {
    let mut facts = Vec::new();
    let is_setup = matches!(super::file_name(&file.file.path), b"setup.py" | b"hatch_build.py");
    each(&module.body, |path, node| {
        let line = module.line(&node);
        match node {
            AnyNodeRef::ExprCall(call) => {
                let full = module.names.full(&call.func);
                let opens_up = || matches!(last(&full), "chmod" | "lchmod").then_some("deletes or opens up files");
                let weighed = kind(&full).or_else(opens_up).or_else(|| hidden(call, &module.names)).or_else(|| argument(call));
                if let Some(why) = weighed {
                    let installs = file.role == Role::Build && (is_setup || runs_at_import(path)) && is_code_or_process(why);
                    let severity = if installs { Refuse } else { Flag };
                    facts.push(Fact::new(severity, line, format!("call:{full}:{}", fingerprint(call)), format!("{} {why}", shown(&full))));
                }
            }
            AnyNodeRef::ExprAttribute(of) if !matches!(path.last(), Some(AnyNodeRef::ExprAttribute(_))) => {
                let full = module.names.full_ref(of.into());
                let is_called = matches!(path.last(), Some(AnyNodeRef::ExprCall(_)));
                if let Some(why) = kind(&full).filter(|_| !is_called) {
                    facts.push(Fact::new(Flag, line, format!("name:{full}"), format!("{full} {why}")));
                }
            }
            AnyNodeRef::StmtAssign(of) => {
                let unsure = of.targets.iter().filter_map(|target| unverified(target, &of.value, &module.names));
                facts
                    .extend(unsure.map(|name| Fact::new(Flag, line, format!("tls:{name}"), format!("{name} weakens a secure connection"))));
            }
            AnyNodeRef::ExprDict(of) => {
                let named = of.items.iter().filter_map(|item| Some((module.names.text(item.key.as_ref()?)?, &item.value)));
                let unsure = named.filter(|(name, value)| asks_not_to_verify(name, value));
                facts.extend(
                    unsure.map(|(name, _)| Fact::new(Flag, line, format!("tls:{name}"), format!("{name} weakens a secure connection"))),
                );
            }
            AnyNodeRef::ExprStringLiteral(_) | AnyNodeRef::ExprBinOp(_) => {
                let text = node.as_expr_ref().and_then(|expr| module.names.text_ref(expr)).unwrap_or_default();
                if VARIABLES.contains(&text.as_str()) {
                    let why = format!("{text} weakens secure connections, or silences warnings, of the whole process");
                    facts.push(Fact::new(Flag, line, format!("variable:{text}"), why));
                }
            }
            _ => {}
        }
    });
    facts
}

fn kind(full: &str) -> Option<&'static str> {
    let names = |known: &str| {
        if known.ends_with('.') { full.starts_with(known) } else { full == known || full.starts_with(known) && known.contains('.') }
    };
    KINDS.iter().find(|(_, known)| known.iter().any(|known| names(known))).map(|(why, _)| *why)
}

/// A name that is put together while the program runs.
fn hidden(call: &ExprCall, names: &Names) -> Option<&'static str> {
    let full = names.full(&call.func);
    let arg = |at: usize| call.arguments.args.get(at);
    let is_written_out = |expr: &Expr| matches!(expr, Expr::StringLiteral(_));
    match full.as_str() {
        "__import__" | "importlib.import_module" => {
            arg(0).filter(|name| !is_written_out(name)).map(|_| "imports a module whose name is not written out")
        }
        "getattr" | "setattr" => {
            let pieced = arg(1).is_some_and(|name| !is_written_out(name) && names.text(name).is_some());
            let of_module = arg(0).is_some_and(|owner| names.is_imported(names.full(owner).split('.').next().unwrap_or_default()));
            (pieced || of_module && arg(1).is_some_and(|name| !is_written_out(name)))
                .then_some("reaches something whose name is not written out")
        }
        _ if full.starts_with("base64.") && last(&full).contains("decode") => Some("decodes what nobody can read"),
        "zlib.decompress" | "codecs.decode" | "bytes.fromhex" | "binascii.unhexlify" | "lzma.decompress" | "bz2.decompress" => {
            Some("decodes what nobody can read")
        }
        _ => None,
    }
}

/// Variables that weaken a program from outside.
const VARIABLES: &[&str] = &["PYTHONHTTPSVERIFY", "PYTHONWARNINGS", "NODE_TLS_REJECT_UNAUTHORIZED", "GIT_SSL_NO_VERIFY"];

/// The name of something assigned that decides whether the other side is verified.
fn unverified(target: &Expr, value: &Expr, names: &Names) -> Option<String> {
    match target {
        Expr::Attribute(of) if matches!(of.attr.as_str(), "verify_mode" | "check_hostname" | "verify" | "AutoAddPolicy") => {
            Some(of.attr.to_string())
        }
        Expr::Subscript(of) => names.text(&of.slice).filter(|name| asks_not_to_verify(name, value)),
        _ => None,
    }
}

/// `verify_signature: False`, `check_hostname=False`.
fn asks_not_to_verify(name: &str, value: &Expr) -> bool {
    let is_no = match value {
        Expr::BooleanLiteral(value) => !value.value,
        Expr::NumberLiteral(of) => of.value.as_int().is_some_and(|int| *int == 0),
        _ => false,
    };
    is_no && (name == "verify" || name.starts_with("verify_") || matches!(name, "check_hostname" | "ssl_verify" | "require_exp"))
}

/// What an argument alone makes risky.
fn argument(call: &ExprCall) -> Option<&'static str> {
    call.arguments.keywords.iter().find_map(|keyword| {
        let is = |wanted: bool| matches!(&keyword.value, Expr::BooleanLiteral(value) if value.value == wanted);
        match keyword.arg.as_deref()? {
            "shell" if !is(false) => Some("gives a text to a shell"),
            "ssl" if is(false) => Some("weakens a secure connection"),
            name if asks_not_to_verify(name, &keyword.value) => Some("weakens a secure connection"),
            "algorithms" | "algorithm" if names_none(&keyword.value) => Some("weakens a secure connection"),
            "autoescape" if is(false) => Some("leaves what is shown unescaped"),
            "allow_pickle" | "debug" if is(true) => Some("opens a door that is shut by default"),
            "mode" if matches!(&keyword.value, Expr::NumberLiteral(_)) => Some("gives permissions by a number"),
            "allow_origins" | "Loader" => Some("opens a door that is shut by default"),
            _ => None,
        }
    })
}

/// Whether no signature at all is among the ways to sign.
fn names_none(value: &Expr) -> bool {
    let is_none = |expr: &Expr| matches!(expr, Expr::StringLiteral(of) if of.value.to_str().eq_ignore_ascii_case("none"));
    match value {
        Expr::List(of) => of.elts.iter().any(is_none),
        Expr::Tuple(of) => of.elts.iter().any(is_none),
        one => is_none(one),
    }
}

fn is_code_or_process(why: &str) -> bool {
    matches!(
        why,
        "starts a process"
            | "makes code from data"
            | "reaches a network"
            | "makes objects from data"
            | "decodes what nobody can read"
            | "imports a module whose name is not written out"
    )
}

fn fingerprint(call: &ExprCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    for argument in &call.arguments.args {
        ComparableExpr::from(argument).hash(&mut hasher);
    }
    for keyword in &call.arguments.keywords {
        keyword.arg.as_deref().hash(&mut hasher);
        ComparableExpr::from(&keyword.value).hash(&mut hasher);
    }
    hasher.finish()
}

fn shown(full: &str) -> &str {
    if full == "?" { "a call" } else { full }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn new_ways_out_are_shown() {
        for text in [
            "os.system('x')",
            "from subprocess import run\nrun(['git'])",
            "exec(os.environ['X'])",
            "getattr(os, 'sys' + 'tem')('x')",
            "__import__('url' + 'lib')",
            "ssl._create_default_https_context = ssl._create_unverified_context",
            "requests.get(url, verify=False)",
            "import yaml\nyaml.load(text)",
            "os.chmod(path, 0o777)",
        ] {
            let patch = [changed("src/a.py", Some("x = 1\n"), Some(&format!("import os, ssl, requests\n{text}\n")))];
            assert!(severities(check, &patch).contains(&Flag), "{text}");
        }
    }

    #[test]
    fn what_base_had_is_not_new() {
        let base = "import pickle\ndef f(file):\n    old = pickle.load(file)\n    return len(old) - 1\n";
        assert!(severities(check, &[changed("src/a.py", Some(base), Some(&base.replace(" - 1", "")))]).is_empty());
        let other = changed("src/b.py", None, Some("import re\nx = re.compile('x')\nfrom enum import Enum\nx.run()\n"));
        assert!(severities(check, &[other]).is_empty());
    }

    #[test]
    fn nothing_is_run_while_the_project_is_installed() {
        let setup = "import base64\nfrom setuptools import setup\n";
        let patch = changed("setup.py", Some(setup), Some(&format!("{setup}eval(base64.b85decode('x'))\n")));
        assert_eq!(severities(check, &[patch]), [Refuse, Refuse]);
    }
}
