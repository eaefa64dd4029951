//! The tray's icon and menu, by Tauri. On Linux it is a StatusNotifierItem on the session's bus; where there is no bus, or
//! nobody on it who shows such items, there is no tray, and the app does without.

use std::sync::mpsc::Sender;

use tauri::{
    AppHandle, Wry,
    image::Image,
    menu::{IsMenuItem, Menu, MenuItem},
    tray::{MouseButton, MouseButtonState, TrayIconBuilder, TrayIconEvent},
};

use super::icon;
use crate::{
    shell::say_line,
    state::Event,
    tray::{Item, Mark, Tray},
};

/// The tray as it is shown.
pub(super) struct TrayIcon {
    icon: tauri::tray::TrayIcon<Wry>,
    /// In the order of [`Item::ALL`].
    items: Vec<MenuItem<Wry>>,
    shown: Option<Tray>,
}

/// Builds it; `None` where this desktop has no tray.
pub(super) fn build(app: &AppHandle, sender: &Sender<Event>) -> Option<TrayIcon> {
    match try_build(app, sender) {
        Ok(icon) => Some(icon),
        Err(error) => {
            say_line(&format!("note: this desktop shows no tray: {error}"));
            None
        }
    }
}

fn try_build(app: &AppHandle, sender: &Sender<Event>) -> tauri::Result<TrayIcon> {
    let items = Item::ALL
        .iter()
        .map(|item| MenuItem::with_id(app, item.id(), "", false, None::<&str>))
        .collect::<tauri::Result<Vec<_>>>()?;
    let entries: Vec<&dyn IsMenuItem<Wry>> = items.iter().map(|item| item as &dyn IsMenuItem<Wry>).collect();
    let menu = Menu::with_items(app, &entries)?;
    let (chosen, clicked) = (sender.clone(), sender.clone());
    let icon = TrayIconBuilder::with_id("tunesmith")
        .icon(picture(Mark::Idle)?)
        .tooltip("Tunesmith")
        .menu(&menu)
        .show_menu_on_left_click(false)
        .on_menu_event(move |_app, event| {
            if let Some(item) = Item::by_id(event.id().as_ref()) {
                // A shell that leaves hears nothing more.
                let _ = chosen.send(Event::Chosen(item));
            }
        })
        .on_tray_icon_event(move |_icon, event| {
            if let TrayIconEvent::Click {
                button: MouseButton::Left,
                button_state: MouseButtonState::Up,
                ..
            } = event
            {
                let _ = clicked.send(Event::Chosen(Item::Open));
            }
        })
        .build(app)?;
    Ok(TrayIcon {
        icon,
        items,
        shown: None,
    })
}

fn picture(mark: Mark) -> tauri::Result<Image<'static>> {
    let plain = Image::from_bytes(icon::APP)?;
    let pixels = icon::marked(plain.rgba(), plain.width() as usize, mark);
    Ok(Image::new_owned(pixels, plain.width(), plain.height()))
}

impl TrayIcon {
    /// Shows it so. What has not changed is left alone: each change wakes the desktop.
    pub(super) fn show(&mut self, app: &AppHandle, tray: &Tray) {
        let before = self.shown.replace(tray.clone());
        let differs = |index: usize| {
            before
                .as_ref()
                .is_none_or(|before| before.entries[index] != tray.entries[index])
        };
        let changed: Vec<(MenuItem<Wry>, String, bool)> = self
            .items
            .iter()
            .zip(&tray.entries)
            .enumerate()
            .filter(|(index, _)| differs(*index))
            .map(|(_, (item, (text, open)))| (item.clone(), text.clone(), *open))
            .collect();
        let mark = before
            .is_none_or(|before| before.mark != tray.mark)
            .then_some(tray.mark);
        let (icon, status) = (self.icon.clone(), tray.status.clone());
        // An event loop that is over shows nothing any more, and a tray that is not shown harms nothing.
        let _ = app.run_on_main_thread(move || {
            for (item, text, open) in changed {
                let _ = item.set_text(text);
                let _ = item.set_enabled(open);
            }
            if let Some(picture) = mark.and_then(|mark| picture(mark).ok()) {
                let _ = icon.set_icon(Some(picture));
            }
            let _ = icon.set_tooltip(Some(format!("Tunesmith: {status}")));
        });
    }
}
