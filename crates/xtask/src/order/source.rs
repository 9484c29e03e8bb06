//! Reads the sources of one crate: its modules, what each file imports, what each file names.
//! Must not: judge. What an arrow or a name means is for `rooms`, `circles` and `names` to say.
//! Runs on the main thread of xtask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Re-exports that are followed one behind the other before a name is given up.
const REEXPORTS_MAX: usize = 8;

/// One file that uses another of the same crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The file that uses, relative to the folder of sources.
    pub from: String,
    /// The file that is used.
    pub to: String,
    /// Line in `from`, from 1.
    pub line: usize,
    /// The path as it is written there.
    pub path: String,
}

/// One path of another crate, or a macro, that a file names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Relative to the folder of sources.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// As `std::fs::read`, with what the file imports written out; a macro as `println!`.
    pub path: String,
}

/// One `impl` of a type, or of a trait for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Impl {
    /// Relative to the folder of sources.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// The last word of the type's path.
    pub name: String,
}

/// What the sources of one crate say, without code that only tests have.
#[derive(Debug, Default)]
pub struct Source {
    /// All files, relative to the folder of sources.
    pub files: BTreeSet<String>,
    /// Sorted; one file may use another at many places.
    pub arrows: Vec<Arrow>,
    /// Sorted.
    pub names: Vec<Name>,
    /// Sorted.
    pub impls: Vec<Impl>,
}

/// A module: a file of its own or braces in one.
#[derive(Default)]
struct Module {
    file: String,
    /// What `use` brings in: its name here, and the path as written.
    imports: BTreeMap<String, Vec<String>>,
    /// Those of `imports` that other modules can see.
    exports: BTreeSet<String>,
    /// What `use ...::*` stands for.
    globs: Vec<Vec<String>>,
    /// Those of `globs` that other modules can see through.
    export_globs: Vec<Vec<String>>,
    /// Names of items that are defined here.
    items: BTreeSet<String>,
}

type ModulePath = Vec<String>;

/// All modules below one root file, with the parsed files.
struct Tree<'a> {
    /// Where file names start.
    folder: &'a Path,
    read: &'a dyn Fn(&Path) -> Result<Option<String>>,
    modules: BTreeMap<ModulePath, Module>,
    parsed: Vec<(ModulePath, String, syn::File)>,
}

/// Reads everything below these root files (`lib.rs`, `main.rs`), all of which lie in or below `folder`.
/// `read` gives the text of a file, or nothing where there is none.
pub fn read(
    folder: &Path,
    roots: &[PathBuf],
    read: &dyn Fn(&Path) -> Result<Option<String>>,
) -> Result<Source> {
    let mut source = Source::default();
    for root in roots {
        let mut tree = Tree { folder, read, modules: BTreeMap::new(), parsed: Vec::new() };
        let inside = root.parent().unwrap_or(folder).to_path_buf();
        ensure!(tree.load(Vec::new(), root, &inside)?, "{} is not there", root.display());
        for (path, file, syntax) in &tree.parsed {
            source.files.insert(file.clone());
            let mut reader = Reader::new(&tree, path.clone(), file, &mut source);
            reader.visit_file(syntax);
        }
    }
    source.arrows.sort();
    source.arrows.dedup();
    source.names.sort();
    source.names.dedup();
    source.impls.sort();
    Ok(source)
}

