//! What is asked and said where no window can: by the toolkit's own dialogs, which need neither a card nor a webview. They
//! wait for nobody: the answer comes as an event.

use std::sync::mpsc::Sender;

use tauri::AppHandle;

use crate::state::{Answer, Event};

const SAVE: &str = "Stop, save and quit";
const NOW: &str = "Stop now and quit";
const STAY: &str = "Stay";

/// Asks how to quit while this goes on.
pub(super) fn ask_how_to_quit(app: &AppHandle, sentence: String, sender: Sender<Event>) {
    // An event loop that is over asks nobody any more.
    let _ = app.run_on_main_thread(move || {
        system::ask(&sentence, move |answer| {
            let _ = sender.send(Event::Answered(answer));
        });
    });
}

/// Says what went wrong, as text that can be copied.
pub(super) fn complain(app: &AppHandle, text: String, sender: Sender<Event>) {
    let _ = app.run_on_main_thread(move || {
        system::tell(&text, move || {
            let _ = sender.send(Event::ComplaintRead);
        });
    });
}

/// The first line of a complaint without its `error:`, and the rest.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "message boxes elsewhere have one text")
)]
fn headline(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    (first.trim_start_matches("error: "), rest.trim_end())
}

#[cfg(target_os = "linux")]
mod system {
    use gtk::{
        ButtonsType, Clipboard, DialogFlags, MessageDialog, MessageType, ResponseType, gdk,
        prelude::{DialogExt, GtkWindowExt, MessageDialogExt, WidgetExt},
    };

    use super::{Answer, NOW, SAVE, STAY, headline};

    /// The button that copies.
    const COPY: ResponseType = ResponseType::Other(1);
    /// The button that does not wait.
    const AT_ONCE: ResponseType = ResponseType::Other(2);

    fn dialog(kind: MessageType, first: &str, rest: &str) -> MessageDialog {
        let dialog = MessageDialog::new(
            None::<&gtk::Window>,
            DialogFlags::empty(),
            kind,
            ButtonsType::None,
            first,
        );
        dialog.set_title("Tunesmith");
        if !rest.is_empty() {
            dialog.set_secondary_text(Some(rest));
        }
        dialog
    }

    pub(super) fn ask(sentence: &str, answer: impl Fn(Answer) + 'static) {
        let dialog = dialog(
            MessageType::Question,
            sentence,
            "It ends with Tunesmith. What is saved can go on later.",
        );
        dialog.add_button(STAY, ResponseType::Cancel);
        dialog.add_button(NOW, AT_ONCE);
        dialog.add_button(SAVE, ResponseType::Accept);
        dialog.set_default_response(ResponseType::Accept);
        dialog.connect_response(move |dialog, response| {
            dialog.hide();
            answer(match response {
                ResponseType::Accept => Answer::StopAndSave,
                AT_ONCE => Answer::StopNow,
                _ => Answer::Stay,
            });
        });
        dialog.show_all();
        dialog.present();
    }

    pub(super) fn tell(text: &str, read: impl Fn() + 'static) {
        let (first, rest) = headline(text);
        let dialog = dialog(MessageType::Error, first, rest);
        dialog.add_button("Copy", COPY);
        dialog.add_button("Close", ResponseType::Close);
        dialog.set_default_response(ResponseType::Close);
        let all = text.to_owned();
        dialog.connect_response(move |dialog, response| {
            if response == COPY {
                let clipboard = Clipboard::get(&gdk::SELECTION_CLIPBOARD);
                clipboard.set_text(&all);
                clipboard.store();
            } else {
                dialog.hide();
                read();
            }
        });
        dialog.show_all();
        dialog.present();
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use rfd::{MessageButtons, MessageDialog, MessageDialogResult, MessageLevel};

    use super::{Answer, NOW, SAVE, STAY};

    pub(super) fn ask(sentence: &str, answer: impl Fn(Answer) + 'static) {
        let chosen = MessageDialog::new()
            .set_level(MessageLevel::Warning)
            .set_title("Tunesmith")
            .set_description(format!(
                "{sentence}. It ends with Tunesmith; what is saved can go on later"
            ))
            .set_buttons(MessageButtons::YesNoCancelCustom(
                SAVE.to_owned(),
                NOW.to_owned(),
                STAY.to_owned(),
            ))
            .show();
        answer(match chosen {
            MessageDialogResult::Yes => Answer::StopAndSave,
            MessageDialogResult::No => Answer::StopNow,
            MessageDialogResult::Custom(name) if name == SAVE => Answer::StopAndSave,
            MessageDialogResult::Custom(name) if name == NOW => Answer::StopNow,
            _ => Answer::Stay,
        });
    }

    pub(super) fn tell(text: &str, read: impl Fn() + 'static) {
        // The text of a message box can be copied with Ctrl-C on Windows; it is on standard error everywhere.
        MessageDialog::new()
            .set_level(MessageLevel::Error)
            .set_title("Tunesmith")
            .set_description(text)
            .set_buttons(MessageButtons::Ok)
            .show();
        read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_has_its_headline_without_the_word_of_terminals() {
        let text = "error: the window cannot be opened\nhint: try this\n";
        assert_eq!(headline(text), ("the window cannot be opened", "hint: try this"));
        assert_eq!(headline("error: nothing more"), ("nothing more", ""));
    }
}
