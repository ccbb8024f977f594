//! Names followed to where they come from, through imports, aliases, and spellings that hide them: `getattr(os, "_ex" + "it")` is `os._exit`.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{AnyNodeRef, Expr, ExprCall, ExprRef, FStringPart, InterpolatedStringElement, Operator, Stmt};

use super::{each, hidden};

/// What the names of a module stand for.
#[derive(Default)]
pub(in crate::guard) struct Names {
    aliases: HashMap<String, String>,
    constants: HashMap<String, String>,
    /// What is imported, by its first part.
    roots: HashSet<String>,
    /// The same by its last part.
    lasts: HashSet<String>,
}

/// A longer text is not put together, and a longer name not followed, in bytes: no name of anything is so long.
const LONGEST: usize = 1024;

impl Names {
    pub(super) fn of(body: &[Stmt]) -> Self {
        let mut names = Self::default();
        each(body, |_, node| names.learn(node));
        names
    }

    fn alias(&mut self, name: &str, full: String) {
        self.roots.insert(first(&full).to_owned());
        self.lasts.insert(full.rsplit('.').next().unwrap_or(&full).to_owned());
        self.aliases.insert(name.to_owned(), full);
    }

    fn learn(&mut self, node: AnyNodeRef<'_>) {
        match node {
            AnyNodeRef::StmtImport(import) => {
                for alias in &import.names {
                    let (local, full) = match &alias.asname {
                        Some(name) => (name.as_str(), alias.name.as_str()),
                        None => (first(&alias.name), first(&alias.name)),
                    };
                    self.alias(local, full.to_owned());
                }
            }
            AnyNodeRef::StmtImportFrom(import) => {
                let module = format!("{}{}", ".".repeat(import.level as usize), import.module.as_deref().unwrap_or_default());
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let dot = if module.ends_with('.') { "" } else { "." };
                    self.alias(local, format!("{module}{dot}{}", alias.name));
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
            if text.len() <= LONGEST {
                self.constants.insert(name.to_owned(), text);
            }
        } else if matches!(value, Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) | Expr::Subscript(_)) {
            let full = self.full(value);
            if matches!(full.as_str(), "Exception" | "BaseException" | "exec" | "eval" | "compile" | "__import__" | "getattr" | "setattr") {
                self.alias(name, full);
                return;
            }
            if self.roots.contains(first(&full)) && full.len() <= LONGEST && !full.contains('(') && first(&full) != name {
                self.alias(name, full);
            }
        }
    }

    /// The full dotted name of an expression; `?` stands for what can't be named, `()` and `[]` for the result of a call and of an index.
    pub(in crate::guard) fn full(&self, expr: &Expr) -> String {
        self.full_ref(expr.into())
    }

    /// The same of any node that is an expression.
    pub(in crate::guard) fn full_ref(&self, expr: ExprRef<'_>) -> String {
        let mut full = String::new();
        self.spell(expr, &mut full);
        full
    }

    /// Writes the name behind what is written already: nothing, so that a long chain is gone through once.
    fn spell(&self, expr: ExprRef<'_>, full: &mut String) {
        match expr {
            ExprRef::Name(name) => full.push_str(self.aliases.get(name.id.as_str()).map_or(name.id.as_str(), String::as_str)),
            ExprRef::Attribute(of) => {
                self.spell((&*of.value).into(), full);
                full.push('.');
                full.push_str(&of.attr);
            }
            ExprRef::Await(of) => self.spell((&*of.value).into(), full),
            ExprRef::Named(of) => self.spell((&*of.value).into(), full),
            ExprRef::Call(call) => self.spell_call(call, full),
            ExprRef::Subscript(of) => {
                self.spell((&*of.value).into(), full);
                self.spell_part(&of.slice, full);
            }
            _ => full.push('?'),
        }
        for prefix in ["builtins.", "__builtins__."] {
            if full.starts_with(prefix) {
                full.drain(..prefix.len());
            }
        }
    }

