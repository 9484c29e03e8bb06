//! The terminal: its modes, its second screen, and who writes to it.
//!
//! - Owns: what a terminal was before, and gives it back.
//! - Must not: have somebody wait for a terminal that takes nothing. Frames are written by a thread of their own, one at
//!   a time; while one is being written there is no next one.

use std::cell::RefCell;
use std::io::{self, Stdin, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ratatui_core::layout::Rect;
use ratatui_core::terminal::{Terminal, TerminalOptions, Viewport};
use ratatui_crossterm::CrosstermBackend;
use warren_sys::terminal::KeyByKey;

use crate::draw::draw;
use crate::state::State;

/// How long a terminal may take for what puts it back as it was.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// The second screen, without a cursor; and back, with plain characters.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?25h\x1b[?1049l";

/// Presses of the mouse and turns of its wheel are told of, wherever on the screen (xterm's SGR mode). The way in which a
/// terminal selects text is had with shift then.
const MOUSE: &[u8] = b"\x1b[?1000h\x1b[?1006h";

/// What is drawn, until it is sent as one frame.
#[derive(Debug, Clone, Default)]
struct Frame(Rc<RefCell<Vec<u8>>>);

impl Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The screen while it is ours.
pub struct Screen {
    has_mouse: bool,
    keys: Option<KeyByKey<Stdin>>,
    frame: Frame,
    terminal: Terminal<CrosstermBackend<Frame>>,
    frames: SyncSender<Vec<u8>>,
    is_writing: Arc<AtomicBool>,
    written: Receiver<()>,
}

impl Screen {
    /// Takes the terminal. `wake` is called, by another thread, whenever a frame was written.
    ///
    /// # Errors
    /// Standard input is no terminal, or there is no thread to be had.
    pub fn enter(
        size: (u16, u16),
        has_mouse: bool,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Screen> {
        restore_at_panic();
        let keys = KeyByKey::new(io::stdin()).map_err(|e| io::Error::from_raw_os_error(e.errno))?;
        let (frames, taken) = sync_channel::<Vec<u8>>(1);
        let (tell, written) = sync_channel(1);
        let is_writing = Arc::new(AtomicBool::new(false));
        let of_thread = is_writing.clone();
        std::thread::Builder::new().name("screen".into()).spawn(move || {
            for frame in taken {
                let mut out = io::stdout().lock();
                // A terminal that is gone is told of by its end of file.
                let _ = out.write_all(&frame).and_then(|()| out.flush());
                drop(out);
                of_thread.store(false, Ordering::Release);
                let _ = tell.try_send(());
                wake();
            }
        })?;
        let frame = Frame::default();
        let viewport = Viewport::Fixed(area(size));
        let terminal = Terminal::with_options(
            CrosstermBackend::new(frame.clone()),
            TerminalOptions { viewport },
        )?;
        let keys = Some(keys);
        let mut screen = Screen { has_mouse, keys, frame, terminal, frames, is_writing, written };
        screen.take_terminal();
        Ok(screen)
    }

    /// Whether the last frame is written.
    pub fn is_ready(&self) -> bool {
        !self.is_writing.load(Ordering::Acquire)
    }

    /// Shows the state, which must be settled. Only what differs is written.
    pub fn show(&mut self, state: &State) -> io::Result<()> {
        if self.terminal.get_frame().area() != area(state.size) {
            self.terminal.resize(area(state.size))?;
        }
        self.terminal.draw(|frame| draw(state, frame.buffer_mut()))?;
        let bytes = std::mem::take(&mut *self.frame.0.borrow_mut());
        self.send(bytes);
        Ok(())
    }

    /// Gives the terminal up for a while, and takes it again after `meanwhile`; all is drawn anew.
    pub fn step_aside(&mut self, meanwhile: impl FnOnce()) -> io::Result<()> {
        self.leave();
        meanwhile();
        self.keys = KeyByKey::new(io::stdin()).ok();
        self.take_terminal();
        self.terminal.clear()
    }

    fn take_terminal(&mut self) {
        let mouse: &[u8] = if self.has_mouse { MOUSE } else { &[] };
        self.send([ENTER, mouse].concat());
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.is_writing.store(true, Ordering::Release);
        // Whoever is not ready is not sent to, but at the end.
        let _ = self.frames.try_send(bytes);
    }

    fn leave(&mut self) {
        while self.written.try_recv().is_ok() {}
        if !self.is_ready() {
            let _ = self.written.recv_timeout(LEAVES_WITHIN);
        }
        if self.is_ready() {
            while self.written.try_recv().is_ok() {}
            self.send(LEAVE.to_vec());
            let _ = self.written.recv_timeout(LEAVES_WITHIN);
        }
        self.keys = None;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn area((columns, rows): (u16, u16)) -> Rect {
    Rect::new(0, 0, columns.max(1), rows.max(1))
}

/// A fault of ours is said on the first screen, where it stays.
fn restore_at_panic() {
    let before = std::panic::take_hook();
    let modes = warren_sys::terminal::modes(io::stdin()).ok();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = io::stdout().write_all(LEAVE);
        let _ = io::stdout().flush();
        if let Some(modes) = &modes {
            modes.restore(io::stdin());
        }
        before(panic);
    }));
}
