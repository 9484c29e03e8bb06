//! Typed settings of units that are in use, compiled from their files when they are first needed.
//!
//! A unit that does nothing keeps only its files and relations; this is what makes 40,000 of them
//! cheap.

use crate::graph::Definition;
use crate::state::CommandList;
use std::sync::Arc;
use warren_unit::compile::Compiler;
use warren_unit::config::{
    AutomountConfig, Command, MountConfig, ServiceConfig, SliceConfig, SocketConfig, UnitSection,
};
use warren_unit::{Context, Defaults, UnitType};

/// What all compilation needs: the host's facts and the manager's defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For specifiers.
    pub context: Arc<Context>,
    /// For what files leave open.
    pub defaults: Arc<Defaults>,
}

/// The part that depends on the type.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum TypeSettings {
    Service(Box<ServiceConfig>),
    Socket(Box<SocketConfig>),
    Mount(Box<MountConfig>),
    Automount(Box<AutomountConfig>),
    Slice(Box<SliceConfig>),
    None,
}

/// One unit's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Compiled {
    /// `[Unit]`.
    pub section: Arc<UnitSection>,
    /// The rest.
    pub own: TypeSettings,
}

impl Settings {
    /// Compiles one unit. What was wrong in its files was reported when it was loaded.
    pub fn compile(&self, definition: &Definition) -> Compiled {
        let sources = definition.files.sources();
        let compiler = Compiler {
            name: &definition.name,
            sources: &sources,
            context: &self.context,
            defaults: &self.defaults,
        };
        let own = match definition.unit_type() {
            UnitType::Service => TypeSettings::Service(Box::new(compiler.service().0)),
            UnitType::Socket => TypeSettings::Socket(Box::new(compiler.socket().0)),
            UnitType::Mount => TypeSettings::Mount(Box::new(compiler.mount().0)),
            UnitType::Automount => TypeSettings::Automount(Box::new(compiler.automount().0)),
            UnitType::Slice => TypeSettings::Slice(Box::new(compiler.slice().0)),
            _ => TypeSettings::None,
        };
        Compiled { section: Arc::new(compiler.unit().0), own }
    }
}

impl Compiled {
    /// The commands of one list, for the types that run any.
    pub fn commands(&self, list: CommandList) -> &[Command] {
        match &self.own {
            TypeSettings::Service(config) => match list {
                CommandList::Condition => &config.exec_condition,
                CommandList::StartPre => &config.exec_start_pre,
                CommandList::Start => &config.exec_start,
                CommandList::StartPost => &config.exec_start_post,
                CommandList::Reload => &config.exec_reload,
                CommandList::Stop => &config.exec_stop,
                CommandList::StopPost => &config.exec_stop_post,
            },
            TypeSettings::Socket(config) => match list {
                CommandList::StartPre => &config.exec_start_pre,
                CommandList::StartPost => &config.exec_start_post,
                CommandList::Stop => &config.exec_stop_pre,
                CommandList::StopPost => &config.exec_stop_post,
                _ => &[],
            },
            _ => &[],
        }
    }
}

macro_rules! typed {
    ($($get:ident $variant:ident $config:ty;)*) => {
        impl Compiled {$(
            /// The settings of this type; the caller knows the unit's type.
            pub fn $get(&self) -> &$config {
                match &self.own {
                    TypeSettings::$variant(config) => config,
                    _ => panic!(concat!("settings of another type asked for as ", stringify!($get))),
                }
            }
        )*}
    };
}
typed! {
    service Service ServiceConfig;
    socket Socket SocketConfig;
    mount Mount MountConfig;
    automount Automount AutomountConfig;
    slice Slice SliceConfig;
}