    fn spell_call(&self, call: &ExprCall, full: &mut String) {
        let args = &call.arguments.args;
        let word = |at: usize| args.get(at).and_then(|arg| self.text(arg)).unwrap_or_else(|| "?".to_owned());
        if let Expr::Attribute(of) = &*call.func
            && matches!(of.attr.as_str(), "get" | "__getitem__" | "pop")
            && self.is_built_in(&of.value)
        {
            full.push_str(&word(0));
            return;
        }
        self.spell((&*call.func).into(), full);
        match (full.as_str(), args.len()) {
            ("getattr", 2..) => {
                full.clear();
                self.spell((&args[0]).into(), full);
                full.push('.');
                full.push_str(&word(1));
            }
            ("__import__" | "importlib.import_module" | "importlib.__import__", 1..) => *full = word(0),
            ("vars", 1) => {
                full.clear();
                self.spell((&args[0]).into(), full);
                full.push_str(".__dict__");
            }
            ("globals" | "locals" | "vars", _) => *full = "globals.__dict__".to_owned(),
            ("globals.__dict__.get" | "sys.modules.get", 1..) => *full = word(0),
            _ => full.push_str("()"),
        }
    }

    /// What a part of something is called, whose own name is written already.
    fn spell_part(&self, slice: &Expr, full: &mut String) {
        let is_table = full == "sys.modules" || full.ends_with(".__dict__");
        match self.text(slice).filter(|_| is_table || is_built_in(full)) {
            Some(key) if is_built_in(full) || full == "globals.__dict__" || full == "sys.modules" => *full = key,
            Some(key) => {
                full.truncate(full.len() - "__dict__".len());
                full.push_str(&key);
            }
            None if is_table => {
                full.truncate(full.trim_end_matches(".__dict__").len());
                full.push_str(".?");
            }
            None => full.push_str("[]"),
        }
    }

    /// Whether an expression is the table of Python's own functions: `__builtins__`, `vars(builtins)`.
    fn is_built_in(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_)) && is_shallow(expr, 3) && is_built_in(&self.full(expr))
    }

    /// Whether a name of this module stands for something that is called so elsewhere.
    pub(in crate::guard) fn is_alias_of(&self, name: &str) -> bool {
        self.lasts.contains(name)
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
            ExprRef::BinOp(of) if of.op == Operator::Add => joined_to(self.text(&of.left)?, &self.text(&of.right)?),
            ExprRef::FString(of) => of.value.iter().try_fold(String::new(), |text, part| joined_to(text, &self.text_of_part(part)?)),
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
                    ("replace", Some(from)) => {
                        let (from, to) = (self.text(from)?, self.text(call.arguments.args.get(1)?)?);
                        (owner.len().max(to.len()) <= LONGEST).then(|| owner.replace(&from, &to)).filter(|text| text.len() <= LONGEST)
                    }
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
        parts.iter().enumerate().try_fold(String::new(), |text, (at, part)| {
            let text = if at == 0 { text } else { joined_to(text, glue)? };
            joined_to(text, &self.text(part)?)
        })
    }

    fn text_of_part(&self, part: &FStringPart) -> Option<String> {
        match part {
            FStringPart::Literal(literal) => Some(literal.value.to_string()),
            FStringPart::FString(of) => of.elements.iter().try_fold(String::new(), |text, element| match element {
                InterpolatedStringElement::Literal(literal) => joined_to(text, &literal.value),
                InterpolatedStringElement::Interpolation(of) => joined_to(text, &self.text(&of.expression)?),
            }),
        }
    }
}

/// Whether a name is that of the table of Python's own functions, or the rest of one that is taken from it.
fn is_built_in(full: &str) -> bool {
    matches!(full, "__builtins__" | "builtins" | "__dict__")
}

fn is_shallow(expr: &Expr, levels: usize) -> bool {
    match expr {
        _ if levels == 0 => false,
        Expr::Attribute(of) => is_shallow(&of.value, levels - 1),
        Expr::Call(of) => is_shallow(&of.func, levels - 1),
        Expr::Name(_) => true,
        _ => false,
    }
}

/// Two texts as one; none where it would be longer than any name.
fn joined_to(mut text: String, more: &str) -> Option<String> {
    text.push_str(more);
    (text.len() <= LONGEST).then_some(text)
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
        let imports = "import os as o, importlib, builtins\nfrom os import _exit as leave, path\nfrom . import x\nimport sys\nW = '_ex'\nq = o._exit\n";
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
            ("__builtins__['exec']", "exec"),
            ("__builtins__.get('ex' + 'ec')", "exec"),
            ("vars(__builtins__)['exec']", "exec"),
            ("builtins.__dict__['exec']", "exec"),
            ("x.get('exec')", ".x.get()"),
            ("f(1).g", "f().g"),
            ("(1).g", "?.g"),
        ] {
            let module = Module::parse(format!("{imports}{written}\n").as_bytes()).unwrap();
            let Some(Stmt::Expr(last)) = module.body.last() else { panic!("{written}") };
            assert_eq!(module.names.full(&last.value), full, "{written}");
        }
    }
}
