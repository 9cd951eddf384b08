"""A run of the benchmark: queries side by side, each kept as soon as it is answered, so that a stop loses nothing."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import Progress

from email_assistant.bench.toolbench.agent import BaseAgent, LangGraphAgent
from email_assistant.bench.toolbench.answers import Played, converted
from email_assistant.bench.toolbench.apis import plain_name
from email_assistant.bench.toolbench.queries import BenchQuery, read_queries
from email_assistant.bench.toolbench.report import Scores, markdown, mean, report

RESULTS_DIR: Final = Path("toolbench-results")
PARALLEL: Final = 4


def run_benchmark(
    agent: BaseAgent,
    test_set: str | Path,
    max_queries: int | None = None,
    agent_name: str = "agent",
    *,
    results_dir: str | Path = RESULTS_DIR,
    parallel: int = PARALLEL,
    judge: LangGraphAgent | None = None,
) -> dict[str, Any]:
    """Have an agent answer the queries of a test set, and say how well it did (`Scores`).

    What is answered is kept in `results_dir` under the agent's name, and not asked again by the next run of that name;
    what ended for a reason that may pass is. There, too, are the report, and the answers in the scorer's form.

    Raises:
        BenchError: there are no such queries.
    """
    queries, name = read_queries(test_set)[:max_queries], plain_name(agent_name, ())
    folder, called = Path(results_dir), Path(test_set).stem
    kept = _Journal(folder / name / f"{called}.jsonl", queries)
    _play_all(agent, [query for query in queries if query.id not in kept.played], kept, parallel)
    played = [(query, kept.played[query.id]) for query in queries]
    with ThreadPoolExecutor(parallel) as pool:
        verdicts = list(pool.map(lambda each: judge.judge(*each), played)) if judge else []
    found = [share for query in queries if (share := agent.recall(query)) is not None]
    made = report(agent_name, called, played, mean(found), judge.model if judge else None, verdicts)
    _write(folder, name, called, played, made)
    return made.json()


def _play_all(agent: BaseAgent, queries: Sequence[BenchQuery], kept: "_Journal", parallel: int) -> None:
    with Progress(console=Console(stderr=True)) as bar, ThreadPoolExecutor(parallel) as pool:
        task = bar.add_task("queries", total=len(queries))
        try:
            for done in as_completed(
                [pool.submit(lambda query: kept.add(query, _play(agent, query)), q) for q in queries]
            ):
                done.result()
                bar.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those under way are waited for, and kept
            raise


def _play(agent: BaseAgent, query: BenchQuery) -> Played:
    try:
        return agent.play(query)
    except Exception as error:  # whatever agent it is, the other queries go on
        problem = f"{type(error).__name__}: {error}"
        return Played(problem, error=problem, crashed=True, passes=True, is_watched=False)


@dataclass(frozen=True, slots=True)
class _Line:
    id: str
    query: str
    played: Played


_LINE: Final = TypeAdapter(_Line)


class _Journal:
    """The queries that are answered, a line for each in a file; the last one may be torn."""

    def __init__(self, path: Path, queries: Sequence[BenchQuery]) -> None:
        self._path = path
        self._lock = Lock()
        self.played: dict[str, Played] = {}
        asked = {query.id: query.text for query in queries}
        lines = [line for line in self._lines() if not line.played.passes]
        self.played = {line.id: line.played for line in lines if asked.get(line.id) == line.query}
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, "".join(f"{_LINE.dump_json(line).decode()}\n" for line in lines))

    def add(self, query: BenchQuery, played: Played) -> None:
        line = _LINE.dump_json(_Line(query.id, query.text, played)).decode()
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            self.played[query.id] = played

    def _lines(self) -> list[_Line]:
        lines = []
        for text in self._path.read_bytes().splitlines() if self._path.is_file() else ():
            try:
                lines.append(_LINE.validate_json(text))
            except ValueError:  # torn
                continue
        return lines


def _write(folder: Path, name: str, called: str, played: Sequence[tuple[BenchQuery, Played]], made: Scores) -> None:
    for_scorer = {query.id: converted(query.text, each, name) for query, each in played}
    answers = {query.id: each.answer() for query, each in played}
    _replace(folder / name / f"{called}.json", _json({"report": made.json(), "answers": answers}))
    _replace(folder / name / f"{called}.md", markdown([made]))
    _replace(folder / "model_predictions_converted" / name / f"{called}.json", _json(for_scorer))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f"{path.suffix}.new")
    new.write_text(text, "utf-8", "surrogatepass")
    new.replace(path)
