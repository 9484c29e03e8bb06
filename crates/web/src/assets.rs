//! The files of the page, which are in the program. Nothing is loaded from anywhere else.

/// A file.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Where it is asked for.
    pub path: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
    /// Those see it who are not logged in.
    pub is_public: bool,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What a browser may do with the page: run its own files, ask where they came from, show its charts in a frame.
pub const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n\
    X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\nPermissions-Policy: camera=(), geolocation=(), microphone=()\r\n";

/// A chart brings its own program. It runs as of no origin: it can ask nobody for anything and has no cookie.
pub const CHART_POLICY: &str = "Content-Security-Policy: sandbox allow-scripts allow-downloads; default-src 'none'; \
    script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'self'\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n";

/// Those who are not logged in see this one in the place of the page.
pub const LOGIN: Asset = page("/login.html", HTML, include_str!("assets/login.html"), true);

const ALL: [Asset; 9] = [
    page("/", HTML, include_str!("assets/index.html"), false),
    page("/style.css", "text/css; charset=utf-8", include_str!("assets/style.css"), true),
    page("/icon.svg", "image/svg+xml", include_str!("assets/icon.svg"), true),
    page("/login.js", SCRIPT, include_str!("assets/login.js"), true),
    page("/strip.js", SCRIPT, include_str!("assets/strip.js"), false),
    page("/minutes.js", SCRIPT, include_str!("assets/minutes.js"), false),
    page("/table.js", SCRIPT, include_str!("assets/table.js"), false),
    page("/views.js", SCRIPT, include_str!("assets/views.js"), false),
    page("/main.js", SCRIPT, include_str!("assets/main.js"), false),
];

const fn page(
    path: &'static str,
    kind: &'static str,
    text: &'static str,
    is_public: bool,
) -> Asset {
    Asset { path, kind, text, is_public }
}

/// The file that is asked for.
pub fn find(path: &str) -> Option<Asset> {
    ALL.into_iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy forbids them, so the page would not work with them.
    #[test]
    fn no_page_has_a_program_a_style_or_a_handler_within_it() {
        for asset in ALL.iter().chain([&LOGIN]).filter(|asset| asset.kind == HTML) {
            let text = asset.text;
            for bad in
                ["<style", " style=", " onclick=", " onload=", "javascript:", "http://", "https://"]
            {
                assert!(!text.contains(bad), "{bad} in {}", asset.path);
            }
            for script in text.split("<script").skip(1) {
                assert!(
                    script.starts_with(" src=\"/"),
                    "a program within {}: {script}",
                    asset.path
                );
            }
        }
    }

    /// Names and logs are texts of strangers: nothing may take them for a page.
    #[test]
    fn no_program_makes_elements_of_texts() {
        for asset in ALL.iter().filter(|asset| asset.kind == SCRIPT) {
            for bad in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ] {
                assert!(!asset.text.contains(bad), "{bad} in {}", asset.path);
            }
        }
    }

    #[test]
    fn what_a_page_names_is_there() {
        for asset in ALL.iter().chain([&LOGIN]).filter(|asset| asset.kind == HTML) {
            for part in asset.text.split("src=\"").chain(asset.text.split("href=\"")).skip(1) {
                let path = part.split('"').next().unwrap_or_default();
                assert!(!path.starts_with('/') || find(path).is_some(), "{path} in {}", asset.path);
            }
        }
    }
}
