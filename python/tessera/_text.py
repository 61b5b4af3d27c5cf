"""Language models: `LanguageModel` and `generate`."""
from __future__ import annotations

import codecs
import operator
import os
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from . import _native
from ._model import present
from ._words import python_errors


class LanguageModel:
    """A text that a language model reads and writes, of a GGUF file or a folder with config.json and safetensors.

    Tokens that were read are remembered. ``context``: how many there is room for; 0: as many as the model was made for,
    at most 4096. ``activations``: ``int8`` rounds what quantised weights multiply to bytes, where the processor
    multiplies those; ``float`` does not. One call at a time; ``another`` gives texts for other threads.
    """

    def __init__(self, model: Union[str, os.PathLike[str]], *, context: int = 0, threads: int = 0,
                 activations: str = "int8") -> None:
        path = os.fspath(model)
        present(path)
        with python_errors():
            self._text = _native.open_text(path, context, threads, activations)
        self._read: list[int] = []

    def another(self) -> LanguageModel:
        """An empty text of the same model, with the same weights in memory."""
        made = LanguageModel.__new__(LanguageModel)
        made._text = self._text.another()
        made._read = []
        return made

    @property
    def position(self) -> int:
        """How many tokens were read."""
        return self._text.info()[0]

    @property
    def capacity(self) -> int:
        """How many tokens there is room for."""
        return self._text.info()[1]

    @property
    def vocabulary(self) -> int:
        """How many logits a step gives."""
        return self._text.info()[2]

    def encode(self, text: str, *, control_tokens: bool = False) -> list[int]:
        """The tokens of a text, with those that the model wants around it. Control tokens in it are plain text, unless
        ``control_tokens`` is true."""
        return self._text.encode(text, control_tokens)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of a conversation in the format of the model's chat template, up to where the answer begins.

        Each message has a ``role`` and ``content``: one of ``system`` or none, then ``user`` and ``assistant`` in turns,
        ``user`` last. Control tokens in what they say are plain text.
        """
        return self._text.encode_chat(tuple((m["role"], m["content"]) for m in messages))

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(self._text.token(token)[0] for token in tokens).decode(errors="replace")

    def step(self, tokens: Sequence[int]) -> Any:
        """Reads tokens behind those before; the logits of what comes next as a NumPy array."""
        import numpy

        with python_errors():
            return numpy.frombuffer(self._step(tokens), numpy.float32)

    def _step(self, tokens: Sequence[int]) -> bytes:
        read = [operator.index(token) for token in tokens]
        logits = self._text.step(read)
        self._read += read
        return logits

    def warm_up(self, tokens: int) -> None:
        """Compiles what a text of so many tokens needs, so that no step waits for it."""
        with python_errors():
            self._text.warm_up(tokens)

    def rewind(self, position: int = 0) -> None:
        """Forgets what was read behind the first ``position`` tokens; random numbers begin anew."""
        with python_errors():
            self._text.rewind(position)
        del self._read[position:]

    def tokens(self, prompt: Union[str, Sequence[int]], *, max_tokens: int = 256, temperature: Optional[float] = None,
               top_k: int = 0, top_p: float = 1, min_p: float = 0, repeat_penalty: float = 1, seed: int = 0) -> Iterator[int]:
        """What the model says behind the tokens so far and the prompt, token by token, up to where the text ends. The
        last one is not read: begin the next prompt with it to go on.

        ``temperature``: 0 is the likeliest token each time; by default 1 where one of ``top_k``, ``top_p`` and ``min_p``
        is given, else 0.
        """
        if temperature is None:
            temperature = 1 if top_k != 0 or top_p != 1 or min_p != 0 else 0
        if top_p == 0:  # the C interface takes zero for what was not given
            raise ValueError("top_p is above 0 and at most 1")
        following = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        self.warm_up(min(self.position + len(following) + max_tokens, self.capacity))
        for count in range(max_tokens):
            if count > 0 and self.position == self.capacity:
                return
            with python_errors():
                self._step(following)
                token = self._text.pick(temperature, top_k, top_p, min_p, repeat_penalty, seed)
            if self._text.token(token)[1]:
                return
            yield token
            following = [token]

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Iterator[str]:
        """Pieces of the answer to a conversation, as ``encode_chat`` takes it; options are those of ``tokens``. Of what
        was read before, the turns that are the same are remembered."""
        prompt = self.encode_chat(messages)
        known = len(os.path.commonprefix([prompt, self._read]))
        self.rewind(min(known, len(prompt) - 1))  # the logits behind the last token are needed
        return self.generate(prompt[self.position:], **options)

    def generate(self, prompt: Union[str, Sequence[int]], **options: Any) -> Iterator[str]:
        """The same as pieces of text: whole characters as they come."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in self.tokens(prompt, **options):
            piece = decoder.decode(self._text.token(token)[0])
            if piece:
                yield piece
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest


def generate(model: Union[str, os.PathLike[str], LanguageModel], prompt: str, **options: Any) -> Iterator[str]:
    """Pieces of the text that a language model writes behind a prompt; options are those of LanguageModel.tokens.

        for piece in tessera.generate("model.gguf", "The capital of France is", max_tokens=24):
            print(piece, end="", flush=True)
    """
    text = model if isinstance(model, LanguageModel) else LanguageModel(model)
    return text.generate(prompt, **options)