impl Tree<'_> {
    /// Parses a file as the module of this path, and the files of its modules; `inside` is the folder in
    /// which those lie. False when there is no such file.
    fn load(&mut self, path: ModulePath, file: &Path, inside: &Path) -> Result<bool> {
        let Some(text) = (self.read)(file)? else { return Ok(false) };
        let syntax = syn::parse_file(&text).with_context(|| format!("{}", file.display()))?;
        let name = file.strip_prefix(self.folder).unwrap_or(file).display().to_string();
        self.enter(&path, &name, &syntax.items, inside)?;
        self.parsed.push((path, name, syntax));
        Ok(true)
    }

    fn enter(
        &mut self,
        path: &[String],
        file: &str,
        items: &[syn::Item],
        inside: &Path,
    ) -> Result<()> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items.iter().filter(|item| !is_of_tests(attributes(item))) {
            match item {
                syn::Item::Use(item) => module.enter_use(item),
                syn::Item::Mod(item) => {
                    module.items.insert(item.ident.to_string());
                }
                other => module.items.extend(item_name(other)),
            }
        }
        self.modules.insert(path.to_vec(), module);
        for item in items.iter().filter(|item| !is_of_tests(attributes(item))) {
            if let syn::Item::Mod(item) = item {
                self.enter_mod(path, file, item, inside)?;
            }
        }
        Ok(())
    }

    fn enter_mod(
        &mut self,
        path: &[String],
        file: &str,
        item: &syn::ItemMod,
        inside: &Path,
    ) -> Result<()> {
        let name = item.ident.to_string();
        let own = [path, std::slice::from_ref(&name)].concat();
        let below = inside.join(&name);
        if let Some((_, items)) = &item.content {
            return self.enter(&own, file, items, &below);
        }
        if let Some(stated) = stated_path(&item.attrs) {
            let stated = self.folder.join(file).parent().unwrap_or(self.folder).join(stated);
            let found = self.load(own, &stated, &below)?;
            ensure!(found, "{file}: the file of module {name} is not there");
            return Ok(());
        }
        let found = self.load(own.clone(), &inside.join(format!("{name}.rs")), &below)?
            || self.load(own, &below.join("mod.rs"), &below)?;
        ensure!(found, "{file}: the file of module {name} is not there");
        Ok(())
    }

    /// The module that a path leads to from a module, and the whole path from the root. Nothing when the path
    /// leads to another crate or to something local.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<&Module> {
        self.follow(self.absolute(from, path)?, REEXPORTS_MAX)
    }

    /// The path from the root of the crate; nothing when its first word is no module and no import here.
    fn absolute(&self, from: &[String], path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (_, parent) = from.split_last()?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.absolute(parent, rest),
                    _ => Some([parent, rest].concat()),
                }
            }
            name => {
                let child = [from, &[name.to_owned()]].concat();
                if self.modules.contains_key(&child) {
                    return Some([child, rest.to_vec()].concat());
                }
                let own = self.modules.get(from)?;
                let reached = match own.imports.get(name) {
                    // `use a::a` would lead to itself.
                    Some(import) if import.first() == Some(first) => None,
                    Some(import) => self.absolute(from, import),
                    None => own.globs.iter().find_map(|glob| self.by_glob(from, glob, name)),
                };
                Some([reached?, rest.to_vec()].concat())
            }
        }
    }

    /// A module of this name among those that a glob brings in.
    fn by_glob(&self, from: &[String], glob: &[String], name: &str) -> Option<ModulePath> {
        // A glob behind a glob is not followed: it could lead back here.
        let starts_here = matches!(glob.first()?.as_str(), "crate" | "self" | "super");
        let target = starts_here.then(|| self.absolute(from, glob)).flatten()?;
        let child = [&target[..], &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(child);
        }
        let import = self.modules.get(&target)?.imports.get(name)?;
        let starts_at_root = matches!(import.first()?.as_str(), "crate" | "self" | "super");
        starts_at_root.then(|| self.absolute(&target, import)).flatten()
    }

    /// Goes along a path from the root as far as modules and re-exports lead.
    fn follow(&self, path: ModulePath, reexports_left: usize) -> Option<&Module> {
        let length = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n]))?;
        let (reached, rest) = path.split_at(length);
        let module = &self.modules[reached];
        let (Some(name), true) = (rest.first(), reexports_left > 0) else { return Some(module) };
        if module.items.contains(name) {
            return Some(module);
        }
        if let Some(import) = module.imports.get(name).filter(|import| import[0] != *name) {
            let target = self.absolute(reached, import);
            let Some(target) = target else { return Some(module) };
            return self.follow([target, rest[1..].to_vec()].concat(), reexports_left - 1);
        }
        let by_glob = module.export_globs.iter().find_map(|glob| {
            let target = self.absolute(reached, glob)?;
            let module = self.modules.get(&target)?;
            let has = module.items.contains(name) || module.exports.contains(name);
            has.then(|| [target, rest.to_vec()].concat())
        });
        match by_glob {
            Some(target) => self.follow(target, reexports_left - 1),
            None => Some(module),
        }
    }
}

impl Module {
    fn enter_use(&mut self, item: &syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        for leaf in leaves(&item.tree) {
            if leaf.glob {
                if public {
                    self.export_globs.push(leaf.path.clone());
                }
                self.globs.push(leaf.path);
                continue;
            }
            if public {
                self.exports.insert(leaf.name.clone());
            }
            self.imports.insert(leaf.name, leaf.path);
        }
    }
}

/// One name that a `use` brings in.
struct Leaf {
    path: Vec<String>,
    name: String,
    glob: bool,
    line: usize,
}

