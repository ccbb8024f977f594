//! What is new in a patched file: what one of the patch's files had at base is not, wherever it stands now.

use std::collections::HashMap;

use super::{Module, PythonFile};
use crate::domain::{Finding, Severity};
use crate::guard::{Patch, of_file};

/// Something in a file that a rule would speak of if it is new.
pub(in crate::guard) struct Fact {
    /// What makes it the same thing elsewhere.
    pub(in crate::guard) key: String,
    pub(in crate::guard) severity: Severity,
    pub(in crate::guard) line: u64,
    pub(in crate::guard) why: String,
}

impl Fact {
    pub(in crate::guard) fn new(severity: Severity, line: u64, key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { key: key.into(), severity, line, why: why.into() }
    }
}

/// The findings of a rule that names facts: those of the patched files that base does not have as often.
pub(in crate::guard) fn fresh(patch: &Patch<'_>, rule: &str, gather: impl Fn(&PythonFile<'_>, &Module) -> Vec<Fact>) -> Vec<Finding> {
    let mut known: HashMap<(bool, String), usize> = HashMap::new();
    for file in &patch.python {
        let facts = file.before.module().map(|module| gather(file, module)).unwrap_or_default();
        for fact in facts {
            *known.entry((file.role.is_of_tests(), fact.key)).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for file in &patch.python {
        let facts = file.after.module().map(|module| gather(file, module)).unwrap_or_default();
        for fact in facts {
            match known.get_mut(&(file.role.is_of_tests(), fact.key)) {
                Some(left) if *left > 0 => *left -= 1,
                _ => findings.push(of_file(rule, fact.severity, file.file, Some(fact.line), fact.why)),
            }
        }
    }
    findings
}
