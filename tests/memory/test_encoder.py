"""Search by the meaning that a sentence encoder sees, in a folder that the person names. Weights are made here."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.needs import skip_without

from agent_worker.core.errors import BadInput
from agent_worker.files.root import Root
from agent_worker.memory.encoded_meaning import EncodedMeaning
from agent_worker.memory.encoder import Encoder, load_encoder
from agent_worker.memory.index import Index
from agent_worker.memory.index_tables import IndexEntry
from agent_worker.memory.library import Library
from agent_worker.memory.recall import SearchScope, recall

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
WORDS = ("the", "cat", "dog", "sleeps", "runs", "on", "mondays", "we", "ship", "deploy", "release", "garden", "tulips")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing")
WIDTH, HEADS, LAYERS, INNER = 8, 2, 2, 16
_NAMES = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}

Matrix = list[list[float]]


def weights(*, alike: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Small ones by chance; words that are `alike` begin as the same."""
    try:
        numpy = import_module("numpy")
    except ImportError:
        skip_without("the extra `semantic`")
    dice = random.Random(3)

    def some(*shape: int, near: float = 0.0, by: float = 0.15) -> Any:
        return numpy.array([near + dice.gauss(0, by) for _ in range(math.prod(shape))], "float32").reshape(shape)

    made = {
        "embeddings.word_embeddings.weight": some(len(VOCABULARY), WIDTH, by=1.0),
        "embeddings.position_embeddings.weight": some(32, WIDTH) / 10,
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.LayerNorm.weight": some(WIDTH, near=1.0),
        "embeddings.LayerNorm.bias": some(WIDTH),
    }
    for layer in range(LAYERS):
        for name, shape in _NAMES.items():
            made[f"encoder.layer.{layer}.{name}.weight"] = some(*shape)
            made[f"encoder.layer.{layer}.{name}.bias"] = some(shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            made[f"encoder.layer.{layer}.{name}.weight"] = some(WIDTH, near=1.0)
            made[f"encoder.layer.{layer}.{name}.bias"] = some(WIDTH)
    words = made["embeddings.word_embeddings.weight"]
    for one, other in alike:
        words[VOCABULARY.index(other)] = words[VOCABULARY.index(one)]
    return made


def folder(place: Path, made: dict[str, Any], *, prefix: str = "") -> Path:
    save_file = import_module("safetensors.numpy").save_file
    place.mkdir(parents=True, exist_ok=True)
    save_file({prefix + name: weight for name, weight in made.items()}, place / "model.safetensors")
    (place / "config.json").write_text(json.dumps({"num_attention_heads": HEADS, "layer_norm_eps": 1e-12}))
    (place / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return place


@pytest.fixture
def encoder(tmp_path: Path) -> Encoder:
    return load_encoder(folder(tmp_path / "model", weights(alike=[("ship", "deploy"), ("ship", "release")])))


# --- the same by another hand: plain Python, one number after the other


def _of(made: dict[str, Any], name: str) -> Any:
    return made[name].tolist()


def _linear(rows: Matrix, made: dict[str, Any], name: str) -> Matrix:
    weight, bias = _of(made, f"{name}.weight"), _of(made, f"{name}.bias")
    return [
        [sum(a * b for a, b in zip(row, line, strict=True)) + add for line, add in zip(weight, bias, strict=True)]
        for row in rows
    ]


def _normal(rows: Matrix, made: dict[str, Any], name: str) -> Matrix:
    weight, bias, found = _of(made, f"{name}.weight"), _of(made, f"{name}.bias"), []
    for row in rows:
        middle = sum(row) / len(row)
        spread = math.sqrt(sum((x - middle) ** 2 for x in row) / len(row) + 1e-12)
        found.append([(x - middle) / spread * w + b for x, w, b in zip(row, weight, bias, strict=True)])
    return found


def _plus(one: Matrix, other: Matrix) -> Matrix:
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(one, other, strict=True)]


def _attended(rows: Matrix, made: dict[str, Any], name: str) -> Matrix:
    asked, keys, values = (_linear(rows, made, f"{name}.{part}") for part in ("query", "key", "value"))
    each = WIDTH // HEADS
    found: Matrix = [[] for _ in rows]
    for head in range(HEADS):
        part = slice(head * each, (head + 1) * each)
        for place, query in enumerate(asked):
            scores = [
                math.exp(sum(a * b for a, b in zip(query[part], key[part], strict=True)) / math.sqrt(each))
                for key in keys
            ]
            shares = [score / sum(scores) for score in scores]
            found[place] += [
                sum(share * value[part][n] for share, value in zip(shares, values, strict=True)) for n in range(each)
            ]
    return found


def by_hand(made: dict[str, Any], ids: Sequence[int]) -> list[float]:
    """The vector of a whole text, of length one."""
    word, at = (_of(made, f"embeddings.{name}_embeddings.weight") for name in ("word", "position"))
    kind = _of(made, "embeddings.token_type_embeddings.weight")[0]
    rows = [[w + p + k for w, p, k in zip(word[id], at[n], kind, strict=True)] for n, id in enumerate(ids)]
    rows = _normal(rows, made, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        mixed = _linear(_attended(rows, made, f"{name}.attention.self"), made, f"{name}.attention.output.dense")
        rows = _normal(_plus(rows, mixed), made, f"{name}.attention.output.LayerNorm")
        wide = _linear(rows, made, f"{name}.intermediate.dense")
        wide = [[x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in row] for row in wide]
        rows = _normal(_plus(rows, _linear(wide, made, f"{name}.output.dense")), made, f"{name}.output.LayerNorm")
    middle = [sum(row[n] for row in rows) / len(rows) for n in range(WIDTH)]
    length = math.sqrt(sum(x * x for x in middle))
    return [x / length for x in middle]


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the cat sleeps", ["the", "cat", "sleeps"]),
        ("We SHIP on Mondays", ["we", "ship", "on", "mondays"]),
        ("cats", ["cat", "##s"]),
        ("quixotic", ["[UNK]"]),
        ("", []),
    ],
)
def test_a_text_is_encoded_as_another_hand_would(tmp_path: Path, text: str, pieces: list[str], prefix: str) -> None:
    made = weights()
    encoder = load_encoder(folder(tmp_path, made, prefix=prefix))
    ids = [VOCABULARY.index(piece) for piece in ("[CLS]", *pieces, "[SEP]")]
    assert encoder.encode(text).whole.tolist() == pytest.approx(by_hand(made, ids), abs=1e-5)