/// What a `use` says, nested braces written out.
fn leaves(tree: &syn::UseTree) -> Vec<Leaf> {
    let mut out = Vec::new();
    collect_leaves(tree, &mut Vec::new(), &mut out);
    out
}

fn collect_leaves(tree: &syn::UseTree, before: &mut Vec<String>, out: &mut Vec<Leaf>) {
    let mut leaf = |last: &syn::Ident, name: &syn::Ident, before: &[String]| {
        let (last, line) = (last.to_string(), last.span().start().line);
        // `use a::b::{self}` brings in b.
        let path = match last.as_str() {
            "self" if !before.is_empty() => before.to_vec(),
            _ => [before, &[last]].concat(),
        };
        let name = match name.to_string().as_str() {
            "self" => path.last().cloned().unwrap_or_default(),
            other => other.to_owned(),
        };
        out.push(Leaf { path, name, glob: false, line });
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            collect_leaves(&path.tree, before, out);
            before.pop();
        }
        syn::UseTree::Name(name) => leaf(&name.ident, &name.ident, before),
        syn::UseTree::Rename(rename) => leaf(&rename.ident, &rename.rename, before),
        syn::UseTree::Glob(glob) => {
            let line = glob.span().start().line;
            out.push(Leaf { path: before.clone(), name: String::new(), glob: true, line });
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| collect_leaves(tree, before, out));
        }
    }
}

/// Goes through one file and writes down what it uses.
struct Reader<'a> {
    tree: &'a Tree<'a>,
    module: ModulePath,
    file: &'a str,
    /// What `use` in a function brings in, beside that of the module.
    local: BTreeMap<String, Vec<String>>,
    source: &'a mut Source,
}

impl<'a> Reader<'a> {
    fn new(tree: &'a Tree<'a>, module: ModulePath, file: &'a str, source: &'a mut Source) -> Self {
        Reader { tree, module, file, local: BTreeMap::new(), source }
    }

    /// A path that stands here.
    fn note(&mut self, path: &[String], line: usize) {
        let written_out = match path.first().and_then(|first| self.local.get(first)) {
            Some(import) if import.first() != path.first() => [import, &path[1..]].concat(),
            _ => path.to_vec(),
        };
        if let Some(module) = self.tree.resolve(&self.module, &written_out) {
            if module.file != self.file {
                let (from, to) = (self.file.to_owned(), module.file.clone());
                self.source.arrows.push(Arrow { from, to, line, path: path.join("::") });
            }
            return;
        }
        let own = self.tree.modules.get(&self.module);
        let import = own.and_then(|module| module.imports.get(written_out.first()?));
        let path = match import {
            Some(import) => [import, &written_out[1..]].concat().join("::"),
            None => written_out.join("::"),
        };
        self.source.names.push(Name { file: self.file.to_owned(), line, path });
    }

    /// Paths in the words of a macro, which have no syntax tree.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon =
            |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while is_colon(at + 1) && is_colon(at + 2) {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        path.push(next.to_string());
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.note(&path, first.span().start().line);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_of_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let syn::Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            let (file, line) = (self.file.to_owned(), last.span().start().line);
            self.source.impls.push(Impl { file, line, name: last.ident.to_string() });
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // A module with a file of its own is read with that.
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // What the root of a crate exports is a table of contents; who uses it uses the file behind it.
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        let is_contents = public && self.module.is_empty();
        for leaf in leaves(&item.tree) {
            if !is_contents {
                self.note(&leaf.path, leaf.line);
            }
            let own = self.tree.modules.get(&self.module);
            if own.is_none_or(|module| !module.imports.contains_key(&leaf.name)) && !leaf.glob {
                self.local.insert(leaf.name, leaf.path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        // One word is a variable, or stands in a `use`.
        if words.len() > 1 {
            self.note(&words, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if let Some(last) = item.path.segments.last() {
            let (file, line) = (self.file.to_owned(), last.span().start().line);
            self.source.names.push(Name { file, line, path: format!("{}!", last.ident) });
        }
        self.note_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Whether `#[cfg(test)]` or `#[cfg(all(test, ...))]` stands before an item.
fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        needs_test(list.tokens.clone())
    })
}

fn needs_test(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(word)), None) => word == "test",
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(parts))) if word == "all" => {
            let is_test = |part| matches!(part, TokenTree::Ident(word) if word == "test");
            parts.stream().into_iter().any(is_test)
        }
        _ => false,
    }
}

/// What `#[path = "..."]` says.
fn stated_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn item_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
