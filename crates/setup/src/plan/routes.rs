//! Which torches fit the card, in the order in which they are offered: first what lies on the disk, then the good
//! ones from the smallest download to the largest, then the rest. What does not fit is named with its reason.

use std::fs;
use std::path::Path;

use super::{Excluded, PlanError, Planner, RouteOffer, TorchOnDisk};
use crate::TorchBuild;
use crate::engine_env::TORCH_MINOR;
use crate::environments::{Engine, Kernels, PythonRange, rocblas_kernels};
use crate::knowledge::{Build, Route, Standing, Vendor, in_range};

impl Planner<'_> {
    pub(super) fn routes(&self) -> (Vec<RouteOffer>, Vec<Excluded>) {
        let mut routes = Vec::new();
        let mut excluded = Vec::new();
        for torch in &self.request.torches {
            match self.misfit_on_disk(torch) {
                None => routes.push(self.offer_on_disk(torch)),
                Some(reason) => excluded.push(Excluded {
                    build: torch.site.display().to_string(),
                    reason,
                }),
            }
        }
        let builds: Vec<(&Route, &Build)> = self
            .device
            .target
            .routes
            .iter()
            .filter_map(|route| Some((route, self.knowledge.targets.build(&route.build)?)))
            .collect();
        for (route, build) in builds {
            match self.misfit(build) {
                None => routes.push(self.offer(route, build)),
                Some(reason) => excluded.push(Excluded {
                    build: build.id.clone(),
                    reason,
                }),
            }
        }
        self.oldest_cuda_first(&mut routes);
        (routes, excluded)
    }

    pub(super) fn choose_route(&self, routes: &[RouteOffer]) -> Result<Option<usize>, PlanError> {
        let Some(wanted) = &self.request.build else {
            return Ok((!routes.is_empty()).then_some(0));
        };
        let is_wanted = |route: &RouteOffer| route.on_disk.is_none() && route.build.as_ref() == Some(wanted);
        match routes.iter().position(is_wanted) {
            Some(at) => Ok(Some(at)),
            None => Err(PlanError::BuildUnfit {
                wanted: wanted.chars().filter(|letter| !letter.is_control()).collect(),
                fitting: routes.iter().filter_map(|route| route.build.clone()).collect(),
            }),
        }
    }

    fn offer(&self, route: &Route, build: &Build) -> RouteOffer {
        let gfx = &self.device.target.id;
        let mut requirements = vec![build.requirement(gfx)];
        requirements.extend(self.companions(build));
        RouteOffer {
            build: Some(build.id.clone()),
            title: build.title.to_string(),
            on_disk: None,
            index: build.index.clone(),
            torch: build.torch.clone(),
            requirements,
            standing: route.standing,
            evidence: route.evidence.to_string(),
            download_bytes: build.download_bytes,
            download_note: build.download_note.to_string(),
            disk_bytes: Some(build.disk_bytes),
            python: shown(build.python),
            as_of: Some(build.as_of),
            source: build.source.to_string(),
        }
    }

    /// What is installed beside torch from its own index.
    pub(super) fn companions(&self, build: &Build) -> Vec<String> {
        let gfx = &self.device.target.id;
        let companions = match self.request.engine {
            Engine::Native => &build.native_companions,
            Engine::Hf | Engine::Unsloth => &build.companions,
        };
        companions
            .iter()
            // ROCm's Triton has no wheels for Windows.
            .filter(|companion| {
                self.os != crate::knowledge::Os::Windows
                    || !companion.starts_with("triton")
                    || build.vendor != Vendor::Amd
            })
            .map(|companion| companion.replace("{gfx}", gfx))
            .collect()
    }

    fn misfit(&self, build: &Build) -> Option<String> {
        if !build.systems.contains(&self.os) {
            return Some(format!("it has no wheels for {}", self.os.name()));
        }
        match self.request.engine {
            Engine::Native if !build.native_engine => {
                let reason = build
                    .native_reason
                    .as_deref()
                    .unwrap_or("the native engine cannot use it");
                return Some(format!("not for the native engine: {reason}"));
            }
            Engine::Hf | Engine::Unsloth if !build.python_engines => {
                return Some("it holds torch's libraries alone, and this engine runs in Python".to_owned());
            }
            _ => {}
        }
        let driver = self.system.stacks.cuda_driver.as_deref();
        if let (Some(needed), Some(driver)) = (build.driver_cuda.as_deref(), driver)
            && !in_range(driver, Some(needed), None)
        {
            return Some(format!(
                "the driver can run CUDA {driver} at most, and it needs {needed}"
            ));
        }
        self.broken(&build.torch)
    }

    fn broken(&self, torch: &str) -> Option<String> {
        let target = &self.device.target.id;
        let rows = &self.knowledge.targets.broken;
        let row = rows
            .iter()
            .find(|row| row.with.is_none() && row.concerns(torch, target))?;
        Some(format!(
            "known to be broken: {}; {} ({})",
            row.fault, row.cure, row.source
        ))
    }

    fn offer_on_disk(&self, torch: &TorchOnDisk) -> RouteOffer {
        let known = self.build_of(&torch.version);
        RouteOffer {
            build: known.map(|build| build.id.clone()),
            title: "a torch that is here already".to_owned(),
            on_disk: Some(torch.site.clone()),
            index: None,
            torch: torch.version.clone(),
            requirements: Vec::new(),
            standing: Standing::Good,
            evidence: "its version and build fit the card, read from its files; nothing is downloaded"
                .to_owned(),
            download_bytes: Some(0),
            download_note: "it is on the disk".to_owned(),
            disk_bytes: Some(0),
            python: "any".to_owned(),
            as_of: None,
            source: format!("{}", torch.site.join("torch/version.py").display()),
        }
    }

    fn build_of(&self, version: &str) -> Option<&Build> {
        let routes = &self.device.target.routes;
        routes
            .iter()
            .filter_map(|route| self.knowledge.targets.build(&route.build))
            .find(|build| build.torch == version)
    }

    fn misfit_on_disk(&self, torch: &TorchOnDisk) -> Option<String> {
        if self.request.engine != Engine::Native {
            return Some("engines in Python get an environment of their own".to_owned());
        }
        if !torch.version.starts_with(&format!("{TORCH_MINOR}.")) {
            return Some(format!(
                "it is torch {}, and the native engine is made for {TORCH_MINOR}",
                torch.version
            ));
        }
        let target = self.device.target;
        match (target.vendor, &torch.build) {
            (Vendor::Cpu, _) => None,
            (Vendor::Amd, TorchBuild::Hip(_)) => {
                if rocblas_kernels(&torch.site, &target.kernels) == Kernels::Missing {
                    return Some(format!("it has no matrix kernels for {}", target.kernels));
                }
                self.broken(&torch.version)
            }
            (Vendor::Nvidia, TorchBuild::Cuda(cuda)) => {
                let covers = |build: &Build| build.cuda.as_ref() == Some(cuda);
                let routes = target
                    .routes
                    .iter()
                    .filter_map(|route| self.knowledge.targets.build(&route.build));
                if !routes.into_iter().any(covers) {
                    return Some(format!("its CUDA {cuda} is none that is known for this card"));
                }
                let driver = self.system.stacks.cuda_driver.as_deref();
                if driver.is_some_and(|driver| !in_range(driver, Some(cuda), None)) {
                    return Some(format!("the driver cannot run CUDA {cuda}"));
                }
                (!has_cublas(&torch.site)).then(|| "its GPU libraries are not there".to_owned())
            }
            (_, TorchBuild::Cpu) => Some("it was built without a GPU".to_owned()),
            _ => Some("it was built for another vendor's cards".to_owned()),
        }
    }

    /// Where the driver's CUDA could not be read, the build that asks least of it is offered first.
    fn oldest_cuda_first(&self, routes: &mut [RouteOffer]) {
        if self.device.target.vendor != Vendor::Nvidia || self.system.stacks.cuda_driver.is_some() {
            return;
        }
        let needed = |route: &RouteOffer| {
            let build = self.knowledge.targets.build(route.build.as_deref()?)?;
            let text = build.driver_cuda.as_deref()?;
            text.parse::<pep440_rs::Version>().ok()
        };
        routes.sort_by_key(|route| (route.on_disk.is_none(), route.standing, needed(route)));
    }
}

/// torch's own wheels without the packages that they ask for have no cuBLAS.
fn has_cublas(site: &Path) -> bool {
    let files_in = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_cublas = |name: &str| name.starts_with("libcublas.so") || name.starts_with("cublas64_");
    let holds = |folder: &Path| files_in(folder).any(|file| is_cublas(&file.file_name().to_string_lossy()));
    holds(&site.join("torch/lib"))
        || files_in(&site.join("nvidia"))
            .any(|package| holds(&package.path().join("lib")) || holds(&package.path().join("bin")))
}

/// `3.11 to 3.14`.
fn shown(python: PythonRange) -> String {
    format!("{} to {}", python.minimum, python.maximum)
}
