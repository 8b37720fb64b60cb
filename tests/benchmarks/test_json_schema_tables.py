"""The tables of the benchmarks of schemas, and their places in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.json_schema_peers import HEAD, rows_of
from benchmarks.json_schema_tables import percent, quantile, table, write_page

ROOT = Path(__file__).resolve().parents[2]


def test_a_table_of_one_engine_has_a_row_for_each_data_set() -> None:
    row = {"schemas": 4, "compiled": 3, "v_ok": 1, "v_all": 2, "i_ok": 0, "i_comp": 0}
    summary = {"suite": {**row, "perfect": 1, "timeout": 1, "crash": 0}}
    assert list(rows_of("ours", summary)) == [("suite", "ours", 4, "75.00", "50.00", "-", "25.00", 1, 0)]
    assert table(HEAD[:2], [("suite", "ours")]) == "| data | engine |\n|---|---|\n| suite | ours |"
    assert percent(0, 0) == "-"


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_quantile_is_one_of_the_values(share: float, expected: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == expected


def test_only_the_table_of_a_page_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a: written by s.py -->\nold\n<!-- end -->\nafter\n")
    write_page(page, "a", "s.py", "new \\1")
    assert page.read_text() == "before\n<!-- a: written by s.py -->\nnew \\1\n<!-- end -->\nafter\n"
    with pytest.raises(SystemExit, match="no place"):
        write_page(page, "b", "s.py", "new")


@pytest.mark.parametrize(
    ("name", "script"), [("scores", "json_schema"), ("peers", "json_schema_peers"), ("ratios", "json_schema_ratios")]
)
def test_the_page_has_a_place_for_each_table(name: str, script: str) -> None:
    page = (ROOT / "benchmarks" / "json_schema.md").read_text(encoding="utf-8")
    assert f"<!-- {name}: written by benchmarks/{script}.py -->\n" in page
