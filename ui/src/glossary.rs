//! What the words mean, one sentence each (U5): shown on hover wherever a term stands, and together on a page of their
//! own.

/// What a term belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The card and its memory.
    Card,
    /// Drivers, libraries, variables.
    Setup,
    /// Speeds and peaks.
    Measuring,
    /// What is trained, and how.
    Training,
    /// What a training came to.
    Results,
}

impl Subject {
    /// All of them, in the order in which a newcomer meets them.
    pub const ALL: [Self; 5] = [
        Self::Card,
        Self::Setup,
        Self::Measuring,
        Self::Training,
        Self::Results,
    ];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Card => "Card",
            Self::Setup => "Set-up",
            Self::Measuring => "Measuring",
            Self::Training => "Training",
            Self::Results => "Results",
        }
    }
}

/// A term of art.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// As it stands in the window.
    pub word: &'static str,
    /// Other forms and names of the same.
    pub also: &'static [&'static str],
    /// What it belongs to.
    pub subject: Subject,
    /// What it means, in one sentence without a full stop.
    pub sentence: &'static str,
}

impl Term {
    /// Whether this is what `word` names, in whatever case.
    pub fn is_called(&self, word: &str) -> bool {
        let same = |name: &str| name.eq_ignore_ascii_case(word);
        same(self.word) || self.also.iter().any(|also| same(also))
    }

    /// Whether it has to do with `text`, in lower case: by its names, or by a word of its sentence.
    pub fn mentions(&self, text: &str) -> bool {
        let has = |name: &str| name.to_lowercase().contains(text);
        has(self.word) || self.also.iter().any(|also| has(also)) || has(self.sentence)
    }
}

const fn term(
    word: &'static str,
    also: &'static [&'static str],
    subject: Subject,
    sentence: &'static str,
) -> Term {
    Term {
        word,
        also,
        subject,
        sentence,
    }
}

/// The term that a word names.
pub fn find(word: &str) -> Option<&'static Term> {
    TERMS.iter().find(|term| term.is_called(word))
}

/// The sentence of a term.
pub fn sentence(term: &str) -> Option<&'static str> {
    find(term).map(|term| term.sentence)
}

