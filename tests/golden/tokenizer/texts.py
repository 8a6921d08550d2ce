"""The texts that every tokenizer is compared on. Deterministic: the same list on every run."""

import random

# Stand-ins for the begin and end markers of a tokenizer, and for a token that is found in any text.
OPEN, CLOSE, USER = "\ue000", "\ue001", "\ue002"

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "It's what we've said: they'll go, I'd stay.",
    "DON'T SHOUT, WE'RE HERE, I'M SURE IT'S FINE, HE'LL SEE'D",
    "o'clock 'tis rock'n'roll ''quoted'' 's",
    "Prefill reads the whole prompt; decode continues at position P.",
    "Der Übergang dauerte länger als erwartet – 3,5 Stunden.",
    "Où est l'été? C'est déjà fini, hélas…",
    "¿Dónde está el niño? ¡Mañana vendrá!",
    "Žluťoučký kůň úpěl ďábelské ódy.",
    "Zażółć gęślą jaźń.",
    "Быстрая коричневая лиса прыгает через собаку.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί.",
    "הקיפוד השועל קופץ מעל הכלב העצלן",
    "الثعلب البني السريع يقفز فوق الكلب الكسول ١٢٣",
    "তাড়াতাড়ি বাদামী শিয়াল",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते पर कूदती है। १२३४",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดด ๑๒๓",
    "敏捷的棕色狐狸跳过了懒狗。2024年11月",
    "素早い茶色の狐がのろまな犬を飛び越える。カタカナﾊﾝｶｸ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다.",
    "አንበሳ ሰው",
    "ქართული ენა",
    "Հայերեն լեզու",
    "İstanbul'da ığdır ŞEHİR",
    "naïve café résumé Ångström ﬁnal ﬂow",
    "e\u0301 a\u0308o\u0302 n\u0303 \u1e9b\u0323",
    "👋🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️‍🔥 1️⃣ ☺︎",
    "H₂O x² ½ ⅷ ① ௧௨ ٣٤ 𝟘𝟙 Ⅻ",
    "price: $1,234.56 (−12%) €99 £7 ¥1000",
    "\u202eRTL override\u202c zero\u200bwidth\u200djoin\ufeffbom soft\u00adhyphen",
    "'ſ long s, ſs 'ſt \u212a kelvin",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g\u000bh\u000ci",
]

CODE = [
    "int main(int argc, char** argv) {\n  return argc > 1 ? 0 : -1;\n}\n",
    'def f(x: int = 0) -> str:\n    """Doc."""\n    return f\'{x!r:>10}\'\n',
    "for (auto& [k, v] : m) {\n\tif (!v) continue;\n\t\tsum += v->x[i] * 0x1Fu;\n}",
    "SELECT * FROM t WHERE a >= 10 AND b != 'x''y' -- comment",
    '<div class="a b"><p>Hi&nbsp;there</p></div>',
    '{"a": [1, 2.5e-3, null], "b": {"c": "\\u00e9"}}',
    '#!/bin/sh\nset -eu\nfor i in $(seq 1 10); do echo "$i" >> out.txt; done\n',
    "# Title\n\n* item 1\n* item **2**\n    1. nested\n\n"
    "```python\nprint('x')\n```\n\n| a | b |\n|---|---|\n",
    "https://example.com/a/b?q=1&r=%20#frag user@mail.example",
    "C:\\Users\\x\\file.txt ../../etc/passwd",
    "x=1;y=22;z=333;w=4444;v=55555;u=1234567890123",
    "1.2.3.4:8080 2024-11-29T16:57:00.123456Z 0b1010",
    "\r\nline one\r\n\r\nline two\rline three\n\r\n",
    "if(a&&b||!c){d+=e-->f;}",
    "λ x → ∀y ∈ ℝ: x² ≤ y ⇒ √x ≠ ∞",
    "\\begin{align} \\frac{a}{b} &= \\sum_{i=0}^{n} x_i \\end{align}",
    "std::unordered_map<std::string, std::vector<int>> map_of_things_;",
    "__init__ snake_case camelCase SCREAMING",
]

