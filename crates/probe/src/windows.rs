//! Windows: the system calls, and nothing else. Not yet compiled for Windows: no Windows standard library was at hand.
//! (Its types were checked on Linux against the sources of the crate `windows`.)
//!
//! Everything that is found is written as the listings that a capture of a Windows machine holds, and read by the same
//! portable code: [`listings`] gives those for detection, [`Counters`] those for [`crate::telemetry::pdh`]. A call that
//! fails leaves its part of a listing out.

// FFI through the crate `windows`. Each block calls functions with buffers that outlive the call and lengths that are
// those of the buffers.
#![allow(unsafe_code)]

use serde_json::{Map, Value, json};
use windows::Win32::Devices::DeviceAndDriverInstallation::{
    DIGCF_PRESENT, GUID_DEVCLASS_DISPLAY, HDEVINFO, SETUP_DI_REGISTRY_PROPERTY, SP_DEVINFO_DATA,
    SPDRP_DEVICEDESC, SPDRP_DRIVER, SetupDiDestroyDeviceInfoList, SetupDiEnumDeviceInfo,
    SetupDiGetClassDevsW, SetupDiGetDeviceInstanceIdW, SetupDiGetDeviceRegistryPropertyW,
};
use windows::Win32::Foundation::ERROR_SUCCESS;
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_DESC1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIFactory1,
};
use windows::Win32::System::Performance::{
    PDH_FMT_COUNTERVALUE_ITEM_W, PDH_FMT_DOUBLE, PDH_HCOUNTER, PDH_HQUERY, PDH_MORE_DATA,
    PdhAddEnglishCounterW, PdhCloseQuery, PdhCollectQueryData, PdhGetFormattedCounterArrayW, PdhOpenQueryW,
};
use windows::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_ROUTINE_FLAGS, RRF_RT_QWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows::core::{HSTRING, PCWSTR};

/// Below it each display adapter that ever had a driver has a numbered key.
const CLASSES: &str = r"SYSTEM\CurrentControlSet\Control\Class";
/// Microsoft's own adapters, which are no cards.
const MICROSOFT: u32 = 0x1414;
/// More adapters than any machine has.
const MAX_ADAPTERS: u32 = 256;

/// The listings for detection and telemetry, as (path in a capture, content).
pub fn listings() -> Vec<(&'static str, String)> {
    let (rows, keys) = display_devices();
    vec![
        ("video-controllers.json", Value::Array(rows).to_string()),
        ("class-keys.json", Value::Object(keys).to_string()),
        (
            "tunesmith-capture/dxgi-adapters.json",
            Value::Array(adapters()).to_string(),
        ),
    ]
}

/// The display devices that are there, as rows like those of `Win32_VideoController`, and their keys in the registry.
/// Keys of devices that are gone are not read.
fn display_devices() -> (Vec<Value>, Map<String, Value>) {
    let (mut rows, mut keys) = (Vec::new(), Map::new());
    let Some(devices) = Devices::present() else {
        return (rows, keys);
    };
    for device in devices.each() {
        let id = devices.instance_id(&device);
        // e.g. `{4d36e968-e325-11ce-bfc1-08002be10318}\0001`; a device without any driver has none.
        let key = devices
            .property(&device, SPDRP_DRIVER)
            .map(|driver| format!(r"{CLASSES}\{driver}"));
        let version = key.as_ref().and_then(|key| registry_text(key, "DriverVersion"));
        rows.push(json!({
            "Name": devices.property(&device, SPDRP_DEVICEDESC),
            "PNPDeviceID": id,
            "DriverVersion": version,
        }));
        if let Some(key) = key {
            let value = json!({
                "DriverDesc": registry_text(&key, "DriverDesc"),
                "DriverVersion": version,
                // The driver's own pattern may name less than the device that it serves.
                "MatchingDeviceId": id.rsplit_once('\\').map_or(id.as_str(), |(device, _)| device),
                "HardwareInformation.qwMemorySize": registry_number(&key, "HardwareInformation.qwMemorySize"),
            });
            keys.insert(format!(r"HKLM\{key}"), value);
        }
    }
    (rows, keys)
}

