//! What a user relies on when they hand a log to `explain`: a known fault is recognised wherever it stands in a real
//! log, and first; a healthy log is not accused.

mod fault_log;
mod known;
mod logs;

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use tunesmith_probe::{DeviceAccess, Gpu, GpuVendor, Platform, Setting, System};
use tunesmith_setup::explain::{
    Explanation, Faults, Kind, MachineSays, Verdict, explain, explain_reader, text,
};

fn faults() -> Faults {
    Faults::built_in().expect("the built-in faults are right")
}

fn ids(explanation: &Explanation) -> Vec<&str> {
    explanation
        .findings
        .iter()
        .map(|finding| finding.id.as_str())
        .collect()
}

/// The first among errors, or the first at all where the fault is none.
fn first(explanation: &Explanation, kind: Kind) -> Option<&str> {
    let level = |kind| match kind {
        Kind::Error | Kind::Silent => 0,
        Kind::Warning => 1,
        Kind::Harmless => 2,
    };
    let same = explanation
        .findings
        .iter()
        .find(|finding| level(finding.kind) == level(kind));
    same.map(|finding| finding.id.as_str())
}

#[test]
fn every_known_text_is_recognised_in_every_kind_of_log_and_comes_first() {
    let faults = faults();
    let mut wrong = String::new();
    for (entry, id, texts) in known::CASES {
        let row = faults.get(id).unwrap_or_else(|| panic!("{id} has no row"));
        assert!(
            row.entries.iter().any(|own| own == entry),
            "{id} does not name {entry}"
        );
        for text in *texts {
            for log in logs::KINDS {
                for place in [0, 57, 120, 199] {
                    let made = logs::with(*log, place, text);
                    let explained = explain(&made, None, &faults);
                    if first(&explained, row.kind) != Some(id) {
                        let _ = writeln!(
                            wrong,
                            "{entry} {id}, {log:?} at {place}: {:?} for {text:?}",
                            ids(&explained)
                        );
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_fault_stands_at_the_line_that_shows_it() {
    let made = logs::with(
        logs::Kind::Journal,
        57,
        "Unable to open /dev/kfd read-write: Permission denied",
    );
    let explained = explain(&made, None, &faults());
    let finding = &explained.findings[0];
    assert_eq!((finding.lines.as_slice(), finding.count), (&[58][..], 1));
    assert!(
        finding
            .quote
            .ends_with("Unable to open /dev/kfd read-write: Permission denied"),
        "{}",
        finding.quote
    );
}

#[test]
fn logs_of_all_kinds_are_healthy_by_themselves() {
    for log in logs::KINDS {
        let explained = explain(&logs::healthy(*log).join("\n"), None, &faults());
        assert_eq!(ids(&explained), [""; 0], "{log:?}");
    }
}

#[test]
fn healthy_logs_are_not_accused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/healthy");
    let faults = faults();
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let explained = explain_reader(bytes.as_slice(), None, &faults).unwrap();
        assert_eq!(
            explained.verdict,
            Verdict::Unknown,
            "{}: {explained:#?}",
            path.display()
        );
        read += 1;
    }
    assert!(read >= 10);
}

#[test]
fn every_row_with_a_number_in_the_fault_log_has_a_case() {
    let faults = faults();
    // Read in part only, or without a text of their own.
    let without = ["B13", "B83"];
    for number in 1..=86 {
        let entry = format!("B{number:02}");
        if without.contains(&entry.as_str()) {
            continue;
        }
        assert!(
            faults.rows().iter().any(|row| row.entries.contains(&entry)),
            "no row names {entry}"
        );
        assert!(
            known::CASES.iter().any(|(of, ..)| *of == entry),
            "no case for {entry}"
        );
    }
    for number in 1..=54 {
        let entry = format!("setup 7.{number}");
        assert!(
            faults.rows().iter().any(|row| row.entries.contains(&entry)),
            "no row names {entry}"
        );
    }
}

#[test]
fn colours_wrapping_carriage_returns_and_other_encodings_do_not_hide_a_fault() {
    let faults = faults();
    let found = |bytes: &[u8]| {
        let explained = explain_reader(bytes, None, &faults).unwrap();
        explained
            .findings
            .first()
            .map(|finding| (finding.id.clone(), finding.lines[0]))
    };
    let expected = Some(("no-kernels-for-card".to_owned(), 2));
    let coloured = b"one\n\x1b[1;31mRuntimeError\x1b[0m: \x1b[33mHIP error: invalid\x1b[0m device function\n";
    assert_eq!(found(coloured), expected);
    assert_eq!(found(b"one\r\nHIP error: invalid device function\r\n"), expected);
    assert_eq!(
        found(b"one\n 1%|\r 2%|\r 3%| HIP error: invalid device function"),
        expected
    );
    assert_eq!(
        found(b"\xff\xfe\x00\n\xc3\x28 HIP error: invalid device function \xff"),
        expected
    );
    let wide: Vec<u8> = "one\r\nHIP error: invalid device function\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(found(&[&[0xff, 0xfe][..], &wide[..]].concat()), expected);
    let broken = "one\n[2026-11-30 09:00:00] RuntimeError in worker 3 of the data loader: HIP error: invalid\n\
                                       device function\n";
    assert_eq!(found(broken.as_bytes()), expected);
    let in_word = "one\n[2026-11-30 09:00:00] RuntimeError in worker 3 of the data loader: HIP error: inva\n\
                   lid device function\n";
    assert_eq!(found(in_word.as_bytes()), expected);
    let mut long = b"one\n".to_vec();
    long.resize(100_000, b'x');
    long.extend_from_slice(b" HIP error: invalid device function");
    long.resize(200_000, b'y');
    assert_eq!(found(&long), expected);
}

#[test]
fn text_and_reader_agree() {
    let faults = faults();
    for log in logs::KINDS {
        let made = logs::with(*log, 80, "HIP out of memory. Tried to allocate 2.00 GiB");
        let read = explain_reader(
            std::io::BufReader::with_capacity(7, made.as_bytes()),
            None,
            &faults,
        )
        .unwrap();
        assert_eq!(read, explain(&made, None, &faults));
    }
}

#[test]
fn several_faults_are_ranked_causes_first() {
    let log = "\
        /opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory\n\
        RuntimeError: No HIP GPUs are available\n\
        Flash attention support on Navi31 GPU is still experimental. Enable it with TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1.\n\
        Unable to open /dev/kfd read-write: Permission denied\n\
        OSError: [Errno 28] No space left on device\n";
    let explained = explain(log, None, &faults());
    assert_eq!(
        ids(&explained),
        [
            "kfd-permission",
            "disk-full",
            "no-gpu-visible",
            "sdpa-experimental",
            "amdgpu-ids-missing"
        ]
    );
    assert_eq!(
        explained.findings[2].follows_from.as_deref(),
        Some("kfd-permission")
    );
    assert_eq!(explained.verdict, Verdict::Known);
    assert!(explained.collect.is_empty());
}

#[test]
fn harmless_messages_are_called_harmless() {
    let log = "Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas (function operator())\n\
               /opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory\n";
    let explained = explain(log, None, &faults());
    assert_eq!(explained.verdict, Verdict::Harmless);
    assert!(explained.summary.contains("harmless"), "{}", explained.summary);
}

#[test]
fn an_unknown_failure_gets_its_class_and_what_to_collect() {
    let cases = [
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nValueError: bad shape",
            "python-traceback",
        ),
        (
            "./run.sh: line 3: 4242 Segmentation fault (core dumped) ./train",
            "crashed-by-signal",
        ),
        ("RuntimeError: HIP error: unspecified launch failure", "gpu-error"),
        ("open('/srv/data/x'): Permission denied", "permission-denied"),
        (
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "memory-error",
        ),
        ("error: failed to build `mamba-ssm`", "build-failed"),
    ];
    for (log, id) in cases {
        let explained = explain(log, None, &faults());
        assert_eq!(explained.verdict, Verdict::General, "{log}");
        assert_eq!(ids(&explained)[0], id, "{log}");
        let collect = explained.collect.join("\n");
        assert!(
            collect.contains("tunesmith capture") && collect.contains("uv pip list"),
            "{collect}"
        );
    }
    let known = [
        (
            "[ 99.0] Out of memory: Killed process 4242 (python3) total-vm:1kB",
            "killed-by-the-kernel",
        ),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("curl: (6) Could not resolve host: huggingface.co", "no-network"),
        ("{'loss': nan, 'grad_norm': nan}", "training-nan"),
    ];
    for (log, id) in known {
        assert_eq!(ids(&explain(log, None, &faults()))[0], id, "{log}");
    }
}

#[test]
fn a_traceback_is_quoted_by_its_exception() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\nmylib.errors.ShapeError: 3 and 4";
    let explained = explain(log, None, &faults());
    assert_eq!(explained.findings[0].quote, "mylib.errors.ShapeError: 3 and 4");
}

#[test]
fn an_empty_text_says_so() {
    for log in ["", "\n\n  \r\n\t"] {
        let explained = explain(log, None, &faults());
        assert_eq!(explained.verdict, Verdict::Empty);
        assert!(explained.summary.contains("no text"), "{}", explained.summary);
    }
}

fn machine(gfx: &str) -> System {
    System {
        platform: Platform::Linux,
        gpus: vec![Gpu {
            vendor: Some(GpuVendor::Amd),
            gfx: Some(gfx.to_owned()),
            integrated: Some(false),
            ..Gpu::default()
        }],
        ..System::default()
    }
}

fn override_in(file: &str, value: &str) -> Setting {
    Setting {
        name: "HSA_OVERRIDE_GFX_VERSION".to_owned(),
        value: value.to_owned(),
        origin: file.to_owned(),
        line: Some(3),
        in_effect: true,
    }
}

#[test]
fn the_cure_is_the_one_for_this_machine() {
    let faults = faults();
    let log = "HIP error: invalid device function";

    let unknown = explain(log, None, &faults);
    assert!(unknown.findings[0].cures[0].because.is_empty());
    assert_eq!(
        unknown.findings[0].cures[0].commands.len(),
        2,
        "one for Linux, one for Windows"
    );

    let native = explain(log, Some(&machine("gfx1102")), &faults);
    let cure = &native.findings[0].cures[0];
    assert!(cure.text.contains("gfx1102"), "{}", cure.text);
    assert_eq!(cure.commands[0].command, "tunesmith setup --apply");
    assert_eq!(cure.because, ["the card is gfx1102"]);

    let mut spoofed = machine("gfx1102");
    spoofed.settings.push(override_in("/etc/environment", "11.0.0"));
    let explained = explain(log, Some(&spoofed), &faults);
    let cure = &explained.findings[0].cures[0];
    assert_eq!(cure.commands[0].command, "unset HSA_OVERRIDE_GFX_VERSION");
    assert!(
        cure.text.contains("11.0.0") && cure.text.contains("/etc/environment, line 3"),
        "{}",
        cure.text
    );

    // The seed of many guides: a no-op on a card that already is what it asks for.
    let mut harmless = machine("gfx1100");
    harmless.settings.push(override_in("/etc/environment", "11.0.0"));
    let explained = explain(log, Some(&harmless), &faults);
    assert_eq!(
        explained.findings[0].cures[0].commands[0].command,
        "tunesmith setup --apply"
    );
}

#[test]
fn the_machine_confirms_or_contradicts_a_text() {
    let faults = faults();
    let log = "Unable to open /dev/kfd read-write: Permission denied";
    let mut system = machine("gfx1100");
    let kfd = |read_write| DeviceAccess {
        path: "/dev/kfd".to_owned(),
        exists: true,
        read_write: Some(read_write),
        group_id: Some(992),
        user_in_group: Some(true),
        ..DeviceAccess::default()
    };
    system.access.kfd = Some(kfd(false));
    let explained = explain(log, Some(&system), &faults);
    assert_eq!(explained.findings[0].machine, MachineSays::Confirms);
    assert!(
        explained.findings[0].cures[0].text.contains("log out and in"),
        "{:?}",
        explained.findings[0].cures
    );

    system.access.kfd = Some(kfd(true));
    let explained = explain(log, Some(&system), &faults);
    assert_eq!(explained.findings[0].machine, MachineSays::Contradicts);
    assert!(
        explained.findings[0].how_sure.contains("older"),
        "{}",
        explained.findings[0].how_sure
    );

    system.machine.container = Some("docker".to_owned());
    system.access.kfd = Some(kfd(false));
    system.access.render_nodes = vec![DeviceAccess {
        group_id: Some(44),
        ..kfd(false)
    }];
    let explained = explain(log, Some(&system), &faults);
    let command = &explained.findings[0].cures[0].commands[0].command;
    assert!(command.contains("--group-add 44 --group-add 992"), "{command}");
}

#[test]
fn advice_follows_the_platform() {
    let faults = faults();
    let log = "hsa_init Failed, possibly no supported GPU devices";
    let mut wsl = machine("gfx1201");
    wsl.platform = Platform::Wsl;
    let explained = explain(log, Some(&wsl), &faults);
    let commands = &explained.findings[0].cures[0].commands;
    assert_eq!(commands[0].command, "export HSA_ENABLE_DXG_DETECTION=1");
    assert_eq!(commands[0].platform, Some(Platform::Wsl));
}

#[test]
fn no_cure_ever_sets_an_override() {
    let faults = faults();
    for row in faults.rows() {
        let advice = row.cure.iter().chain([&row.otherwise]);
        for command in advice.flat_map(|advice| advice.commands().map(str::to_owned).collect::<Vec<_>>()) {
            assert!(
                !command.contains("HSA_OVERRIDE_GFX_VERSION="),
                "{}: {command}",
                row.id
            );
        }
    }
}

#[test]
fn hostile_text_and_machines_do_not_reach_the_terminal() {
    let faults = faults();
    let mut system = machine("gfx1102");
    system.settings.push(override_in(
        "/etc/\u{1b}[2Jevil\u{202e}$(reboot)",
        "11.0.0; `reboot`",
    ));
    let log = "x \u{1b}]0;owned\u{7}\u{9b}31m \u{202e} HIP error: invalid device function <script>\u{8}\u{0}";
    let explained = explain(log, Some(&system), &faults);
    let shown = text(&explained);
    assert!(shown.chars().all(|c| !c.is_control() || c == '\n'), "{shown:?}");
    assert!(
        !shown.contains('\u{202e}') && !shown.contains("$(reboot)") && !shown.contains("`reboot`"),
        "{shown}"
    );
}

#[test]
fn the_json_form_is_read_back_as_it_was() {
    let explained = explain(
        "HIP error: invalid device function",
        Some(&machine("gfx1102")),
        &faults(),
    );
    let json = serde_json::to_string(&explained).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), explained);
    assert!(json.starts_with(r#"{"schema":1,"verdict":"known","#), "{json}");
}

#[test]
fn an_explanation_reads_like_one() {
    let mut system = machine("gfx1102");
    system.settings.push(override_in("/etc/environment", "11.0.0"));
    let log = "start\nRuntimeError: HIP error: invalid device function\nend\n";
    insta::assert_snapshot!(text(&explain(log, Some(&system), &faults())));
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~]{0,300}",
        prop::sample::select(
            known::CASES
                .iter()
                .flat_map(|case| case.2.iter().map(|text| (*text).to_owned()))
                .collect::<Vec<_>>()
        ),
        prop::sample::select(vec![
            "\n".to_owned(),
            "\r".to_owned(),
            "\u{1b}[".to_owned(),
            "\u{1b}]".to_owned(),
            "\u{0}".to_owned()
        ]),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(log in pieces()) {
        thread_local!(static FAULTS: Faults = faults());
        FAULTS.with(|faults| {
            let explained = explain(&log, Some(&machine("gfx1151")), faults);
            let shown = text(&explained);
            assert!(shown.chars().all(|c| !c.is_control() || c == '\n'));
        });
    }

    #[test]
    fn no_bytes_make_it_panic(log in prop::collection::vec(any::<u8>(), 0..4000)) {
        thread_local!(static FAULTS: Faults = faults());
        FAULTS.with(|faults| explain_reader(log.as_slice(), None, faults).unwrap());
    }
}