def test_a_long_text_is_read_from_its_beginning(tmp_path: Path) -> None:
    made = weights()
    made["embeddings.position_embeddings.weight"] = made["embeddings.position_embeddings.weight"].repeat(8, axis=0)
    encoder = load_encoder(folder(tmp_path, made))
    assert len(encoder.encode("the cat sleeps " * 1000).pieces) == 128


# --- in a search


def filled(path: Path | None, *texts: str) -> Index:
    index = Index(path)
    index.put("talk", [IndexEntry(str(n), "history", "talk", text) for n, text in enumerate(texts)])
    return index


def found(index: Index, meaning: EncodedMeaning, query: str) -> list[str]:
    return [each.entry.text for each in recall([SearchScope(index, None, meaning)], query, now=NOW)]


TALK = ("we deploy on mondays", "the dog runs", "the tulips garden")


def test_what_means_the_same_is_found_without_a_word_in_common(encoder: Encoder) -> None:
    index = filled(None, *TALK)
    meaning = EncodedMeaning(encoder, index, None)
    assert found(index, meaning, "release") == [], "by its words alone, until it is encoded"
    meaning.join()
    assert found(index, meaning, "release")[0] == "we deploy on mondays"


def test_what_is_encoded_is_kept_and_not_encoded_again(encoder: Encoder, tmp_path: Path) -> None:
    index, file = filled(tmp_path / "recall.db", *TALK), tmp_path / "encoded.npz"
    first = EncodedMeaning(encoder, index, file)
    found(index, first, "release")
    first.join()
    known = found(index, first, "release")
    assert file.stat().st_mode & 0o777 == 0o600
    assert found(index, EncodedMeaning(encoder, index, file), "release") == known