/// A set of devices, given back when dropped.
struct Devices(HDEVINFO);

impl Devices {
    /// The display devices that are there.
    fn present() -> Option<Self> {
        let class = GUID_DEVCLASS_DISPLAY;
        unsafe { SetupDiGetClassDevsW(Some(&raw const class), PCWSTR::null(), None, DIGCF_PRESENT) }
            .ok()
            .map(Self)
    }

    fn each(&self) -> impl Iterator<Item = SP_DEVINFO_DATA> {
        (0..MAX_ADAPTERS).map_while(|index| {
            let mut device = SP_DEVINFO_DATA {
                cbSize: size_of::<SP_DEVINFO_DATA>() as u32,
                ..SP_DEVINFO_DATA::default()
            };
            unsafe { SetupDiEnumDeviceInfo(self.0, index, &raw mut device) }
                .ok()
                .map(|()| device)
        })
    }

    fn instance_id(&self, device: &SP_DEVINFO_DATA) -> String {
        // Ids of devices have at most 200 characters.
        let mut id = [0; 256];
        match unsafe { SetupDiGetDeviceInstanceIdW(self.0, device, Some(&mut id), None) } {
            Ok(()) => text(&id),
            Err(_) => String::new(),
        }
    }

    fn property(&self, device: &SP_DEVINFO_DATA, property: SETUP_DI_REGISTRY_PROPERTY) -> Option<String> {
        let mut bytes = [0; 1024];
        let place = Some(&mut bytes[..]);
        unsafe { SetupDiGetDeviceRegistryPropertyW(self.0, device, property, None, place, None) }.ok()?;
        let units = bytes
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        Some(text(&units.collect::<Vec<u16>>()))
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // Nothing can be done about a set that cannot be given back.
        let _ = unsafe { SetupDiDestroyDeviceInfoList(self.0) };
    }
}

fn registry_text(key: &str, name: &str) -> Option<String> {
    let mut units = [0_u16; 512];
    registry_value(key, name, RRF_RT_REG_SZ, &mut units)?;
    Some(text(&units))
}

fn registry_number(key: &str, name: &str) -> Option<u64> {
    let mut number = [0_u64; 1];
    let length = registry_value(key, name, RRF_RT_QWORD, &mut number)?;
    (length == size_of::<u64>()).then_some(number[0])
}

/// Fills `place` and returns the number of bytes; `None` when there is no such value of this kind and size.
fn registry_value<T: Copy>(key: &str, name: &str, kind: REG_ROUTINE_FLAGS, place: &mut [T]) -> Option<usize> {
    let mut length = size_of_val(place) as u32;
    let start = Some(place.as_mut_ptr().cast());
    let (key, name) = (HSTRING::from(key), HSTRING::from(name));
    let result = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            &key,
            &name,
            kind,
            None,
            start,
            Some(&raw mut length),
        )
    };
    (result == ERROR_SUCCESS).then_some(length as usize)
}

/// DXGI's adapters: their LUIDs, by which the counters name them, and their memory.
fn adapters() -> Vec<Value> {
    let Ok(factory) = (unsafe { CreateDXGIFactory1::<IDXGIFactory1>() }) else {
        return Vec::new();
    };
    let described = |index| unsafe {
        factory
            .EnumAdapters1(index)
            .and_then(|adapter| adapter.GetDesc1())
    };
    (0..MAX_ADAPTERS)
        .map_while(|index| described(index).ok())
        .filter(is_card)
        .map(|adapter| adapter_row(&adapter))
        .collect()
}

fn is_card(adapter: &DXGI_ADAPTER_DESC1) -> bool {
    adapter.VendorId != MICROSOFT && adapter.Flags & DXGI_ADAPTER_FLAG_SOFTWARE.0 as u32 == 0
}

