#!/usr/bin/env python3
"""Writes tests/tokenizer/cases.json: tiny vocabularies, texts, and the tokens that the package tokenizers makes of them.

usage: tests/tokenizer/make_cases.py   (needs pip install tokenizers)
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
MARK = "\u2581"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
UNCASED = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{CASED}*{UNCASED}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{CASED}+{UNCASED}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
             r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")

TRAINING = """The quick brown fox jumps over the lazy dog. It's what they've said: we'll see, I'm sure you'd agree.
In 2024, 1234567 people bought 3.14159 apples for $12.50 each; the other 99% didn't.
def main(argc, argv):
    for i in range(10):
        print(f"{i:02d}", end="\\n")  # comment
    return {"key": [1, 2, 3], 'x': None}
Straße, café, naïve, Ångström. Привет, мир! Как дела? 你好，世界。今天天气很好。こんにちは世界。안녕하세요 세계. שלום עולם. مرحبا بالعالم
"""

TEXTS = [
    "", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "Hello  world", "hello\tworld\r\n", "   leading and trailing   ",
    "it's IT'S they'Ve WE'LL I'd 'S 't", "don't ''' 'x", "1", "12345678901234567890", "3.14 1,000,000 1e-9 0xFF ½ ²³ Ⅷ ٣٤٥",
    "if (x == 0) {\n\treturn -1;\n}\n\n\n// done\n", "a\u00a0b\u2003c\u3000d\u2028e\u0085f\u200bg", "\r\r\n\n \n \r\n",
    "    indented\n        more\n", "café cafe\u0301 ÅA\u030a ﬁ ſ ı İ", "Привет, мир! Ёлка", "你好，世界。漢字かな交じり文カタカナ", "안녕하세요 세계",
    "שלום עולם مرحبا بالعالم", "नमस्ते दुनिया", "🙂🙃 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️", "𝕳𝖊𝖑𝖑𝖔 𐍈𐌰", "\ufeffBOM \ufffd \x00\x01\x7f", "a" * 100, "ab" * 64,
    " " * 50 + "x", "!" * 33, "...---...", "<s>not special</s>", "<|start|>user\nhi<|end|>\n", "x<|end|><|end|>y <|end|> z", "  <pad>  two",
    "CamelCaseWords HTTPServer iPhone XMLHttpRequest", "snake_case_words kebab-case path/to/file.txt http://a.b/c?d=e&f=%20",
    MARK + "marked" + MARK, "tab\t\ttab", "mixed 中文 and English123混合", "a'b'c 'tis o'clock 'Twas", "été ÉTÉ Ñandú ß ẞ",
]


def random_texts(count):
    """Texts of characters drawn from odd corners of Unicode, the same in every run."""
    draw = random.Random(38)
    pools = ["abc XYZ's", "012 345", " \t\n\r\u00a0\u3000", "!?.,;:'\"-_/\\()[]{}", "éüßñÅ", "жЯё", "中文字", "😀👍🏽", "\u0301\u200d\ufe0f", "٠९Ⅷ½"]
    return ["".join(draw.choice(draw.choice(pools)) for _ in range(draw.randrange(1, 60))) for _ in range(count)]


def byte_level(steps, size=350, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|start|>", "<|end|>", "<pad>"], show_progress=False)
    tokenizer.train_from_iterator(TRAINING.splitlines(True), trainer)
    return tokenizer


def split(regex):
    return [pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def marked_pairs():
    """As Llama 2 has them: characters, spaces marked, bytes for what has no token."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(vocab_size=480, limit_alphabet=90, show_progress=False,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    tokenizer.train_from_iterator([line.replace(" ", MARK) for line in TRAINING.split()], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    out = json.loads(tokenizer.to_str())
    out["added_tokens"] = [t for t in out["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(out))


def unigram(**metaspace):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, **metaspace)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.UnigramTrainer(vocab_size=260, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TRAINING.splitlines(), trainer)
    return tokenizer


def composed(tokenizer):
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def word_pieces(**normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], limit_alphabet=120,
                                        show_progress=False)
    tokenizer.train_from_iterator(TRAINING.splitlines(), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def added(tokenizer):
    tokenizer.add_tokens([AddedToken("  <tool>", normalized=False), AddedToken("<call>", normalized=False, rstrip=True)])
    tokenizer.add_special_tokens([AddedToken("<mask>", normalized=False, lstrip=True)])
    return tokenizer


def main():
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = {
        "gpt2": byte_level([plain]),
        "gpt2 with a space before": byte_level([pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        "smollm": byte_level([pre_tokenizers.Digits(individual_digits=True), plain]),
        "llama-bpe": byte_level(split(LLAMA3), ignore_merges=True),
        "qwen2": byte_level(split(QWEN2)),
        "gpt-4o": byte_level(split(GPT4O)),
        "deepseek-v3": byte_level([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                                   pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated")] + split(DEEPSEEK3)),
        "added tokens": added(byte_level([plain])),
        "llama 2": marked_pairs(),
        "unigram": unigram(prepend_scheme="always"),
        "unigram, one space": unigram(prepend_scheme="first", split=False),
        "composed": composed(byte_level(split(QWEN2))),
        "bert": word_pieces(),
        "bert, cased": word_pieces(lowercase=False),
    }
    texts = TEXTS + ["a <mask> b <call>  c  <tool>d", "<mask><call><tool>"] + random_texts(40)
    cases = []
    for name, tokenizer in made.items():
        ids = [tokenizer.encode(text).ids for text in texts]
        cases.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "ids": ids,
                      # Where it is not the text itself.
                      "decoded": [None if (t := tokenizer.decode(i)) == text else t for i, text in zip(ids, texts)]})
    lines = ['{"texts": ' + json.dumps(texts) + ',\n"cases": [']
    lines.append(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
    (HERE / "cases.json").write_text("\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
