//! Names followed to where they come from, through imports, aliases, and spellings that hide them: `getattr(os, "_ex" + "it")` is `os._exit`.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{AnyNodeRef, Expr, ExprRef, FStringPart, InterpolatedStringElement, Operator, Stmt};

use super::{each, hidden};

/// What the names of a module stand for.
#[derive(Default)]
pub(in crate::guard) struct Names {
    aliases: HashMap<String, String>,
    constants: HashMap<String, String>,
    /// What is imported, by its first part.
    roots: HashSet<String>,
}

impl Names {
    pub(super) fn of(body: &[Stmt]) -> Self {
        let mut names = Self::default();
        each(body, |_, node| names.learn(node));
        names.roots = names.aliases.values().map(|known| first(known).to_owned()).collect();
        names
    }

    fn learn(&mut self, node: AnyNodeRef<'_>) {
        match node {
            AnyNodeRef::StmtImport(import) => {
                for alias in &import.names {
                    let (local, full) = match &alias.asname {
                        Some(name) => (name.as_str(), alias.name.as_str()),
                        None => (first(&alias.name), first(&alias.name)),
                    };
                    self.aliases.insert(local.to_owned(), full.to_owned());
                }
            }
            AnyNodeRef::StmtImportFrom(import) => {
                let module = format!("{}{}", ".".repeat(import.level as usize), import.module.as_deref().unwrap_or_default());
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let dot = if module.ends_with('.') { "" } else { "." };
                    self.aliases.insert(local.to_owned(), format!("{module}{dot}{}", alias.name));
                }
            }
            AnyNodeRef::StmtAssign(assign) => {
                if let [Expr::Name(name)] = &assign.targets[..] {
                    self.bind(name.id.as_str(), &assign.value);
                }
            }
            AnyNodeRef::ExprNamed(named) => {
                if let Expr::Name(name) = &*named.target {
                    self.bind(name.id.as_str(), &named.value);
                }
            }
            _ => {}
        }
    }

    fn bind(&mut self, name: &str, value: &Expr) {
        if let Some(text) = self.text(value) {
            self.constants.insert(name.to_owned(), text);
        } else if matches!(value, Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) | Expr::Subscript(_)) {
            let full = self.full(value);
            if matches!(full.as_str(), "Exception" | "BaseException") {
                self.aliases.insert(name.to_owned(), full);
                return;
            }
            let comes_from_an_import = self.aliases.values().any(|known| first(known) == first(&full));
            if comes_from_an_import && !full.contains('(') && first(&full) != name {
                self.aliases.insert(name.to_owned(), full);
            }
        }
    }

    /// The full dotted name of an expression; `?` stands for what can't be named, `()` and `[]` for the result of a call and of an index.
    pub(in crate::guard) fn full(&self, expr: &Expr) -> String {
        self.full_ref(expr.into())
    }

    /// The same of any node that is an expression.
    pub(in crate::guard) fn full_ref(&self, expr: ExprRef<'_>) -> String {
        let full = self.spelled(expr);
        for prefix in ["builtins.", "__builtins__."] {
            if let Some(rest) = full.strip_prefix(prefix) {
                return rest.to_owned();
            }
        }
        full
    }

    fn spelled(&self, expr: ExprRef<'_>) -> String {
        match expr {
            ExprRef::Name(name) => self.aliases.get(name.id.as_str()).cloned().unwrap_or_else(|| name.id.to_string()),
            ExprRef::Attribute(of) => format!("{}.{}", self.full(&of.value), of.attr),
            ExprRef::Await(of) => self.full(&of.value),
            ExprRef::Named(of) => self.full(&of.value),
            ExprRef::Call(call) => {
                let args = &call.arguments.args;
                let word = |at: usize| args.get(at).and_then(|arg| self.text(arg)).unwrap_or_else(|| "?".to_owned());
                match (self.full(&call.func).as_str(), args.len()) {
                    ("getattr", 2..) => format!("{}.{}", self.full(&args[0]), word(1)),
                    ("__import__" | "importlib.import_module" | "importlib.__import__", 1..) => word(0),
                    ("vars", 1) => format!("{}.__dict__", self.full(&args[0])),
                    ("globals" | "locals" | "vars", _) => "globals.__dict__".to_owned(),
                    ("globals.__dict__.get" | "sys.modules.get", 1..) => word(0),
                    (full, _) => format!("{full}()"),
                }
            }
            ExprRef::Subscript(of) => match (self.full(&of.value), self.text(&of.slice)) {
                (owner, Some(key)) if owner == "globals.__dict__" || owner == "sys.modules" => key,
                (owner, Some(key)) if owner.ends_with(".__dict__") => format!("{}.{key}", owner.trim_end_matches(".__dict__")),
                (owner, None) if owner == "sys.modules" || owner.ends_with(".__dict__") => {
                    format!("{}.?", owner.trim_end_matches(".__dict__"))
                }
                (owner, _) => format!("{owner}[]"),
            },
            _ => "?".to_owned(),
        }
    }

    /// Whether a name of this module stands for something that is called so elsewhere.
    pub(in crate::guard) fn is_alias_of(&self, name: &str) -> bool {
        self.aliases.values().any(|full| full.rsplit('.').next() == Some(name))
    }

    /// Whether a name is, or starts with, something that this module imports.
    pub(in crate::guard) fn is_imported(&self, root: &str) -> bool {
        !root.is_empty() && self.roots.contains(root)
    }

    /// The text that an expression always gives.
    pub(in crate::guard) fn text(&self, expr: &Expr) -> Option<String> {
        self.text_ref(expr.into())
    }

    /// The same of any node that is an expression.
    pub(in crate::guard) fn text_ref(&self, expr: ExprRef<'_>) -> Option<String> {
        match expr {
            ExprRef::Name(name) => self.constants.get(name.id.as_str()).cloned(),
            ExprRef::StringLiteral(of) => Some(of.value.to_str().to_owned()),
            ExprRef::BytesLiteral(of) => Some(String::from_utf8_lossy(&of.value.bytes().collect::<Vec<_>>()).into_owned()),
            ExprRef::BinOp(of) if of.op == Operator::Add => Some(self.text(&of.left)? + &self.text(&of.right)?),
            ExprRef::FString(of) => of.value.iter().map(|part| self.text_of_part(part)).collect(),
            ExprRef::Call(call)
                if matches!(
                    self.full(&call.func).as_str(),
                    "bytes" | "bytearray" | "base64.b64decode" | "bytes.fromhex" | "codecs.decode" | "map"
                ) =>
            {
                hidden::text(self, call)
            }
            ExprRef::Call(call) => {
                let Expr::Attribute(method) = &*call.func else { return None };
                let owner = self.text(&method.value)?;
                match (method.attr.as_str(), call.arguments.args.first()) {
                    ("join", Some(Expr::List(list))) => self.joined(&owner, &list.elts),
                    ("join", Some(Expr::Tuple(list))) => self.joined(&owner, &list.elts),
                    ("join", Some(Expr::Generator(of))) => hidden::letters(&of.elt, &of.generators, self),
                    ("join", Some(Expr::ListComp(of))) => hidden::letters(&of.elt, &of.generators, self),
                    ("join", Some(map @ Expr::Call(_))) => self.text(map),
                    ("lower" | "strip" | "decode" | "casefold" | "encode", _) => Some(owner.to_lowercase()),
                    ("upper", _) => Some(owner.to_uppercase()),
                    ("replace", Some(from)) => Some(owner.replace(&self.text(from)?, &self.text(call.arguments.args.get(1)?)?)),
                    _ => None,
                }
            }
            ExprRef::Subscript(of) => {
                let Expr::Slice(slice) = &*of.slice else { return None };
                let backwards = matches!(slice.step.as_deref(), Some(Expr::UnaryOp(_))) && slice.lower.is_none() && slice.upper.is_none();
                backwards.then(|| self.text(&of.value)).flatten().map(|text| text.chars().rev().collect())
            }
            _ => None,
        }
    }

    fn joined(&self, glue: &str, parts: &[Expr]) -> Option<String> {
        Some(parts.iter().map(|part| self.text(part)).collect::<Option<Vec<_>>>()?.join(glue))
    }

    fn text_of_part(&self, part: &FStringPart) -> Option<String> {
        match part {
            FStringPart::Literal(literal) => Some(literal.value.to_string()),
            FStringPart::FString(of) => of
                .elements
                .iter()
                .map(|element| match element {
                    InterpolatedStringElement::Literal(literal) => Some(literal.value.to_string()),
                    InterpolatedStringElement::Interpolation(of) => self.text(&of.expression),
                })
                .collect(),
        }
    }
}

