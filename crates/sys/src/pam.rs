//! Sessions of PAM (pam(3)), by the machine's own library, which is loaded when it is asked for: nothing needs it, or
//! its headers, to be built.
//!
//! The library loads modules, which are anybody's code: they make threads and processes, open files and change the
//! process that calls. So nothing calls this but a program that is for that alone, linked dynamically, with one
//! thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::error::{Error, Result, last_errno};

/// Names that the library goes by, the newest interface first.
const LIBRARIES: [&CStr; 2] = [c"libpam.so.0", c"libpam.so"];

const SUCCESS: c_int = 0;
const CONVERSATION_ERROR: c_int = 19;

/// `PAM_TTY` of pam_set_item(3).
const ITEM_TTY: c_int = 3;

/// `PAM_SILENT`: modules say nothing to the user, for there is none who would read it.
const SILENT: c_int = 0x8000;
const ESTABLISH_CREDENTIALS: c_int = 0x2;
const DELETE_CREDENTIALS: c_int = 0x4;

type Handle = *mut c_void;
type Converse = extern "C" fn(c_int, *const *const c_void, *mut *mut c_void, *mut c_void) -> c_int;

/// `struct pam_conv`.
#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

/// Nobody is there to answer, so every question fails.
extern "C" fn no_answer(
    _count: c_int,
    _messages: *const *const c_void,
    _answers: *mut *mut c_void,
    _data: *mut c_void,
) -> c_int {
    CONVERSATION_ERROR
}

static NOBODY: Conversation = Conversation { converse: no_answer, data: std::ptr::null_mut() };

// SAFETY: nothing writes to it, and the pointer in it is null.
unsafe impl Sync for Conversation {}

