"""docs/results.md and the README table, from result files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import render_results

README = f"# Title\n\n{render_results.BEGIN}\nold\n{render_results.END}\n\nEnd.\n"
RESULT = {
    "name": "fashion_mnist",
    "figures": {
        "float_top1": 91.95,
        "cycles": 12345,
        "layers": [{"layer": "a|b", "cycles": 5}, {"layer": "c", "bound": "memory"}],
        "stalls": {"bandwidth": 7},
    },
    "configuration": {"npu": "vnpu-256"},
    "command": "python -m benchmarks.fashion_mnist",
    "versions": {"python": "3.11.7", "numpy": "2.4.6"},
    "date": "2026-11-29",
}
PAGE = """\
<!-- Generated from benchmarks/results/*.json; change with: python -m scripts.regen -->

# Results

## fashion mnist

| figure | value |
| --- | --- |
| float top1 | 91.95 |
| cycles | 12,345 |

### layers

| layer | cycles | bound |
| --- | --- | --- |
| a\\|b | 5 |  |
| c |  | memory |

| stalls | value |
| --- | --- |
| bandwidth | 7 |

| configuration | value |
| --- | --- |
| npu | vnpu-256 |

Measured on 2026-11-29 with python 3.11.7, numpy 2.4.6:

```
python -m benchmarks.fashion_mnist
```
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    return tmp_path


def test_without_results_the_pages_say_so(project: Path) -> None:
    texts = render_results.generate(project)
    assert texts[project / "docs" / "results.md"].endswith("\n\nNo results recorded yet.\n")
    assert texts[project / "README.md"] == README.replace("old", "No results recorded yet.")


def test_results_become_a_page_and_a_readme_table(project: Path) -> None:
    (project / "benchmarks" / "results" / "fashion_mnist.json").write_text(json.dumps(RESULT))
    texts = render_results.generate(project)
    table = "| figure | value |\n| --- | --- |\n| float top1 | 91.95 |\n| cycles | 12,345 |"
    assert texts[project / "docs" / "results.md"] == PAGE
    assert texts[project / "README.md"] == README.replace("old", table)


def test_rendering_twice_changes_nothing(project: Path) -> None:
    (project / "README.md").write_text(render_results.generate(project)[project / "README.md"])
    assert render_results.generate(project)[project / "README.md"] == README.replace(
        "old", "No results recorded yet."
    )


def test_a_readme_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="README.md needs the lines <!-- results:begin -->"):
        render_results.replace_section("# Title\n", "body")
