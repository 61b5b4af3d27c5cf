"""Language models: a tiny one with the weights and the logits of tests/checkpoint/cases.json."""
import json
import os
import struct
import tempfile
import threading
import unittest

import numpy as np
import tessera

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../checkpoint/cases.json")


def weights(name, shape, norm_base):
    """weights() of tests/checkpoint/make_cases.py."""
    state = 2166136261
    for byte in name.encode():
        state = (state ^ byte) * 16777619 % 2**32
    out = np.empty(int(np.prod(shape)), np.float32)
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = norm_base + ((state >> 27) - 16) / 32 if "norm" in name else ((state >> 25) - 64) / 256
    return out.reshape(shape)


def save(case, folder):
    header, data = {}, b""
    for name, tensor in case["tensors"].items():
        bytes_ = weights(name, tensor["shape"], case["norm_base"]).tobytes()
        header[name] = {"dtype": "F32", "shape": tensor["shape"], "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(case["config"], file)
    vocabulary = {chr(ord("A") + i): i for i in range(39)}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []},
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                   "added_tokens": [{"id": 39, "content": "<|im_end|>", "special": True}]}, file)


class Watched:
    """A native text that counts the tokens it reads and remembers what it was asked to prepare."""

    def __init__(self, text):
        self.text, self.read, self.prepared = text, 0, []

    def __getattr__(self, name):
        return getattr(self.text, name)

    def step(self, tokens):
        self.read += len(tokens)
        return self.text.step(tokens)

    def warm_up(self, tokens):
        self.prepared.append((tokens, self.read))
        self.text.warm_up(tokens)


class TextTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(CASES) as file:
            cases = json.load(file)
        cls.case = next(case for case in cases["cases"] if case["name"] == "qwen3")
        cls.read = cases["tokens"]
        cls.scratch = tempfile.TemporaryDirectory()
        save(cls.case, cls.scratch.name)
        cls.model = tessera.LanguageModel(cls.scratch.name, context=50, threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def expect(self, logits, row):
        np.testing.assert_allclose(logits, self.case["logits"][row], rtol=0, atol=1e-3)

    def test_steps_give_the_logits_of_transformers(self):
        text = self.model.another()
        self.expect(text.step(self.read[:1]), "0")
        self.expect(text.step(self.read[1:12]), "11")
        self.assertEqual((text.position, text.capacity, text.vocabulary), (12, 50, 40))
        self.expect(text.step(np.array(self.read[12:])), "23")
        text.rewind(1)
        self.expect(text.step(self.read[1:12]), "11")

    def test_texts_of_several_threads_share_a_model(self):
        texts, got = [self.model.another() for _ in range(3)], {}

        def run(i):
            got[i] = texts[i].step(self.read)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for logits in got.values():
            self.expect(logits, "23")
        self.assertEqual(len(got), 3)

    def test_generates_the_likeliest_tokens(self):
        text, want = self.model.another(), []
        logits = text.step(text.encode("HELLO"))
        while len(want) < 6 and not text._text.token(int(logits.argmax()))[1]:
            want.append(int(logits.argmax()))
            logits = text.step(want[-1:])
        self.assertEqual(list(self.model.another().tokens("HELLO", max_tokens=6)), want)
        pieces = list(tessera.generate(self.model.another(), "HELLO", max_tokens=6))
        self.assertEqual("".join(pieces), text.decode(want))

    def test_draws_follow_the_seed(self):
        def drawn(seed):
            return list(self.model.another().tokens("A", max_tokens=20, temperature=5, top_k=30, seed=seed))

        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))
        text = self.model.another()
        for _ in range(2):
            text.rewind()
            self.assertEqual(list(text.tokens("A", max_tokens=20, temperature=5, top_k=30, seed=1)), drawn(1))

    def test_nothing_is_compiled_while_text_comes(self):
        text = self.model.another()
        text._text = Watched(text._text)
        list(text.tokens("AAA", max_tokens=6))
        text.rewind()
        list(text.tokens("AAA", max_tokens=1000))
        self.assertEqual([tokens for tokens, _ in text._text.prepared], [9, 50])
        self.assertEqual(text._text.prepared[0][1], 0, "before anything is read")
        with self.assertRaisesRegex(tessera.Error, "51 tokens: there is room for 50"):
            text.warm_up(51)

    def test_a_filter_asks_for_draws(self):
        def said(**options):
            return list(self.model.another().tokens("A", max_tokens=20, seed=3, **options))

        self.assertEqual(said(top_k=40), said(top_k=40, temperature=1))
        self.assertEqual(said(top_k=40, temperature=0), said())
        with self.assertRaisesRegex(ValueError, "top_p is above 0"):
            next(self.model.another().tokens("A", top_p=0))

    def test_chats_have_control_tokens(self):
        letters, marks = "ystemuranidAB<|_>\n", ["<|im_start|>", "<|im_end|>"]
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        save(self.case, scratch.name)
        vocabulary = {letter.replace("\n", "\u010a"): i for i, letter in enumerate(letters)}
        with open(os.path.join(scratch.name, "tokenizer.json"), "w") as file:
            json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []},
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                       "added_tokens": [{"id": 18 + i, "content": mark, "special": True} for i, mark in enumerate(marks)]}, file)
        with open(os.path.join(scratch.name, "chat_template.jinja"), "w") as file:
            file.write("".join(marks))
        text = tessera.LanguageModel(scratch.name, context=64, threads=1)

        def spelled(said):  # with { and } for the marks
            return [(letters + "{}").index(c) for c in said]

        self.assertEqual(text.encode("<|im_start|>A"), spelled("<|im_start|>A"))
        self.assertEqual(text.encode("<|im_start|>A", control_tokens=True), spelled("{A"))
        said = [{"role": "user", "content": "A<|im_end|>"}]
        prompt = text.encode_chat(said)
        self.assertEqual(prompt, spelled("{user\nA<|im_end|>}\n{assistant\n"))
        want = "".join(text.another().generate(prompt, max_tokens=5))
        text.step([1, 2, 3])
        self.assertEqual("".join(text.chat(said, max_tokens=5)), want)
        self.assert_reads_turns_once(text, said)
        said += [{"role": "assistant", "content": "B"}, {"role": "user", "content": ""}]
        self.assertEqual(text.encode_chat([{"role": "system", "content": "A"}] + said)[:11],
                         spelled("{system\nA}\n"))
        with self.assertRaisesRegex(tessera.Error, "message 1 is of 'tool'"):
            text.encode_chat([{"role": "tool", "content": "A"}])
        with self.assertRaisesRegex(tessera.Error, "the model has no chat template"):
            self.model.encode_chat(said)
        with self.assertRaises(TypeError):
            text.encode_chat([{"role": "user", "content": 3}])

    def assert_reads_turns_once(self, text, said):
        text._text = Watched(text._text)
        "".join(text.chat(said, max_tokens=1))
        first = text.encode_chat(said)
        self.assertEqual(text._text.read, 1, "all but the last token is there from the turn before")
        said = said + [{"role": "assistant", "content": "B"}, {"role": "user", "content": "y"}]
        prompt = text.encode_chat(said)
        answer = "".join(text.chat(said, max_tokens=1))
        self.assertEqual(text._text.read, 1 + len(prompt) - len(first))
        self.assertEqual(answer, "".join(text.another().chat(said, max_tokens=1)))
        self.assertEqual(text.position, len(prompt))

    def test_says_what_is_wrong(self):
        text = self.model.another()
        with self.assertRaisesRegex(tessera.Error, "no token was read"):
            text._text.pick(0, 0, 1, 0, 1, 0)
        with self.assertRaisesRegex(tessera.Error, "no tokens"):
            text.step([])
        with self.assertRaisesRegex(tessera.Error, "40 tokens, not 40"):
            text.step([40])
        with self.assertRaises(ValueError):
            text.step([2**40])
        with self.assertRaises(TypeError):
            text.step(["a"])
        with self.assertRaisesRegex(tessera.Error, "position 3 of 0 tokens"):
            text.rewind(3)
        with self.assertRaisesRegex(tessera.Error, "top-p is 7"):
            next(text.tokens("A", top_p=7, temperature=1))
        with self.assertRaisesRegex(tessera.Error, "config.json"):
            tessera.LanguageModel(os.path.dirname(self.scratch.name))
        with self.assertRaises(FileNotFoundError):
            tessera.LanguageModel("/no/such.gguf")
        with self.assertRaisesRegex(tessera.Error, "context must not be negative, but is -1"):
            tessera.LanguageModel(self.scratch.name, context=-1)
        with self.assertRaisesRegex(tessera.Error, "activations must be int8 or float, 'f16' is"):
            tessera.LanguageModel(self.scratch.name, activations="f16")
        with self.assertRaisesRegex(tessera.Error, "there is room for 50"):
            text.step([1] * 51)
        text.rewind()
        text.step([1] * 50)
        with self.assertRaisesRegex(tessera.Error, "there is room for 50"):
            next(text.tokens("A"))


if __name__ == "__main__":
    unittest.main()
