//! Carries out what the pages asked for.

use std::path::Path;

use egui::{Context, ViewportCommand};
use tunesmith_protocol::Command as ToService;

use super::App;
use crate::{
    commands::{Command, Commands},
    services,
    state::Page,
    theme::Tone,
};

impl App {
    pub(super) fn carry_out(&mut self, out: &mut Commands, ctx: &Context) {
        for command in out.take() {
            self.carry_out_one(command, ctx);
            // What was asked for shows at once.
            ctx.request_repaint();
        }
    }

    fn carry_out_one(&mut self, command: Command, ctx: &Context) {
        match command {
            Command::Go(page) => self.state.go(page),
            Command::Start(work) => self.begin_task(*work),
            Command::Stop(how) => {
                if let (Some(client), Some(task)) = (&mut self.client, self.state.tasks.running()) {
                    client.send(&ToService::Stop { task: task.id, how });
                    self.state.tasks.stopping(how);
                }
            }
            Command::Copy { text, what } => {
                ctx.copy_text(text);
                self.state.say(Tone::Ok, format!("Copied {what}"));
            }
            Command::Open(file) if self.state.hosted && is_report(&file) => {
                self.send(&ToService::ShowReport { file });
            }
            Command::Open(path) => {
                if let Err(error) = open::that_detached(&path) {
                    let text = format!("{} could not be opened: {error}", path.display());
                    self.state.say_stop(text);
                }
            }
            Command::Theme(wish) => {
                self.state.saved.theme = wish;
                self.dress(ctx);
            }
            Command::Zoom(zoom) => {
                self.state.saved.zoom = zoom.clamp(1.0, 2.0);
                self.dress(ctx);
            }
            Command::Device(wish) => {
                self.state.saved.device = wish;
                let work = services::look(&mut self.state);
                self.begin(work);
            }
            Command::Do(action) => {
                let work = (action.change)(&mut self.state);
                self.begin(work);
            }
            Command::Explain(term) => {
                self.state.glossary_term = Some(term);
                self.state.page = Page::Glossary;
            }
            Command::Quit => {
                if self.state.hosted {
                    self.send(&ToService::Quit);
                }
                self.state.asks_to_close = false;
                self.closing = true;
                if self.state.tasks.running().is_none() {
                    ctx.send_viewport_cmd(ViewportCommand::Close);
                }
            }
        }
    }
}

/// Whether the installed app has a window for such a file.
fn is_report(file: &Path) -> bool {
    file.is_absolute() && file.extension().is_some_and(|extension| extension == "html")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, empty, pipe};

    use tunesmith_protocol::decode_command;
    use tunesmith_setup::Folders;

    use super::super::Options;
    use super::*;

    #[test]
    fn the_installed_app_shows_reports_in_a_window_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Context::default();
        let mut app = App::new(
            &ctx,
            Options {
                folders: Folders::all_under(home.path()),
                root: home.path().to_owned(),
                program: home.path().join("none"),
                environment: Vec::new(),
                renderer: "none".to_owned(),
            },
        );
        let (hears, output) = pipe().unwrap();
        app.attach(empty(), output);
        let file = home.path().join("report.html");
        let mut out = Commands::new();
        out.push(Command::Open(file.clone()));
        app.carry_out(&mut out, &ctx);
        let line = BufReader::new(hears).lines().next().unwrap().unwrap();
        assert_eq!(
            decode_command(&line).unwrap(),
            ToService::ShowReport { file: file.clone() }
        );
        assert!(is_report(&file) && !is_report(Path::new("report.html")) && !is_report(home.path()));
    }
}