def test_what_another_model_encoded_is_not_used(encoder: Encoder, tmp_path: Path) -> None:
    index, file = filled(tmp_path / "recall.db", *TALK), tmp_path / "encoded.npz"
    first = EncodedMeaning(encoder, index, file)
    found(index, first, "release")
    first.join()
    other = weights()
    other["encoder.layer.1.output.dense.weight"] *= -3
    second = EncodedMeaning(load_encoder(folder(tmp_path / "other", other)), index, file)
    assert found(index, second, "release") == []
    second.join()


@pytest.mark.parametrize("content", [b"", b"not at all what it says", b"PK\x03\x04"])
def test_a_file_of_vectors_that_is_broken_is_made_again(encoder: Encoder, tmp_path: Path, content: bytes) -> None:
    index, file = filled(tmp_path / "recall.db", *TALK), tmp_path / "encoded.npz"
    file.write_bytes(content)
    meaning = EncodedMeaning(encoder, index, file)
    found(index, meaning, "release")
    meaning.join()
    assert found(index, meaning, "release")[0] == "we deploy on mondays"


def test_an_index_that_is_closed_ends_the_encoding(encoder: Encoder) -> None:
    index = filled(None, *(f"the dog runs {n}" for n in range(500)))
    meaning = EncodedMeaning(encoder, index, None)
    found(index, meaning, "release")
    index.close(meaning.save)
    meaning.join()


def test_an_agents_search_goes_by_the_model_that_was_chosen(tmp_path: Path) -> None:
    model = folder(tmp_path / "model", weights(alike=[("ship", "deploy"), ("ship", "release")]))
    (tmp_path / "alice" / "memory").mkdir(parents=True)
    (tmp_path / "alice" / "memory" / "working.yaml").write_text("when: we deploy on mondays\npet: the dog runs\n")
    library = Library(Root(tmp_path / "alice"), "alice", model=model)
    library.search("release", now=NOW, kinds=("memory",))
    assert isinstance(library._meaning, EncodedMeaning)
    library._meaning.join()
    first = library.search("release", now=NOW, kinds=("memory",))[0]
    assert (first.entry.text, first.why) == ("we deploy on mondays", "similar in meaning")
    library.close()


# --- a folder that is not what it should be


def broken(place: Path, how: str) -> Path:
    made = weights()
    match how:
        case "no heads":
            (folder(place, made) / "config.json").write_text("{}")
        case "no json":
            (folder(place, made) / "config.json").write_text("heads")
        case "a layer is missing":
            del made["encoder.layer.0.output.dense.bias"]
            folder(place, made)
        case "no word is embedded":
            folder(place, {"other": made["embeddings.LayerNorm.bias"]})
        case "other sizes":
            made["encoder.layer.1.output.dense.weight"] = made["encoder.layer.1.output.dense.weight"][:, :3].copy()
            folder(place, made)
        case "cut off":
            whole = (folder(place, made) / "model.safetensors").read_bytes()
            (place / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    return place


@pytest.mark.parametrize(
    "how", ["no heads", "no json", "a layer is missing", "no word is embedded", "other sizes", "cut off"]
)
def test_what_is_no_encoder_is_told_when_it_is_loaded_and_the_search_goes_on_without(tmp_path: Path, how: str) -> None:
    place = broken(tmp_path / "model", how)
    with pytest.raises(BadInput, match="holds no encoder that can be read"):
        load_encoder(place)
    (tmp_path / "alice" / "memory").mkdir(parents=True)
    (tmp_path / "alice" / "memory" / "working.yaml").write_text("when: we deploy on mondays\n")
    library = Library(Root(tmp_path / "alice"), "alice", model=place)
    assert library.search("deploy", now=NOW, kinds=("memory",))
    library.close()
