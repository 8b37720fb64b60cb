#!/usr/bin/env python3
"""Check the honesty law and random walks on every schema of both data sets (hours; the tests check a sample).

    python benchmarks/json_schema_survey.py                              # all, 20 walks per schema
    python benchmarks/json_schema_survey.py --data suite --walks 2 --limit 200 --jobs 2
    python benchmarks/json_schema_survey.py --log build/survey.jsonl     # continues where that file ends
    python benchmarks/json_schema_survey.py --walks 0 --page benchmarks/doubtful_labels.md  # the labels, into that page

Every instance of the data is checked by `tests.judges.schema_laws.honest`, and ``--walks`` random answers are generated
from every schema.  An answer that the validators find invalid is a breach unless each of its violations has a
``relaxed`` row at the place of one of the keywords that cause it.  Walks that ended, breaches, doubtful labels (no
validator agrees) and answers (the validators differ), refusals, and schemas that took longer than ``--seconds`` are
printed by name.  The exit code is 1 if there is a breach; refusing a schema as impossible although an instance is valid
is one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import table, write_page  # noqa: E402
from special_tokens.errors import GuidedError  # noqa: E402
from tests.guided.validation.validators import judge  # noqa: E402
from tests.judges.schema_causes import unexcused  # noqa: E402
from tests.judges.schema_laws import byte_judge, honest, walk  # noqa: E402
from tests.judges.schema_masks import Compiled, Judge  # noqa: E402
from tests.judges.schema_scorer import scorer_module  # noqa: E402


class OutOfTime(Exception):
    """A schema exceeded its time limit."""


class Surveyor:
    """Checks schemas in one process with its own engines."""

    def __init__(self, walks: int, seconds: int) -> None:
        self.scorer = scorer_module()
        self.documents = self.scorer.load_remotes(self.scorer.DATA / "json-schema-test-suite.tar.xz")
        self.judge = Judge(self.scorer.load_tokenizer(None), self.documents)
        self.by_bytes = byte_judge(self.documents)
        self.walks = walks
        self.seconds = seconds

    def look_at(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return ``{"name", "found": [[kind, detail]], "walks", "ended"}``."""
        out: dict[str, Any] = {"name": record["name"], "found": [], "tests": 0, "walks": 0, "ended": 0}
        signal.signal(signal.SIGPROF, _interrupt)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)  # processor time: the findings do not depend on the load
        try:
            compiled = self.judge.compiled(record["schema"])
            out["found"] += self._dishonest(compiled, record, out)
            out["found"] += self._walked(compiled, record, out)
        except GuidedError as error:
            wrong = "nsatisfiable" in str(error) and self._is_satisfied(record)
            out["found"].append(["refused satisfiable" if wrong else "refused", str(error)[:300]])
        except OutOfTime:
            out["found"].append(["time", f"more than {self.seconds} s"])
        except Exception as error:  # the survey continues, and the row names the error
            out["found"].append(["crash", f"{type(error).__name__}: {error}"[:300]])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return out

    def _is_satisfied(self, record: dict[str, Any]) -> bool:
        """Whether an instance is valid by its label and by both validators."""
        valid = [test["data"] for test in record["tests"] if test["valid"]]
        return any(all(v.is_valid for v in judge(record["schema"], one, documents=self.documents)) for one in valid)

    def _dishonest(self, compiled: Compiled, record: dict[str, Any], out: dict[str, Any]) -> Iterator[list[str]]:
        schema = record["schema"]
        for test in record["tests"]:
            same_numbers = test["valid"] or not self.scorer.is_draft4(schema)
            texts = self.scorer.texts(test["data"], schema, same_numbers)
            out["tests"] += 1
            if any(compiled.accepts(text) for text in texts) != test["valid"]:
                by_bytes = self.by_bytes.compiled(schema)
                for breach in honest(compiled, by_bytes, schema, test, texts, self.documents):
                    yield [breach.kind, breach.detail]

    def _walked(self, compiled: Compiled, record: dict[str, Any], out: dict[str, Any]) -> Iterator[list[str]]:
        schema, relaxed = record["schema"], compiled.plan.schema_report.relaxed
        rng = random.Random(record["name"])
        for _ in range(self.walks):
            one = walk(compiled, schema, rng, documents=self.documents)
            out["walks"] += 1
            out["ended"] += one.ended
            if not one.ended and one.faults:
                yield ["row ended", one.faults[0][:300]]
            if not one.ended or not one.faults:
                continue
            with suppress(ValueError):  # invalid JSON: no row excuses it
                if not unexcused(schema, json.loads(one.text), self.documents, relaxed):
                    continue
            kind = "walk doubtful" if one.doubtful else "walk"
            yield [kind, f"{one.faults[:2]}: {one.text[:300]}"]


