//! The window of Tunesmith: what a card is, what is wrong with its set-up, how fast it is, and a model learning.
//!
//! This crate draws and nothing else: engines are led by `tunesmith serve`, a process of its own, and what this machine
//! is comes from the same libraries as the command line's.

pub mod app;
pub mod chart;
pub mod commands;
pub mod glossary;
pub mod pages;
pub mod renderer;
pub mod saved;
pub mod services;
pub mod state;
pub mod theme;
pub mod widgets;
