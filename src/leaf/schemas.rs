//! The five tools as the model is told of them: names, order, words and key order are part of what it was trained on.

use serde_json::{Value, json};

/// The `tools` of every request.
#[must_use]
pub fn tools() -> Value {
    json!([
        tool(
            "Read",
            "Read a text file. Returns numbered lines.",
            &json!({
                "file_path": parameter("string", "Path to the file to read."),
                "offset": parameter("integer", "Optional 1-based starting line."),
                "limit": parameter("integer", "Optional maximum number of lines."),
            }),
            &["file_path"],
        ),
        tool(
            "Write",
            "Write a complete file, creating parent directories when needed.",
            &json!({
                "file_path": parameter("string", "Path to write."),
                "content": parameter("string", "Full file contents."),
            }),
            &["file_path", "content"],
        ),
        tool(
            "Edit",
            "Replace an exact string in a text file.",
            &json!({
                "file_path": parameter("string", "Path to edit."),
                "old_string": parameter("string", "Exact text to replace."),
                "new_string": parameter("string", "Replacement text."),
                "replace_all": parameter("boolean", "Replace every occurrence instead of requiring one match."),
            }),
            &["file_path", "old_string", "new_string"],
        ),
        tool(
            "Glob",
            "Find files by glob pattern.",
            &json!({
                "pattern": parameter("string", "Glob pattern, e.g. **/*.py."),
                "path": parameter("string", "Optional directory to search from."),
            }),
            &["pattern"],
        ),
        tool(
            "Bash",
            "Run a shell command in the repository workdir.",
            &json!({
                "command": parameter("string", "Command to run."),
                "description": parameter("string", "Short description of the command."),
                "timeout": parameter("number", "Optional timeout in seconds."),
            }),
            &["command"],
        ),
    ])
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    })
}

fn parameter(kind: &str, description: &str) -> Value {
    json!({"type": kind, "description": description})
}

#[cfg(test)]
mod tests {
    use super::tools;

    #[test]
    fn the_tools_are_the_trained_ones_byte_for_byte() {
        let table = concat!(
            r#"Read|Read a text file. Returns numbered lines.|file_path string Path to the file to read.;offset integer Optional 1-based starting line.;limit integer Optional maximum number of lines.|file_path"#,
            "\n",
            r#"Write|Write a complete file, creating parent directories when needed.|file_path string Path to write.;content string Full file contents.|file_path,content"#,
            "\n",
            r#"Edit|Replace an exact string in a text file.|file_path string Path to edit.;old_string string Exact text to replace.;new_string string Replacement text.;replace_all boolean Replace every occurrence instead of requiring one match.|file_path,old_string,new_string"#,
            "\n",
            r#"Glob|Find files by glob pattern.|pattern string Glob pattern, e.g. **/*.py.;path string Optional directory to search from.|pattern"#,
            "\n",
            r#"Bash|Run a shell command in the repository workdir.|command string Command to run.;description string Short description of the command.;timeout number Optional timeout in seconds.|command"#,
        );
        let rows: Vec<String> = table.lines().map(expected).collect();
        assert_eq!(tools().to_string(), format!("[{}]", rows.join(",")));
    }

    fn expected(row: &str) -> String {
        let [name, description, properties, required] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        let properties: Vec<String> = properties
            .split(';')
            .map(|property| {
                let [key, kind, text] = property.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
                format!(r#""{key}":{{"type":"{kind}","description":"{text}"}}"#)
            })
            .collect();
        let required: Vec<String> = required.split(',').map(|key| format!("\"{key}\"")).collect();
        format!(
            r#"{{"type":"function","function":{{"name":"{name}","description":"{description}","parameters":{{"type":"object","properties":{{{}}},"required":[{}]}}}}}}"#,
            properties.join(","),
            required.join(",")
        )
    }
}