/// All terms, in the order of the alphabet.
pub const TERMS: &[Term] = &[
    term(
        "4-bit",
        &["four-bit"],
        Subject::Training,
        "Keeping the frozen weights of the base model in four bits each instead of sixteen, which saves memory and costs the time to unpack them",
    ),
    term(
        "accumulation",
        &["gradient accumulation", "accumulation steps"],
        Subject::Training,
        "How many micro-batches are computed one after the other and added up before the adapter is changed once",
    ),
    term(
        "adapter",
        &[],
        Subject::Training,
        "The small set of weights that a LoRA training makes; the model itself stays as it was, and the adapter is laid over it",
    ),
    term(
        "alpha",
        &["LoRA alpha", "lora_alpha"],
        Subject::Training,
        "The strength with which an adapter is laid over the model: its effect is multiplied by alpha divided by the rank",
    ),
    term(
        "amdgpu",
        &[],
        Subject::Setup,
        "The part of the Linux kernel that drives AMD cards, for pictures and for computing alike",
    ),
    term(
        "AOTriton",
        &[],
        Subject::Setup,
        "AMD's library of ready-made attention programs inside torch; for some cards AMD calls it experimental, and torch then uses it only when a variable allows it",
    ),
    term(
        "attention",
        &[],
        Subject::Training,
        "The part of a model in which every token looks back at the tokens before it; its work grows with the square of the row's length",
    ),
    term(
        "bandwidth",
        &["memory bandwidth"],
        Subject::Measuring,
        "How many bytes of its memory a card can move in a second; it limits whatever computes little with much data, such as writing an answer",
    ),
    term(
        "base model",
        &["base"],
        Subject::Training,
        "The model as it was before the training; its weights are read and never changed",
    ),
    term(
        "batch",
        &["batch size", "effective batch"],
        Subject::Training,
        "The rows that one step learns from together: the micro-batch times the accumulation",
    ),
    term(
        "bf16",
        &["bfloat16"],
        Subject::Card,
        "A number format of 16 bits with the range of 32-bit numbers and fewer digits: what most cards train in",
    ),
    term(
        "calibration",
        &[],
        Subject::Measuring,
        "Measuring what this card really does in matrix products, attention and memory, and whether its results are right",
    ),
    term(
        "carve-out",
        &["UMA buffer"],
        Subject::Card,
        "The part of main memory that the BIOS sets aside for the processor's own graphics before the system starts",
    ),
    term(
        "chat template",
        &[],
        Subject::Training,
        "The pattern by which questions and answers are put into the one text that a model was taught to read",
    ),
    term(
        "checkpoint",
        &[],
        Subject::Training,
        "The whole state of a training at one step, saved so that it can go on from there after a stop or a crash",
    ),
    term(
        "clipping",
        &["max_grad_norm", "gradient clipping"],
        Subject::Training,
        "Scaling a gradient down to a greatest length, so that a single odd batch cannot throw the training off",
    ),
    term(
        "compute capability",
        &[],
        Subject::Card,
        "NVIDIA's number for what a card's processor can do, such as 8.6; a build of torch contains programs for some of them",
    ),
    term(
        "compute unit",
        &["compute units", "CU"],
        Subject::Card,
        "One of the like parts that an AMD card computes with; two cards of one generation differ above all in how many they have",
    ),
    term(
        "confidence interval",
        &["95 % interval"],
        Subject::Results,
        "The range in which the true value lies in 19 of 20 cases, when only a sample of it could be measured",
    ),
    term(
        "config hash",
        &[],
        Subject::Results,
        "A fingerprint of everything that changes a result: two runs that share it are repeats of one experiment",
    ),
    term(
        "copy bandwidth",
        &[],
        Subject::Measuring,
        "How many bytes of its memory a card reads and writes in a second when it only copies; both ways are counted",
    ),
    term(
        "CUDA",
        &[],
        Subject::Setup,
        "NVIDIA's software for computing on its cards; torch speaks of `cuda` on AMD cards too, where ROCm does the work",
    ),
    term(
        "CUDA_VISIBLE_DEVICES",
        &[],
        Subject::Setup,
        "A variable that lists the cards which CUDA shows to a program; on AMD cards HIP obeys it too",
    ),
    term(
        "doctor",
        &[],
        Subject::Setup,
        "The checks that say what keeps this machine from training, or from training fast, and what cures it; it changes nothing itself",
    ),
    term(
        "double quantisation",
        &[],
        Subject::Training,
        "Storing the scales of 4-bit weights in 8 bits as well, which saves a little more memory",
    ),
    term(
        "dtype",
        &["number format", "precision"],
        Subject::Training,
        "The format in which numbers are kept while computing, such as bf16, fp16 or f32",
    ),
    term(
        "engine",
        &[],
        Subject::Setup,
        "The program that really trains, apart from the window: Tunesmith's own, or one in Python for comparison",
    ),
    term(
        "environment",
        &[],
        Subject::Setup,
        "A folder of its own with torch and the packages of one engine, apart from the system's and from other environments",
    ),
    term(
        "epoch",
        &[],
        Subject::Training,
        "One pass over all rows of the data set",
    ),
    term(
        "execution match",
        &["matches"],
        Subject::Results,
        "The share of test questions for which the model's SQL, when it is run, gives the same rows as the right answer's",
    ),
    term(
        "f32",
        &["fp32", "float32"],
        Subject::Card,
        "A number format of 32 bits: exact enough for everything here, and much slower on most cards than one of 16 bits",
    ),
    term(
        "fp16",
        &["float16", "half"],
        Subject::Card,
        "A number format of 16 bits with more digits than bf16 and a far smaller range; it stands in on cards that lack bf16",
    ),
    term(
        "GEMM",
        &["matrix product", "matrix multiplication"],
        Subject::Measuring,
        "General matrix multiplication: the product of two large tables of numbers, of which nearly all of a training consists",
    ),
    term(
        "gfx target",
        &["gfx", "target"],
        Subject::Card,
        "AMD's name for the kind of processor on a card, such as gfx1100; programs for one do not run on another",
    ),
    term(
        "GGUF",
        &[],
        Subject::Training,
        "A file that holds a model with everything needed to use it, mostly with its weights packed into few bits",
    ),
    term(
        "gradient",
        &[],
        Subject::Training,
        "The direction in which each weight would have to move for the loss to fall, computed anew in every step",
    ),
    term(
        "gradient norm",
        &["grad_norm", "grad norm"],
        Subject::Training,
        "How strongly a step wants to change the adapter; zero means that nothing is learned, a sudden jump that something broke",
    ),
    term(
        "GTT",
        &[],
        Subject::Card,
        "Main memory that an AMD graphics processor may map and use as if it were its own; the processor's own graphics live on it",
    ),
    term(
        "hardware MFU",
        &["HFU", "hardware"],
        Subject::Measuring,
        "The MFU that counts all that the card computes, also what it computes a second time to save memory",
    ),
    term(
        "hidden card",
        &["mask"],
        Subject::Setup,
        "A card that programs are kept from seeing by a variable, so that they do not start on the wrong one",
    ),
    term(
        "HIP",
        &[],
        Subject::Setup,
        "The part of ROCm that programs are written for; it resembles CUDA so closely that torch uses one code for both",
    ),
    term(
        "HIP_VISIBLE_DEVICES",
        &[],
        Subject::Setup,
        "A variable that lists the cards which HIP shows to a program, by number, among those that ROCR_VISIBLE_DEVICES has left",
    ),
    term(
        "hipBLASLt",
        &[],
        Subject::Setup,
        "The newer of AMD's two libraries for matrix products; whether it is the faster one, or right at all, depends on card and version",
    ),
    term(
        "HSA_OVERRIDE_GFX_VERSION",
        &[],
        Subject::Setup,
        "A variable that makes ROCm under Linux take a card for another one and load programs made for that; on most cards of today it does harm",
    ),
    term(
        "iGPU",
        &["integrated graphics", "APU"],
        Subject::Card,
        "The graphics that are part of a processor and share its memory; beside a real card they are mostly too small to train on",
    ),
    term(
        "judge",
        &[],
        Subject::Results,
        "The checks that watch every training for faults that stay silent; a red one stops the run and says what was seen",
    ),
    term(
        "junction temperature",
        &["hot spot"],
        Subject::Card,
        "The temperature at the hottest spot of the chip: the one at which AMD's cards slow down",
    ),
    term(
        "KFD",
        &[],
        Subject::Setup,
        "The kernel's door to AMD cards for computing, /dev/kfd; its list of cards is the one that no variable can change",
    ),
    term(
        "layout",
        &["layouts", "nn", "nt", "tn"],
        Subject::Measuring,
        "Which of the two tables of a product lies sideways in memory: none (nn), the second (nt) or the first (tn); the speed can differ greatly",
    ),
    term(
        "learning rate",
        &["lr"],
        Subject::Training,
        "How far each step moves the adapter along the gradient; it rises at first and falls towards the end",
    ),
    term(
        "LoRA",
        &[],
        Subject::Training,
        "Low-rank adaptation: instead of changing a large matrix, two thin ones beside it are trained",
    ),
    term(
        "LoRA-exact MFU",
        &["LoRA-exact", "exact MFU"],
        Subject::Measuring,
        "The MFU that counts just the operations which a LoRA training needs, without those for weights that are not trained",
    ),
    term(
        "loss",
        &[],
        Subject::Training,
        "How surprised the model is by the right answer, in nats per token; it falls while the model learns",
    ),
    term(
        "measured peak",
        &["practical peak"],
        Subject::Measuring,
        "The TFLOPS that large matrix products really reach on this card: the mean of the timed ones in the fastest layout, results checked",
    ),
    term(
        "MFU",
        &[],
        Subject::Measuring,
        "Model FLOPs utilisation: which share of the card's arithmetic a training turns into learning",
    ),
    term(
        "MFU by 6ND",
        &["6ND"],
        Subject::Measuring,
        "The MFU by the rule of thumb of six operations for each parameter and token; for LoRA it counts work that is never done, so it reads too high",
    ),
    term(
        "micro-batch",
        &["micro batch", "micro_batch"],
        Subject::Training,
        "The rows that the card computes at the same time; more of them need more memory and often give more speed",
    ),
    term(
        "multiprocessor",
        &["streaming multiprocessor", "SM"],
        Subject::Card,
        "One of the like parts that an NVIDIA card computes with",
    ),
    term(
        "nat",
        &["nats"],
        Subject::Training,
        "The unit of surprise that belongs to natural logarithms; one nat less means about 2.7 times as likely",
    ),
    term(
        "NF4",
        &[],
        Subject::Training,
        "The kind of 4-bit numbers used here: sixteen values spaced like the weights of a model, and one scale for each block of 64 weights",
    ),
    term(
        "noise",
        &["spread"],
        Subject::Results,
        "How much a figure moves from one repeat to the next although nothing was changed",
    ),
    term(
        "packing",
        &[],
        Subject::Training,
        "Laying several short rows end to end so that the card computes on text and not on padding; the rows do not see each other",
    ),
    term(
        "padding",
        &["padded tokens"],
        Subject::Training,
        "Filler behind short rows that makes all rows of a batch equally long; it is computed and teaches nothing",
    ),
    term(
        "parameter",
        &["parameters", "weight", "weights"],
        Subject::Training,
        "One of the numbers that a model consists of; small models have hundreds of millions of them",
    ),
    term(
        "Pareto frontier",
        &["frontier", "Pareto"],
        Subject::Results,
        "The runs that no other run beats: whoever is faster needs more memory, and whoever needs less memory is slower",
    ),
    term(
        "PCI address",
        &[],
        Subject::Card,
        "The place of a card in the machine, such as 0000:03:00.0; it stays the same when another card is added elsewhere",
    ),
    term(
        "PEFT",
        &[],
        Subject::Setup,
        "The Python library whose format for adapters Tunesmith writes, so that other programs can load them",
    ),
    term(
        "plan",
        &[],
        Subject::Setup,
        "What would be done so that this machine trains: card, torch, packages and variables, each with its reason",
    ),
    term(
        "rank",
        &["LoRA rank", "lora_rank"],
        Subject::Training,
        "How thin the two matrices of an adapter are: a higher rank can learn more and has more weights to train",
    ),
    term(
        "recipe",
        &[],
        Subject::Training,
        "A file with every choice of a training: model, data, adapter, learning rate, steps",
    ),
    term(
        "recompute",
        &["gradient checkpointing", "activation checkpointing"],
        Subject::Training,
        "Forgetting what layers computed on the way forward and computing it again on the way back: less memory, more time",
    ),
    term(
        "Resizable BAR",
        &["BAR", "ReBAR"],
        Subject::Card,
        "A setting of the BIOS by which the processor reaches all of a card's memory at once instead of 256 MiB of it",
    ),
    term(
        "rocBLAS",
        &[],
        Subject::Setup,
        "The older of AMD's two libraries for matrix products; it needs files made for the very gfx target",
    ),
    term(
        "ROCm",
        &[],
        Subject::Setup,
        "AMD's software for computing on its cards; inside a torch for AMD cards it comes along and need not be installed in the system",
    ),
    term(
        "ROCR_VISIBLE_DEVICES",
        &[],
        Subject::Setup,
        "A variable under Linux that lists the cards which ROCm shows to a program, by UUID or by number",
    ),
    term(
        "run",
        &[],
        Subject::Results,
        "One training and all that was recorded of it, in a folder of its own",
    ),
    term(
        "safetensors",
        &[],
        Subject::Training,
        "A plain file of weights that can be read without running any code from it",
    ),
    term(
        "schedule",
        &["cosine"],
        Subject::Training,
        "How the learning rate changes over a training, for example falling along a cosine to nearly zero",
    ),
    term(
        "SDPA",
        &["scaled dot-product attention"],
        Subject::Training,
        "Torch's one call for attention: it takes a fast way where the card has one, and otherwise a plain way that needs far more memory",
    ),
    term(
        "seed",
        &[],
        Subject::Training,
        "The number from which all chance in a training is drawn; the same seed gives the same order of rows and the same beginning",
    ),
    term(
        "spec-sheet peak",
        &["theoretical peak"],
        Subject::Measuring,
        "The TFLOPS that follow from the maker's figures: units, operations in each clock, boost clock; real programs stay below",
    ),
    term(
        "steady state",
        &["steady"],
        Subject::Measuring,
        "The stretch of a run after its first steps, which are slower; speeds are taken from it alone",
    ),
    term(
        "step",
        &["steps"],
        Subject::Training,
        "One change of the adapter, learned from one batch",
    ),
    term(
        "supervised tokens",
        &["supervised"],
        Subject::Training,
        "The tokens that are learned from: those of the answers; the question before an answer is read and not learned",
    ),
    term(
        "target modules",
        &["target_modules"],
        Subject::Training,
        "The matrices of each layer that get an adapter, here mostly all seven of attention and MLP",
    ),
    term(
        "TFLOPS",
        &["FLOPS"],
        Subject::Measuring,
        "Trillions of calculations with decimals in a second; a multiplication and the addition after it count as two",
    ),
    term(
        "throttling",
        &[],
        Subject::Measuring,
        "A hot or thirsty card takes its clock back, so that a long training is slower than any short measurement; here a speed that ends more than 5 % lower",
    ),
    term(
        "time box",
        &["time-boxed"],
        Subject::Training,
        "The longest time that a training may take; when it is over, what was learned is saved and scored",
    ),
    term(
        "token",
        &["tokens"],
        Subject::Training,
        "A piece of text as a model reads it: a short word or a part of a longer one",
    ),
    term(
        "tokens per second",
        &["tok/s", "tokens/s"],
        Subject::Measuring,
        "Pieces of text that are learned from in a second; padding is not counted",
    ),
    term(
        "torch",
        &["PyTorch"],
        Subject::Setup,
        "The library that computes with tables of numbers on processors and cards; every engine here stands on it",
    ),
    term(
        "Triton",
        &[],
        Subject::Setup,
        "A compiler with which Python programs make their own code for a card; Tunesmith's own engine does without it",
    ),
    term(
        "TTM limit",
        &["ttm.pages_limit"],
        Subject::Card,
        "A setting of the Linux kernel: how much main memory all graphics together may map, half of it unless it is raised",
    ),
    term(
        "validity",
        &["valid steps", "valid"],
        Subject::Results,
        "Whether a step counts: it saw tokens, took time, and its gradient was above zero; steps that do not count are marked and left out",
    ),
    term(
        "VRAM",
        &[],
        Subject::Card,
        "The memory that belongs to a card itself: what is trained must fit into it",
    ),
    term(
        "warm-up",
        &["warmup", "warmup_steps"],
        Subject::Training,
        "The first steps, in which the learning rate rises from near zero; also the first products of a measurement, which are not counted",
    ),
    term(
        "waterfall",
        &["gap attribution"],
        Subject::Measuring,
        "A chart from a peak down to what a training makes of it, level by level: what each level loses lies end to end and adds up to the whole gap",
    ),
    term(
        "weight decay",
        &["weight_decay"],
        Subject::Training,
        "Pulling every trained weight a little towards zero in each step, against learning by heart",
    ),
    term(
        "Welch's test",
        &["p-value"],
        Subject::Results,
        "A calculation of how easily chance alone would make two sets of repeats differ as much as they do",
    ),
    term(
        "within noise",
        &[],
        Subject::Results,
        "Of two results: they differ no more than repeats of one and the same thing do, so neither is better",
    ),
];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn terms_stand_in_the_order_of_the_alphabet_and_once() {
        let words: Vec<String> = TERMS.iter().map(|term| term.word.to_lowercase()).collect();
        let misplaced: Vec<_> = words.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
        assert!(misplaced.is_empty(), "{misplaced:?}");
    }

    #[test]
    fn no_word_names_two_terms() {
        let names = TERMS.iter().flat_map(|term| term.also.iter().chain([&term.word]));
        let twice: Vec<_> = names
            .filter(|name| TERMS.iter().filter(|term| term.is_called(name)).count() != 1)
            .collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn a_sentence_is_one_sentence() {
        let odd: Vec<_> = TERMS
            .iter()
            .filter(|term| {
                let text = term.sentence;
                let long = text.len() > 190;
                long || text.ends_with('.') || text.contains(". ") || !text.starts_with(char::is_uppercase)
            })
            .map(|term| (term.word, term.sentence.len()))
            .collect();
        assert!(odd.is_empty(), "{odd:?}");
    }

    #[test]
    fn words_are_found_in_any_case_and_by_their_other_names() {
        assert_eq!(sentence("vram"), sentence("VRAM"));
        assert_eq!(sentence("grad_norm"), sentence("gradient norm"));
        assert!(sentence("HFU").is_some_and(|text| text.contains("second time")));
        assert_eq!(sentence("flux capacitor"), None);
    }

    #[test]
    fn every_term_that_a_page_marks_has_its_sentence() {
        let mut files = Vec::new();
        rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut marked = 0;
        let mut unknown = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for call in text
                .split("term(ui, \"")
                .skip(1)
                .chain(text.split(".term(\"").skip(1))
            {
                let word = call.split('"').next().unwrap();
                marked += 1;
                if find(word).is_none() {
                    unknown.push((file.clone(), word.to_owned()));
                }
            }
        }
        assert!(marked > 1, "nothing was looked at");
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    fn rust_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, files);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
}
