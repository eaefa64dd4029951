"""A thousand varied texts and some conversations, the same on every machine, for comparing tokenizers and chat templates.

They are built from a seed out of parts that tokenizers trip over: scripts of many kinds, digits of many kinds, code, runs of
whitespace, emoji sequences, contractions, combining marks, control characters, and special tokens, whole and cut.
"""

from __future__ import annotations

import random
import unicodedata

SENTENCES = [
    "The old lighthouse keeper counted the ships before breakfast.",
    "Don't you think we've seen enough? I'm sure they'll agree, and she'd say it's ours.",
    "WE'LL SEE WHO'S RIGHT; THEY'RE NOT, I'VE CHECKED.",
    "Der Bäcker an der Straßenecke verkauft süße Brötchen und heißen Kaffee.",
    "L’élève n’a pas oublié où se trouvait l’île aux œufs.",
    "El niño pequeño encontró una piñata vacía detrás del árbol.",
    "A avó não abriu a janela porque o vento soprava do mar.",
    "Il gatto della vicina dormì sul tetto finché piovve.",
    "Zażółć powoli gęślą jaźń, powiedział stary kowal.",
    "Příliš dlouhá cesta vedla přes řeku k opuštěnému mlýnu.",
    "Güneş doğarken balıkçılar ağlarını ığıl ığıl denize bıraktı.",
    "Người bán hàng rong mỉm cười dưới cơn mưa phùn buổi sáng.",
    "Мельник спросил, почему сегодня так тихо у реки.",
    "Їжак побачив ґанок і вирішив там перезимувати.",
    "Ο ψαράς μέτρησε τα δίχτυα του πριν από την καταιγίδα.",
    "הדייג הזקן תיקן את הרשת לפני שהשמש שקעה.",
    "جلس الصياد العجوز قرب النهر ينتظر المساء.",
    "पुराने बाज़ार में हर सुबह ताज़ी रोटी की खुशबू आती थी।",
    "পুরোনো নদীর ধারে জেলেরা গান গাইত।",
    "மழை பெய்தபோது குழந்தைகள் மரத்தடியில் நின்றனர்.",
    "ชาวนาเดินกลับบ้านก่อนที่ฝนจะตก",
    "老船长每天早上都数一遍港口里的船。",
    "古い灯台のそばで、漁師たちは静かに網をなおしていた。",
    "할머니는 비가 오기 전에 마당의 고추를 걷으셨다.",
    "მოხუცმა მეთევზემ ბადე ნავში ჩადო.",
    "Ծերունին նստեց ծառի տակ և սպասեց։",
    "ጠዋት ላይ ገበሬው ወደ ማሳው ሄደ።",
]
CODE = [
    "def area(width: float, height: float) -> float:\n    return width * height\n",
    "for i in range(10):\n\tif i % 2 == 0:\n\t\tprint(f\"{i:>4}\")\n",
    "fn main() {\n    let names = vec![\"ada\", \"bo\"];\n    println!(\"{names:?}\");\n}\n",
    "SELECT name, COUNT(*) AS n FROM boats WHERE length_m >= 12.5 GROUP BY name ORDER BY n DESC LIMIT 3;",
    "CREATE TABLE harbour (id INTEGER PRIMARY KEY, depth REAL NOT NULL, city TEXT);",
    "{\"id\": 17, \"tags\": [\"a\", \"b\"], \"nested\": {\"ok\": true, \"x\": null}}",
    "<div class=\"card\"><a href='#top'>back &amp; up</a></div>",
    "git log --oneline | head -n 5 && echo $?",
    "x=1;y=x<<3|0xFF&~0b1010;z=x!=y?x:-y//comment",
    "#include <vector>\nint f(std::vector<int>&& v){return v.size()>>1;}",
    "{% for item in items %}{{ item | upper }}{% endfor %}",
    "C:\\Users\\name\\AppData\\Local\\file_v2.txt",
    "https://example.org/a/b?q=1&r=%20x#part-2",
]
DIGITS = [
    "0", "7", "42", "1234567890", "3.14159", "-273.15", "1,000,000", "1e-8", "0xDEADBEEF", "2026-11-30", "23:59:59", "v2.11.0",
    "50%", "$19.99", "+49 30 1234", "1st", "2nd", "21st", "abc123def456", "A4", "x2y3", "10 000", "007", "½", "¾", "x²", "H₂O",
    "Ⅷ", "ⅻ", "①②③", "٣٤٥", "१२३", "１２３", "三百二十", "9 9 9", " 9", "9 ", "1/3", "192.168.0.1", "4×4", "٫5",
]  # fmt: skip
WHITESPACE = [
    " ", "  ", "   ", "       ", "\n", "\n\n", "\n\n\n", "\r\n", "\t", "\t\t", " \n ", "\n  ", "  \n", "\t \t", "\u00a0", "\u3000",
    "\u2009", "\u200b", "\u2028", "\u0085", "\x0b", "\x0c", "\ufeff",
]  # fmt: skip
EMOJI = [
    "😀", "🚀🚀", "👩‍💻", "👨‍👩‍👧‍👦", "👍🏽", "🇳🇴🇯🇵", "❤️", "☕️", "🏳️‍🌈", "🏴󠁧󠁢󠁷󠁬󠁳󠁿", "1️⃣", "🫠", "♟️", "✨", "™️", "🧑🏿‍🚒",
]  # fmt: skip
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>", "<filename>", "<issue_start>", "<jupyter_code>",
    "<empty_output>", "<|im_start|>user\n", "<|im_end|>\n", "<|im_end|><|im_start|>", "<|im_start", "im_end|>", "<|IM_START|>",
    "< |im_end| >", "<s>", "</s>", "<|", "|>", "<<|im_end|>>",
]  # fmt: skip
MARKS = [
    "e\u0301", "é", "n\u0303o", "A\u030a", "ﬁ", "ǅ", "ß", "ẞ", "İ", "ı", "Å", "Ω", "가", "\u1100\u1161", "…", "—", "–", "“quote”", "‘s",
    "it’s", "'s", "'S", "'ll", "''", "\"\"", "``", "\\n", "\\", "///", "***", "___", "!!!???", "(((", "¿¡", "§¶", "€£¥", "∑∫√", "→←",
    "\u0000", "\u0001", "\u0004", "\u001b[31m", "\u007f", "\u202e", "\u0300", "aaaaaaaaaaaaaaaaaaaa", "ABCabc", "camelCaseWord", "snake_case",
]  # fmt: skip
KINDS = {
    "sentence": SENTENCES,
    "code": CODE,
    "digits": DIGITS,
    "whitespace": WHITESPACE,
    "emoji": EMOJI,
    "special": SPECIAL,
    "marks": MARKS,
}
SPECIAL_TEXTS = ["", " ", "\n", "0", "<|im_end|>", "a" * 2000, " " * 300, "1" * 300, "\n" * 100, "é" * 200]
ROLES = ["user", "assistant", "system", "tool"]