SPACES = [
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\n\n\n",
    "\t",
    "\t\t",
    " \n",
    "\n ",
    "\r\n",
    "\r\n\r\n",
    " \t ",
    "\u00a0",
    "\u3000",
    " \u00a0 ",
    "    ",
    "        ",
    " " * 17,
    "\n" * 9,
    "\v",
    "\f",
    "\u2028",
    "\u0085",
    "\r",
    "\n \n",
]

WORDS = [
    "a",
    "the",
    "Hello",
    "world",
    "x1",
    "ABC",
    "don't",
    "It's",
    "I'LL",
    "é",
    "日本",
    "नम",
    "שלום",
    "👍",
    "👩‍💻",
    "1",
    "12",
    "123",
    "1234",
    "3.14",
    "०१",
    "!",
    "...",
    "?!",
    "--",
    "'",
    "''",
    '"',
    "(",
    ")",
    "{",
    "}",
    "_",
    "#",
    "@",
    "<|",
    "|>",
    "<",
    ">",
    "<|im_start",
    "im_end|>",
    "[INST]",
    "$",
    "%",
    "\\n",
    "ﬀ",
    "ſ",
    "'ſ",
    "Ǆ",
    "ʼ",
    "\u0301",
    "\u200d",
    "½",
    "Ⅷ",
    "▁",
    "▁▁",
    "\u2581a",
    "Ġ",
    "Ċ",
    "<0x0A>",
    "<unk>",
    "</s>",
    "\u0000",
    "\u007f",
    "\ufffd",
    "\U0001f600",
    "\U00010348",
]


def random_code_point(rng):
    kind = rng.randrange(10)
    if kind < 3:
        return chr(rng.randrange(0x20, 0x7F))
    if kind < 5:
        return chr(rng.randrange(0xA0, 0x600))
    if kind < 6:
        return chr(rng.randrange(0x4E00, 0x9FFF))
    if kind < 7:
        return chr(rng.randrange(0x1F300, 0x1FAFF))
    if kind < 8:
        return rng.choice(SPACES)
    # Above plane 3 the reference's tables are empty but for private use.
    while True:
        value = rng.randrange(0x600, 0x30000)
        if not 0xD800 <= value < 0xE003:
            return chr(value)


def marker_texts():
    """Each marker directly beside what may change its neighbours' ids."""
    beside = [
        "a",
        "A",
        "é",
        "日",
        "ש",
        "1",
        "12345",
        " ",
        "  ",
        " a",
        "a ",
        "\n",
        "\n\n",
        "\na",
        "a\n",
        "\n a",
        "\t",
        "'s",
        "s'",
        ".",
        "...",
        "👍",
        "👨‍👩‍👧",
        "def f():",
        "ل",
        "'",
        "_",
        "\r\n",
        "<",
        "|",
        ">",
        "½",
    ]
    texts = []
    for marker in (OPEN, CLOSE, USER):
        for text in beside:
            texts += [marker + text, text + marker, text + marker + text]
    for text in beside:
        texts.append(OPEN + "user\n" + text + CLOSE + "\n" + OPEN + "assistant\n")
        texts.append(OPEN + OPEN + text + USER + CLOSE + CLOSE + USER + USER + text)
    return texts


def all_texts():
    rng = random.Random(20241129)
    texts = ["", *SENTENCES, *CODE, *SPACES, *WORDS, *marker_texts()]
    for left in ("a", "1", ".", "é", "日", "'s"):
        for space in SPACES:
            texts += [left + space + right for right in ("b", "2", "!", "\n", "'t", "")]
    for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 129):
        texts += [c * n for c in (" ", "a", "1", "\n", "=", "-", "é", "👍", "\t", "日", "A", "'")]
    for _ in range(500):
        texts.append(
            "".join(
                rng.choice(WORDS) + rng.choice(["", " ", "", rng.choice(SPACES)])
                for _ in range(rng.randrange(1, 9))
            )
        )
    for _ in range(350):
        texts.append("".join(random_code_point(rng) for _ in range(rng.randrange(1, 25))))
    pool = SENTENCES + CODE
    for _ in range(250):
        one, two = rng.choice(pool), rng.choice(pool)
        cut = rng.randrange(len(one) + 1)
        texts.append(one[cut:] + rng.choice(SPACES + WORDS) + two[: rng.randrange(len(two) + 1)])
    for _ in range(12):
        texts.append(rng.choice(SPACES).join(rng.choice(pool) for _ in range(12)))
    return list(dict.fromkeys(texts))
