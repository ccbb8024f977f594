//! Where requests go: always below the configured base, whatever a name in a payload looks like.

use secrecy::SecretString;
use url::Url;

use super::{ForgeError, GitAccess, Settings};
use crate::domain::RepoRef;

/// The base with these segments after its path, each one percent-encoded; none when a segment is one that would change the path itself.
pub(super) fn below<S: AsRef<str>>(base: &Url, segments: impl IntoIterator<Item = S>) -> Option<Url> {
    let mut url = base.clone();
    {
        let mut path = url.path_segments_mut().ok()?;
        path.pop_if_empty();
        for segment in segments {
            let segment = segment.as_ref();
            if matches!(segment, "" | "." | "..") || segment.chars().any(char::is_control) {
                return None;
            }
            path.push(segment);
        }
    }
    Some(url)
}

/// The two parts of `owner/name`.
///
/// # Errors
/// [`ForgeError::NotFound`] when the path has another form, or holds what no owner or name can.
pub(super) fn owner_and_name(repo: &RepoRef) -> Result<(&str, &str), ForgeError> {
    let sound = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('/') && !part.chars().any(char::is_control);
    repo.path
        .split_once('/')
        .filter(|(owner, name)| sound(owner) && sound(name))
        .ok_or_else(|| ForgeError::NotFound { what: format!("repository {:?}: its path is not `owner/name`", repo.path) })
}

/// How git gets in. For a path that is none, the address is the base alone, where git finds no repository.
pub(super) fn git_access(settings: &Settings, repo: &RepoRef, username: &str, token: SecretString) -> GitAccess {
    let url = owner_and_name(repo).ok().and_then(|(owner, name)| below(&settings.git_base, [owner, &format!("{name}.git")]));
    GitAccess {
        url: url.unwrap_or_else(|| settings.git_base.clone()).to_string(),
        username: username.to_owned(),
        token,
        ca_file: settings.ca_file.clone(),
    }
}

/// A link as people can follow it: forges that build links from the address they were asked at would else show ours.
pub(super) fn for_people(settings: &Settings, link: &str) -> String {
    let (Some(web), Ok(link_url)) = (&settings.web_base, Url::parse(link)) else { return link.to_owned() };
    let ours = settings.git_base.as_str().trim_end_matches('/');
    match link_url.as_str().strip_prefix(ours).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => format!("{}{rest}", web.as_str().trim_end_matches('/')),
        None => link.to_owned(),
    }
}

/// A base address that requests can be built on.
///
/// # Errors
/// A sentence when it is no plain http or https address.
pub(super) fn check_base(forge: &str, base: &Url) -> Result<(), String> {
    let plain = matches!(base.scheme(), "http" | "https")
        && base.has_host()
        && base.username().is_empty()
        && base.password().is_none()
        && base.query().is_none()
        && base.fragment().is_none();
    if plain {
        Ok(())
    } else {
        Err(format!("forge `{forge}`: its address must be http or https with a host, without user, password, query and fragment"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use url::Url;

    use super::{below, check_base, owner_and_name};
    use crate::domain::RepoRef;

    fn base() -> Url {
        Url::parse("https://forge.example/sub/api/v1/").unwrap()
    }

    fn repo(path: &str) -> RepoRef {
        RepoRef { forge: "f".into(), id: "1".into(), path: path.into() }
    }

    #[test]
    fn odd_names_stay_one_segment() {
        let url = below(&base(), ["repos", "a b", "x/../y?z#%2e%2e\\"]).unwrap();
        assert_eq!(url.as_str(), "https://forge.example/sub/api/v1/repos/a%20b/x%2F..%2Fy%3Fz%23%252e%252e%5C");
        for bad in ["", ".", "..", ".\t.", "a\n"] {
            assert_eq!(below(&base(), ["repos", bad]), None, "{bad:?}");
        }
    }

    #[test]
    fn a_path_has_an_owner_and_a_name() {
        assert_eq!(owner_and_name(&repo("o/n")).unwrap(), ("o", "n"));
        for bad in ["", "o", "o/", "/n", "o/n/x", "../n", "o/..", "o/n\r"] {
            assert!(owner_and_name(&repo(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bases_with_extras_are_refused() {
        assert!(check_base("f", &base()).is_ok());
        for bad in ["ftp://h/", "https://u@h/", "https://u:p@h/", "https://h/?q", "https://h/#f", "mailto:a@b"] {
            assert!(check_base("f", &Url::parse(bad).unwrap()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_leaves_the_base(first in any::<String>(), last in any::<String>()) {
            if let Some(url) = below(&base(), [first.as_str(), "fixed", last.as_str()]) {
                prop_assert!(url.as_str().starts_with("https://forge.example/sub/api/v1/"));
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 6);
                prop_assert_eq!(segments[4], "fixed");
                prop_assert_eq!(url.query(), None);
            }
        }
    }
}