def random_characters(rng: random.Random, count: int) -> str:
    """Characters from anywhere in Unicode, but none that a string cannot hold in UTF-8."""
    characters: list[str] = []
    while len(characters) < count:
        limit = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
        character = chr(rng.randrange(limit))
        if unicodedata.category(character) != "Cs":
            characters.append(character)
    return "".join(characters)


def texts(count: int, seed: int = 3407) -> list[str]:
    """`count` different texts: each part alone, then mixtures of parts."""
    rng = random.Random(seed)
    found = dict.fromkeys(SPECIAL_TEXTS)
    for parts in KINDS.values():
        found.update(dict.fromkeys(parts))
    while len(found) < count:
        if rng.randrange(8) == 0:
            found[random_characters(rng, rng.randint(1, 40))] = None
            continue
        pieces = []
        for _ in range(rng.randint(2, 7)):
            pieces.append(rng.choice(KINDS[rng.choice(list(KINDS))]))
            pieces.append(rng.choice(["", " ", " ", "\n", ", "]))
        found["".join(pieces)] = None
    return list(found)[:count]


def conversations(count: int, seed: int = 42) -> list[dict]:
    """Conversations of one to five messages, with and without a system message, each with the flag for a generation prompt."""
    rng = random.Random(seed)
    contents = texts(1000, seed)
    found = []
    for _ in range(count):
        roles = ["system"] if rng.randrange(2) else []
        roles += [ROLES[i % 2] for i in range(rng.randint(1, 4))]
        if rng.randrange(8) == 0:
            roles[rng.randrange(len(roles))] = rng.choice(ROLES)
        messages = [{"role": role, "content": rng.choice(contents)} for role in roles]
        found.append({"messages": messages, "add_generation_prompt": bool(rng.randrange(2))})
    return found


def has_number(text: str) -> bool:
    """Whether a character counts as a number in Unicode (decimal, letter or other)."""
    return any(unicodedata.category(character).startswith("N") for character in text)