/// Declares the functions that are looked up in the library.
macro_rules! functions {
    ($($name:ident = $symbol:literal: $kind:ty;)*) => {
        /// What the library can do. It is never unloaded: modules may have threads.
        #[derive(Clone, Copy)]
        struct Functions { $($name: $kind,)* }

        impl Functions {
            fn find(library: *mut c_void) -> std::result::Result<Functions, String> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the library is loaded and stays so; the name is terminated.
                        let found = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                        if found.is_null() {
                            return Err(format!("libpam has no {}", $symbol.to_string_lossy()));
                        }
                        // SAFETY: a function of this name has this type in every libpam (pam(3)).
                        unsafe { std::mem::transmute::<*mut c_void, $kind>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    start = c"pam_start": unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Handle) -> c_int;
    end = c"pam_end": unsafe extern "C" fn(Handle, c_int) -> c_int;
    set_item = c"pam_set_item": unsafe extern "C" fn(Handle, c_int, *const c_void) -> c_int;
    put_variable = c"pam_putenv": unsafe extern "C" fn(Handle, *const c_char) -> c_int;
    variables = c"pam_getenvlist": unsafe extern "C" fn(Handle) -> *mut *mut c_char;
    account = c"pam_acct_mgmt": unsafe extern "C" fn(Handle, c_int) -> c_int;
    credentials = c"pam_setcred": unsafe extern "C" fn(Handle, c_int) -> c_int;
    open = c"pam_open_session": unsafe extern "C" fn(Handle, c_int) -> c_int;
    close = c"pam_close_session": unsafe extern "C" fn(Handle, c_int) -> c_int;
    text = c"pam_strerror": unsafe extern "C" fn(Handle, c_int) -> *const c_char;
}

/// A session of a user, not open yet or open.
pub struct Session {
    functions: Functions,
    handle: Handle,
    /// What the last call that failed answered.
    last: c_int,
    is_open: bool,
}

/// A step that failed, and what the library says of it.
pub type Refusal = String;

impl Session {
    /// Begins with a user by a service of PAM's configuration.
    pub fn start(service: &str, user: &str) -> std::result::Result<Session, Refusal> {
        let functions = Functions::find(library()?)?;
        let (service, user) = (c_string(service)?, c_string(user)?);
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: terminated strings, a conversation that lives for ever, and a place for the handle.
        let code = unsafe {
            (functions.start)(service.as_ptr(), user.as_ptr(), &raw const NOBODY, &raw mut handle)
        };
        let mut session = Session { functions, handle, last: SUCCESS, is_open: false };
        session.step("pam_start", code).map(|()| session)
    }

    /// The terminal of the session (`PAM_TTY`).
    pub fn set_terminal(&mut self, path: &str) -> std::result::Result<(), Refusal> {
        let path = c_string(path)?;
        // SAFETY: a handle of pam_start(3); the library copies the terminated string.
        let code =
            unsafe { (self.functions.set_item)(self.handle, ITEM_TTY, path.as_ptr().cast()) };
        self.step("pam_set_item", code)
    }

    /// A variable, `NAME=value`, for modules to see and to change.
    pub fn put_variable(&mut self, variable: &str) -> std::result::Result<(), Refusal> {
        let variable = c_string(variable)?;
        // SAFETY: as above.
        let code = unsafe { (self.functions.put_variable)(self.handle, variable.as_ptr()) };
        self.step("pam_putenv", code)
    }

    /// Asks whether the user may, sets credentials, and opens the session. That credentials cannot be set is no
    /// reason to refuse: the second value says why.
    pub fn open(&mut self) -> std::result::Result<Option<Refusal>, Refusal> {
        // SAFETY: a handle of pam_start(3), here and below.
        let code = unsafe { (self.functions.account)(self.handle, SILENT) };
        self.step("pam_acct_mgmt", code)?;
        // SAFETY: as above.
        let code =
            unsafe { (self.functions.credentials)(self.handle, ESTABLISH_CREDENTIALS | SILENT) };
        let credentials = self.step("pam_setcred", code).err();
        // SAFETY: as above.
        let code = unsafe { (self.functions.open)(self.handle, SILENT) };
        self.step("pam_open_session", code)?;
        self.is_open = true;
        Ok(credentials)
    }

    /// What the environment is now, `NAME=value`. What is no text is left out.
    pub fn variables(&self) -> Vec<String> {
        let mut out = Vec::new();
        // SAFETY: a handle of pam_start(3). The list and its strings are new, end with a null pointer and a NUL, and
        // are left to the process, which ends soon or is replaced.
        unsafe {
            let mut entry = (self.functions.variables)(self.handle);
            while !entry.is_null() && !(*entry).is_null() {
                out.extend(CStr::from_ptr(*entry).to_str().ok().map(str::to_owned));
                entry = entry.add(1);
            }
        }
        out
    }

    /// Closes the session, if it is open, and takes credentials back.
    pub fn close(mut self) -> std::result::Result<(), Refusal> {
        let mut result = Ok(());
        if self.is_open {
            // SAFETY: a handle of pam_start(3), here and below.
            let code = unsafe { (self.functions.close)(self.handle, SILENT) };
            result = self.step("pam_close_session", code);
            // SAFETY: as above.
            unsafe { (self.functions.credentials)(self.handle, DELETE_CREDENTIALS | SILENT) };
        }
        // SAFETY: as above; nothing uses the handle afterwards.
        unsafe { (self.functions.end)(self.handle, self.last) };
        result
    }

    fn step(&mut self, call: &str, code: c_int) -> std::result::Result<(), Refusal> {
        if code == SUCCESS {
            return Ok(());
        }
        self.last = code;
        // SAFETY: libpam's texts are static; it takes any handle, also none.
        let text = unsafe {
            let text = (self.functions.text)(self.handle, code);
            if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy()) }
        };
        Err(format!("{call}: {}", text.unwrap_or_else(|| format!("error {code}").into())))
    }
}

fn library() -> std::result::Result<*mut c_void, Refusal> {
    for name in LIBRARIES {
        // SAFETY: a terminated name. What the library does when it is loaded is the machine's own affair.
        let found = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !found.is_null() {
            return Ok(found);
        }
    }
    Err("libpam.so.0 cannot be loaded: PAM is not installed (Debian: libpam-runtime)".to_owned())
}

fn c_string(text: &str) -> std::result::Result<CString, Refusal> {
    CString::new(text).map_err(|_| format!("NUL in {text:?}"))
}

/// Which of the two processes that [`fork`] returns in this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was there.
    Parent,
    /// The new one, a copy of it.
    Child,
}

/// Makes a copy of this process, with a session that it has open. Modules' threads are in the parent alone.
pub fn fork(_session: &Session) -> Result<Side> {
    // SAFETY: the program has no thread of its own, so nothing that the copy uses is locked by one; the C library
    // sees to its own locks.
    match unsafe { libc::fork() } {
        -1 => Err(Error::new("fork", last_errno())),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent),
    }
}