fn first(dotted: &str) -> &str {
    dotted.split(['.', '(', '[']).next().unwrap_or(dotted)
}

#[cfg(test)]
mod tests {
    use ruff_python_ast::Stmt;

    use super::super::Module;

    #[test]
    fn names_are_followed_however_they_are_spelled() {
        let imports =
            "import os as o, importlib\nfrom os import _exit as leave, path\nfrom . import x\nimport sys\nW = '_ex'\nq = o._exit\n";
        for (written, full) in [
            ("o._exit", "os._exit"),
            ("leave", "os._exit"),
            ("q", "os._exit"),
            ("path.join", "os.path.join"),
            ("x.y", ".x.y"),
            ("getattr(o, W + 'it')", "os._exit"),
            ("getattr(__import__('o' + 's'), ''.join(['_ex', 'it']))", "os._exit"),
            ("vars(o)['_exit']", "os._exit"),
            ("o.__dict__['tixe_'[::-1]]", "os._exit"),
            ("importlib.import_module(f'{\"o\"}s')._exit", "os._exit"),
            ("sys.modules['os']._exit", "os._exit"),
            ("globals()['test_a']", "test_a"),
            ("__builtins__.exec", "exec"),
            ("f(1).g", "f().g"),
            ("(1).g", "?.g"),
        ] {
            let module = Module::parse(format!("{imports}{written}\n").as_bytes()).unwrap();
            let Some(Stmt::Expr(last)) = module.body.last() else { panic!("{written}") };
            assert_eq!(module.names.full(&last.value), full, "{written}");
        }
    }
}
