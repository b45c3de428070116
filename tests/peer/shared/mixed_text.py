"""Mixed text for comparisons of tokenizers, the same at each call with the packages of requirements.txt: English and code
(sources of transformers and of Troupe, the corpus), names of places and languages in all translations of pycountry
(Chinese, Arabic, Devanagari and about 150 others), emoji, characters of every block of Unicode, marks in any order,
broken UTF-8 as Python reads it, long words and long blanks, and texts of the caller."""
import gettext
import pathlib
import random
import unicodedata

ROOT = pathlib.Path(__file__).parents[3]
# Languages that half of the translated names are of.
COMMON = {"zh_CN", "zh_TW", "zh_HK", "ar", "fa", "ur", "hi", "mr", "ne", "ja", "ko", "th", "ta", "ru", "vi"}
LONGEST_WORD = 3000


def packaged(name):
    return pathlib.Path(__import__(name).__file__).parent


def lines_of(paths):
    return [line for path in sorted(paths) for line in path.read_text(encoding="utf-8", errors="replace").splitlines(True)]


def translations():
    """Translated names by language, each list without repetitions."""
    out = {}
    for folder in sorted((packaged("pycountry") / "locales").iterdir()):
        names = {}
        for path in sorted(folder.rglob("*.mo")):
            with path.open("rb") as file:
                catalogue = gettext.GNUTranslations(file)._catalog
            names |= dict.fromkeys(text for key, text in catalogue.items() if key and isinstance(text, str))
        if names:
            out[folder.name] = list(names)
    return out


def blocks():
    """The characters that have a name or are for private use, in runs of 128 numbers; and marks that combine."""
    named = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    runs = {}
    for c in named:
        runs.setdefault(ord(c) >> 7, []).append(c)
    runs[-1] = ["\ue000", "\uf8ff", "\U0010fffd", "\u0378", "\ufffe", "\U0001fffe"]  # private, unassigned, no characters
    return list(runs.values()), [c for c in named if unicodedata.combining(c)]


class maker:
    def __init__(self, texts, seed=1):
        self.draw = random.Random(seed)
        self.prose = (ROOT / "examples" / "corpus.txt").read_text().splitlines(True)
        self.code = lines_of((packaged("transformers") / "models").glob("*/modeling_*.py")) + lines_of(
            p for folder in ("actors", "data", "plan") for p in (ROOT / folder).rglob("*.cpp"))
        self.names = translations()
        self.common = sorted(COMMON & set(self.names))
        self.blocks, self.marks = blocks()
        self.texts = texts
        self.signs = sorted(set("".join(texts)))
        self.emoji = [c for run in self.blocks for c in run if 0x1F300 <= ord(c) < 0x1FB00 or 0x2600 <= ord(c) < 0x27C0]

    def consecutive(self, lines):
        begin = self.draw.randrange(len(lines))
        return "".join(lines[begin:begin + self.draw.randrange(1, 30)])

    def translated(self):
        names = self.names[self.draw.choice(self.common if self.draw.random() < 0.5 else list(self.names))]
        return self.draw.choice((" ", ", ", "\u3001", "\u060c ", "\n", "")).join(self.draw.choices(names, k=20)) + "\n"

    def of_emoji(self):
        """Emoji alone, with a skin, joined, as flags, and with the selectors of their looks."""
        d, one = self.draw, self.draw.choice(self.emoji)
        letters = [chr(0x1F1E6 + d.randrange(26)) for _ in range(d.randrange(2, 5))]
        return d.choice((one, one + chr(0x1F3FB + d.randrange(5)), "\u200d".join(d.choices(self.emoji, k=3)), "".join(letters),
                         one + d.choice("\ufe0e\ufe0f"), "1\ufe0f\u20e3", "\u2764\ufe0f\u200d\U0001f525")) * d.randrange(1, 4)

    def of_blocks(self):
        return "".join(self.draw.choices(self.draw.choice(self.blocks), k=self.draw.randrange(1, 12)))

    def marked(self):
        d = self.draw
        return "".join(d.choice(d.choice(self.blocks)) + "".join(d.choices(self.marks, k=d.randrange(1, 5))) for _ in range(4))

    def broken(self):
        """A few pieces with bytes that are cut off, doubled or others."""
        text = bytearray(self.piece(8).encode("utf-8", "surrogatepass")[:400])
        for _ in range(self.draw.randrange(1, 6)):
            at = self.draw.randrange(len(text) + 1)
            text[at:at + self.draw.randrange(3)] = bytes(self.draw.randrange(1, 256) for _ in range(self.draw.randrange(2)))
        # Characters that no version of Unicode here has may be letters in a later one.
        return "".join(c for c in text.decode("utf-8", "replace") if unicodedata.category(c) != "Cn")

    def long(self):
        d = self.draw
        return d.choice((" ", "\n", "a", "ab", "\t", "\u4e2d", "\u0e01", "\u0301", "1", "- ")) * d.randrange(LONGEST_WORD // 2)

    def piece(self, kinds=10):
        d = self.draw
        made = (lambda: self.consecutive(self.prose), lambda: self.consecutive(self.code), self.translated, self.translated,
                self.of_emoji, self.of_blocks, self.marked, lambda: "".join(d.choices(self.signs, k=20)),
                self.broken, lambda: self.long() if d.random() < 0.02 else d.choice(self.texts))
        return made[d.randrange(kinds)]()

    def document(self, size):
        """At least `size` bytes of text, without null characters and without names of the end of text."""
        out, count = [], 0
        while count < size:
            part = self.piece().replace("<|endoftext|>", "").replace("\0", "")
            out.append(part + self.draw.choice(("", "", " ", "\n")))
            count += len(out[-1].encode())
        return "".join(out).replace("<|endoftext|>", "")
