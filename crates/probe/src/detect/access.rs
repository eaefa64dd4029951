//! Access to the device files, with the rights that this process really has. Being in the group's list is not enough:
//! a login from before has not got the group.

use super::reader::{Reader, json};
use crate::Access;

/// The capture writer's own record: whether a device may be opened cannot be seen from a copy of it.
const CAPTURED: &str = "tunesmith-capture/access.json";

pub(crate) fn access(reader: &Reader<'_>, render_minors: &[u32]) -> Access {
    if reader.live() {
        return live(reader, render_minors);
    }
    if let Some(text) = reader.text(CAPTURED) {
        match json(&text).and_then(|value| serde_json::from_value(value).ok()) {
            Some(access) => return access,
            None => reader.note(CAPTURED, "it is no record of access"),
        }
    }
    Access {
        dxg: reader.exists("dev/dxg").then_some(true),
        ..Access::default()
    }
}

#[cfg(not(unix))]
fn live(_reader: &Reader<'_>, _render_minors: &[u32]) -> Access {
    Access::default()
}

#[cfg(unix)]
fn live(reader: &Reader<'_>, render_minors: &[u32]) -> Access {
    let mut groups: Vec<u32> = rustix::process::getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect();
    groups.push(rustix::process::getegid().as_raw());
    groups.sort_unstable();
    groups.dedup();
    let database = Database::read(reader, rustix::process::getuid().as_raw());
    let mut nodes: Vec<String> = reader
        .names("dev/dri")
        .into_iter()
        .filter(|name| name.starts_with("renderD"))
        .collect();
    // A container may lack the node of a card that sysfs shows.
    for minor in render_minors {
        let name = format!("renderD{minor}");
        if !nodes.contains(&name) {
            nodes.push(name);
        }
    }
    nodes.sort();
    Access {
        kfd: Some(unix::device("/dev/kfd", &database)),
        render_nodes: nodes
            .iter()
            .map(|name| unix::device(&format!("/dev/dri/{name}"), &database))
            .collect(),
        dxg: Some(reader.exists("dev/dxg")),
        process_groups: Some(groups),
        user: database.user,
    }
}

/// What `/etc/passwd` and `/etc/group` say of one user.
#[derive(Default)]
struct Database {
    user: Option<String>,
    primary: Option<u32>,
    /// Number, name and whether the user is in its list.
    groups: Vec<(u32, String, bool)>,
}

impl Database {
    fn read(reader: &Reader<'_>, uid: u32) -> Self {
        let passwd = reader.text("etc/passwd").unwrap_or_default();
        let entry = passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                [name, _, id, group, ..] if id.parse() == Ok(uid) => {
                    Some(((*name).to_owned(), group.parse().ok()))
                }
                _ => None,
            }
        });
        let (user, primary) = entry.map_or((None, None), |(name, group)| (Some(name), group));
        let groups = reader.text("etc/group").unwrap_or_default();
        let groups = groups
            .lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                let [name, _, id, members] = fields.as_slice() else {
                    return None;
                };
                let listed = user
                    .as_deref()
                    .is_some_and(|user| members.split(',').any(|member| member == user));
                Some((id.parse().ok()?, (*name).to_owned(), listed))
            })
            .collect();
        Self {
            user,
            primary,
            groups,
        }
    }

    #[cfg_attr(not(unix), allow(dead_code))]
    fn group_name(&self, id: u32) -> Option<String> {
        self.groups
            .iter()
            .find(|(number, _, _)| *number == id)
            .map(|(_, name, _)| name.clone())
    }

    /// Whether the database puts the user into a group; `None` where it does not know the user, as with a directory
    /// service.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn user_in(&self, id: u32) -> Option<bool> {
        self.user.as_ref()?;
        Some(
            self.primary == Some(id)
                || self
                    .groups
                    .iter()
                    .any(|(number, _, listed)| *number == id && *listed),
        )
    }
}

#[cfg(unix)]
mod unix {
    use super::Database;
    use crate::DeviceAccess;
    use rustix::fs::{Access, access, stat};

    /// Looks at a device without opening it: opening `/dev/kfd` would make this a compute process.
    pub(super) fn device(path: &str, database: &Database) -> DeviceAccess {
        let Ok(stat) = stat(path) else {
            return DeviceAccess {
                path: path.to_owned(),
                ..DeviceAccess::default()
            };
        };
        DeviceAccess {
            path: path.to_owned(),
            exists: true,
            read_write: Some(access(path, Access::READ_OK | Access::WRITE_OK).is_ok()),
            group_id: Some(stat.st_gid),
            group: database.group_name(stat.st_gid),
            user_in_group: database.user_in(stat.st_gid),
            mode: Some(stat.st_mode & 0o7777),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn the_database_tells_who_is_in_a_group() {
        let folder = tree(&[
            (
                "etc/passwd",
                "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n",
            ),
            (
                "etc/group",
                "render:x:992:bob,alice\nvideo:x:44:\nalice:x:1000:\n",
            ),
        ]);
        let database = Database::read(&Reader::new(folder.path()), 1000);
        assert_eq!(database.user.as_deref(), Some("alice"));
        assert_eq!(
            (
                database.user_in(992),
                database.user_in(44),
                database.user_in(1000)
            ),
            (Some(true), Some(false), Some(true))
        );
        assert_eq!(database.group_name(992).as_deref(), Some("render"));
        let unknown = Database::read(&Reader::new(folder.path()), 7);
        assert_eq!(unknown.user_in(992), None);
    }

    #[test]
    fn a_capture_says_what_its_writer_recorded() {
        let folder = tree(&[(
            "tunesmith-capture/access.json",
            r#"{"kfd": {"path": "/dev/kfd", "exists": true, "read_write": false,
            "group_id": 992, "group": "render", "user_in_group": true, "mode": 432}, "render_nodes": [], "dxg": null, "process_groups": null}"#,
        )]);
        let recorded = access(&Reader::new(folder.path()), &[]);
        assert_eq!(recorded.kfd.unwrap().read_write, Some(false));
        let unknown = access(&Reader::new(tree(&[]).path()), &[]);
        assert_eq!(unknown, Access::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_groups() {
        let here = access(&Reader::new(std::path::Path::new(crate::LIVE)), &[]);
        assert!(!here.process_groups.unwrap().is_empty());
        assert!(here.kfd.is_some());
    }
}
