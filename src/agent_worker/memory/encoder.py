"""A sentence encoder of the kind of MiniLM, from a folder that the person names: safetensors and a vocabulary.

The forward pass of BERT in numpy, one text after the other: a turn takes some milliseconds, and no torch is needed.
Gives a vector of the whole text, and one of each word piece, reduced to 64 dimensions. Knows no index: that is
encoded_meaning.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_worker.core.errors import BadInput
from agent_worker.core.late_imports import taking_turns
from agent_worker.core.later import dataclass
from agent_worker.definitions.settings import (
    AN_ENCODER,
    ENCODER_CONFIG,
    ENCODER_VOCABULARIES,
    ENCODER_WEIGHTS,
    missing_in,
)

LONGEST = 128  # pieces of a text that are read
WIDTH = 64  # dimensions of a piece, as it is kept
EPSILON = 1e-12  # keeps a layer from dividing by nothing, where its configuration does not say otherwise
_SAMPLE = 1_024  # words of the vocabulary that show along which dimensions pieces differ

Array = Any  # numpy's, which is not there for the type checker


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    whole: Array  #: of length one
    pieces: Array  #: one row of length one per word piece, WIDTH wide


def load_encoder(folder: Path) -> Encoder:
    """The encoder in a folder. Raises BadInput with what is wrong with it; ImportError where the extra is not
    installed.
    """
    if problem := missing_in(folder):
        raise BadInput(f"{folder} {problem}", hint=AN_ENCODER)
    with taking_turns:
        numpy, safetensors, tokenizers = (
            import_module("numpy"),
            import_module("safetensors.numpy"),
            import_module("tokenizers"),
        )
    try:
        config = json.loads((folder / ENCODER_CONFIG).read_text())
        weights = safetensors.load_file(folder / ENCODER_WEIGHTS)
        made = _tokenizer(folder, tokenizers)
        epsilon = float(config.get("layer_norm_eps", EPSILON))
        return Encoder(numpy, weights, made, heads=int(config["num_attention_heads"]), epsilon=epsilon)
    except Exception as error:  # boundary: whatever libraries make of files that are not what they say
        said = f"{type(error).__name__}: {error}"[:300]
        raise BadInput(f"{folder} holds no encoder that can be read: {said}", hint="one of the kind of BERT") from error


def _tokenizer(folder: Path, tokenizers: Any) -> Any:
    if (folder / ENCODER_VOCABULARIES[0]).is_file():
        made = tokenizers.Tokenizer.from_file(str(folder / ENCODER_VOCABULARIES[0]))
    else:
        made = tokenizers.BertWordPieceTokenizer(str(folder / ENCODER_VOCABULARIES[1]), lowercase=True)
    made.enable_truncation(LONGEST)
    made.no_padding()
    return made


class Encoder:
    """One per process serves every agent."""

    def __init__(self, numpy: Any, weights: Mapping[str, Array], tokenizer: Any, *, heads: int, epsilon: float) -> None:
        self.numpy = numpy
        prefix = next((n.partition("embeddings.")[0] for n in weights if "embeddings.word_embeddings" in n), "")
        self._weights = {n.removeprefix(prefix): w.astype(numpy.float32) for n, w in weights.items()}
        self._tokenizer = tokenizer
        self._heads = heads
        self._epsilon = epsilon
        self._layers = sum(name.endswith("attention.self.query.weight") for name in self._weights)
        self.encode("once")  # what does not fit together is told when it is loaded, not in a search

    def encode(self, text: str) -> Encoded:
        np, states = self.numpy, self._states(text)
        return Encoded(_unit(np, states.mean(axis=0)), _unit(np, states @ self.projection))

    @cached_property
    def projection(self) -> Array:
        """The matrix that reduces a vector to the dimensions in which pieces differ most, found from the vocabulary:
        always the same.
        """
        np = self.numpy
        seen = np.concatenate([self._states(" ".join(words)) for words in self._sample()])
        _, _, axes = np.linalg.svd(seen - seen.mean(axis=0), full_matrices=False)
        axes = axes[:WIDTH]
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
        return (axes * signs[:, None]).T

    @property
    def mark(self) -> str:
        """A mark that changes when stored vectors cannot be compared with new ones any more."""
        rounded = self.numpy.round(self.projection, 2) + 0.0
        return blake2b(rounded.astype("float16").tobytes(), digest_size=8).hexdigest()

    def _sample(self) -> Iterator[Sequence[str]]:
        words = sorted(word for word in self._tokenizer.get_vocab() if word.isalpha() and len(word) > 2)
        words = words[:: max(1, len(words) // _SAMPLE)][:_SAMPLE] or ["once"]
        return (words[first : first + 16] for first in range(0, len(words), 16))

    def _states(self, text: str) -> Array:
        """What the last layer makes of each piece."""
        np = self.numpy
        ids = np.array(self._tokenizer.encode(text).ids, dtype=int)
        embedded = self._named("embeddings.word_embeddings.weight")[ids]
        embedded = embedded + self._named("embeddings.position_embeddings.weight")[: len(ids)]
        embedded = embedded + self._named("embeddings.token_type_embeddings.weight")[0]
        states = self._normal(embedded, "embeddings.LayerNorm")
        for layer in range(self._layers):
            states = self._layer(states, f"encoder.layer.{layer}.")
        return states

    def _layer(self, states: Array, name: str) -> Array:
        attended = self._linear(self._attended(states, f"{name}attention.self."), f"{name}attention.output.dense")
        states = self._normal(states + attended, f"{name}attention.output.LayerNorm")
        wide = _gelu(self.numpy, self._linear(states, f"{name}intermediate.dense"))
        return self._normal(states + self._linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _attended(self, states: Array, name: str) -> Array:
        np, (length, width) = self.numpy, states.shape
        each = width // self._heads
        query, key, value = (
            self._linear(states, name + part).reshape(length, self._heads, each).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(each))
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
        return (scores @ value).transpose(1, 0, 2).reshape(length, width)

    def _linear(self, states: Array, name: str) -> Array:
        return states @ self._named(f"{name}.weight").T + self._named(f"{name}.bias")

    def _normal(self, states: Array, name: str) -> Array:
        np, middle = self.numpy, states.mean(axis=1, keepdims=True)
        spread = np.sqrt(((states - middle) ** 2).mean(axis=1, keepdims=True) + self._epsilon)
        return (states - middle) / spread * self._named(f"{name}.weight") + self._named(f"{name}.bias")

    def _named(self, name: str) -> Array:
        return self._weights[name]


def _unit(np: Any, vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-9)


def _gelu(np: Any, x: Array) -> Array:
    """x times the share of a normal distribution below it, exact to a ten-millionth (Abramowitz and Stegun 7.1.26)."""
    z = np.abs(x) / np.sqrt(np.float32(2))
    t = 1 / (1 + 0.3275911 * z)
    rest = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    error = np.sign(x) * (1 - rest * np.exp(-z * z))
    return (x * 0.5 * (1 + error)).astype(np.float32)