def _interrupt(*_: Any) -> None:
    raise OutOfTime


_surveyor: list[Surveyor] = []


def _begin(walks: int, seconds: int) -> None:
    _surveyor[:] = [Surveyor(walks, seconds)]


def _look_at(record: dict[str, Any]) -> dict[str, Any]:
    return _surveyor[0].look_at(record)


#: Kinds of findings that give exit code 1.
BREACHES = ("accepted", "refused valid", "refused satisfiable", "order", "walk", "crash")


def records_of(data: str, limit: int | None) -> list[dict[str, Any]]:
    """Return the schemas of a data set with their instances: at most ``limit``, evenly spaced."""
    scorer = scorer_module()
    if data == "suite":
        found = scorer.load_suite(scorer.DATA / "json-schema-test-suite.tar.xz", list(scorer.DRAFTS))
    else:
        found = scorer.load_bench(scorer.DATA / "jsonschemabench.tar.xz")
    if limit is not None and limit < len(found):
        found = [found[i * len(found) // limit] for i in range(limit)]
    return list(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("suite", "bench"), help="only this data set")
    parser.add_argument("--limit", type=int, help="at most this many schemas of each")
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=120, help="at most this much processor time on one schema")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", type=Path, help="write the doubtful labels into this page")
    parser.add_argument("--log", type=Path, help="a line for each schema; those that are in it are not looked at again")
    options = parser.parse_args()
    lines = options.log.read_text().splitlines() if options.log is not None and options.log.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    seen = {row["name"] for row in rows}
    todo = [
        record
        for data in ([options.data] if options.data else ["suite", "bench"])
        for record in records_of(data, options.limit)
        if record["name"] not in seen
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, _begin, (options.walks, options.seconds)) as pool:
        for row in pool.imap_unordered(_look_at, todo):
            rows.append(row)
            if options.log is not None:
                with options.log.open("a") as log:
                    log.write(json.dumps(row) + "\n")
    if options.page is not None:
        write_page(options.page, "labels", "benchmarks/json_schema_survey.py", doubtful_labels(rows))
    return summarise(rows)


def doubtful_labels(rows: list[dict[str, Any]]) -> str:
    """Return the table of labels that no validator agrees with, by the name of their schema."""
    found = [(row["name"], detail) for row in rows for kind, detail in row["found"] if kind == "doubtful"]
    lines = [(f"`{name}`", detail.replace("|", "\\|").replace("\n", " ")) for name, detail in sorted(found)]
    return table(("schema", "label, and what the validators say"), lines)


def summarise(rows: list[dict[str, Any]]) -> int:
    """Print the findings and return the exit code."""
    kinds: Counter[str] = Counter()
    for row in rows:
        for kind, detail in row["found"]:
            kinds[kind] += 1
            if kind != "refused":
                print(f"{row['name']}: {kind}: {detail}")
    walks, ended = sum(row["walks"] for row in rows), sum(row["ended"] for row in rows)
    print(f"{len(rows)} schemas, {sum(row['tests'] for row in rows)} instances, {walks} walks, {ended} of them ended")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "nothing found")
    return int(any(kinds[kind] for kind in BREACHES))


if __name__ == "__main__":
    raise SystemExit(main())