fn adapter_row(adapter: &DXGI_ADAPTER_DESC1) -> Value {
    let luid = adapter.AdapterLuid;
    json!({
        "Description": text(&adapter.Description),
        "VendorId": adapter.VendorId,
        "DeviceId": adapter.DeviceId,
        "SubSysId": adapter.SubSysId,
        "Revision": adapter.Revision,
        "DedicatedVideoMemory": adapter.DedicatedVideoMemory as u64,
        "SharedSystemMemory": adapter.SharedSystemMemory as u64,
        "Luid": format!("0x{:08x}_0x{:08x}", luid.HighPart, luid.LowPart),
    })
}

/// The performance counters of the cards. The first listing has no loads: those need two moments.
pub struct Counters {
    query: PDH_HQUERY,
    /// A path with `*` for the instance, and its counter.
    counters: Vec<(&'static str, PDH_HCOUNTER)>,
}

impl Counters {
    /// `None` when Windows has no such counters.
    pub fn open() -> Option<Self> {
        let mut query = PDH_HQUERY::default();
        if unsafe { PdhOpenQueryW(PCWSTR::null(), 0, &raw mut query) } != 0 {
            return None;
        }
        let mut this = Self {
            query,
            counters: Vec::new(),
        };
        for path in [
            r"\GPU Adapter Memory(*)\Dedicated Usage",
            r"\GPU Adapter Memory(*)\Shared Usage",
            r"\GPU Engine(*)\Utilization Percentage",
            r"\GPU Process Memory(*)\Dedicated Usage",
            r"\GPU Process Memory(*)\Shared Usage",
        ] {
            let mut counter = PDH_HCOUNTER::default();
            if unsafe { PdhAddEnglishCounterW(query, &HSTRING::from(path), 0, &raw mut counter) } == 0 {
                this.counters.push((path, counter));
            }
        }
        (!this.counters.is_empty()).then_some(this)
    }

    /// The counters now, one `path<tab>value` a line.
    pub fn listing(&mut self) -> String {
        if unsafe { PdhCollectQueryData(self.query) } != 0 {
            return String::new();
        }
        let lines = self.counters.iter().flat_map(|(path, counter)| {
            let values = instances(*counter).into_iter();
            values.map(move |(instance, value)| format!("{}\t{value}\n", path.replace('*', &instance)))
        });
        lines.collect()
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        unsafe { PdhCloseQuery(self.query) };
    }
}

/// Names of a counter's instances and their values.
fn instances(counter: PDH_HCOUNTER) -> Vec<(String, f64)> {
    let (mut bytes, mut count) = (0, 0);
    let more = unsafe {
        PdhGetFormattedCounterArrayW(counter, PDH_FMT_DOUBLE, &raw mut bytes, &raw mut count, None)
    };
    if more != PDH_MORE_DATA {
        return Vec::new();
    }
    // The names follow the items in the same buffer, so that it is longer than its items are.
    let length = (bytes as usize).div_ceil(size_of::<PDH_FMT_COUNTERVALUE_ITEM_W>());
    let mut items = vec![PDH_FMT_COUNTERVALUE_ITEM_W::default(); length];
    bytes = size_of_val(items.as_slice()) as u32;
    let place = Some(items.as_mut_ptr());
    let result = unsafe {
        PdhGetFormattedCounterArrayW(counter, PDH_FMT_DOUBLE, &raw mut bytes, &raw mut count, place)
    };
    if result != 0 {
        return Vec::new();
    }
    // A status other than 0 (valid) and 1 (new data) means that there is no value.
    let valid = items
        .iter()
        .take(count as usize)
        .filter(|item| item.FmtValue.CStatus <= 1);
    valid
        .filter_map(|item| {
            let name = unsafe { item.szName.to_string() }.ok()?;
            Some((name, unsafe { item.FmtValue.Anonymous.doubleValue }))
        })
        .collect()
}

/// Text up to the first zero, without other control characters.
fn text(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(&units[..end])
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}
