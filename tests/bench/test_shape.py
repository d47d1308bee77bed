"""How the shape of a source is counted, on a small package."""

from __future__ import annotations

from pathlib import Path

import shape


def test_imports_of_all_kinds_are_seen_and_cycles_count_once(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    (package / "part").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "a.py": "from toy import b\n\n\nclass One:\n    pass\n",
        "b.py": "def later():\n    from toy.a import One\n    return One\n",
        "part/__init__.py": "",
        "part/c.py": "from ..a import One as First\nfrom . import d\nimport json\n\n\nclass One:\n    pass\n",
        "part/d.py": "try:\n    import os\nexcept Exception:\n    raise\n",
    }.items():
        (package / name).write_text(text)

    graph = {name: module.imports for name, module in shape.sources(package).items()}
    assert graph["toy.b"] == {"toy.a"}
    assert graph["toy.part.c"] == {"toy.a", "toy.part.d"}
    assert shape.components(graph)["toy.a"] == {"toy.a", "toy.b"}
    assert shape.longest_chain(graph) == 2  # c → the two that import each other

    row = dict(zip(shape.COLUMNS, shape.shape("toy", package), strict=True))
    assert row["modules in cycles"] == "2 of 6"
    assert row["broad excepts"] == "100 %"
    assert row["class names twice"] == "1"
    assert row["most modules one knows"] == "2"
