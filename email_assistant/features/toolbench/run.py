"""A run of the benchmark: queries side by side, each kept as soon as it is answered, so that a stop loses nothing."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import Progress

from email_assistant.features.toolbench.agent import BaseAgent, LangGraphAgent
from email_assistant.features.toolbench.apis import plain_name
from email_assistant.features.toolbench.scores import Played, markdown, mean, scored
from email_assistant.features.toolbench.tools import BenchQuery, read_queries

_LINE: Final = TypeAdapter(tuple[str, str, Played])  # a query's id and text, and what came of it


def run_benchmark(
    agent: BaseAgent,
    test_set: str | Path,
    max_queries: int | None = None,
    agent_name: str = "agent",
    *,
    results_dir: str | Path = "toolbench-results",
    parallel: int = 4,
    judge: LangGraphAgent | None = None,
) -> dict[str, Any]:
    """Have an agent answer the queries of a test set, and say how well it did (`scored`).

    What is answered is kept in `results_dir` under the agent's name, and not asked again by the next run of that name;
    what ended for a reason that may pass is. There, too, are the scores, and the answers in the scorer's form. Raises
    BenchError: there are no such queries."""
    queries, name, called = read_queries(test_set)[:max_queries], plain_name(agent_name, ()), Path(test_set).stem
    folder = Path(results_dir) / name
    journal = _Journal(folder / f"{called}.jsonl", queries)
    for_scorer_file = folder.parent / "model_predictions_converted" / name / f"{called}.json"
    for_scorer_file.parent.mkdir(parents=True, exist_ok=True)  # what can't be written shows before the work
    _play_all(agent, [query for query in queries if query.id not in journal.played], journal, parallel)
    played = [(query, journal.played[query.id]) for query in queries]
    with ThreadPoolExecutor(parallel) as pool:
        verdicts = list(pool.map(lambda each: judge.judge(*each), played)) if judge else []
    recall = [share for query in queries if (share := agent.recall(query)) is not None]
    scores = {"agent": agent_name, "test_set": called, **scored(played, recall)}
    scores |= {"judge": judge.model if judge else None, "solved_rate": mean(verdicts)}
    answers = {query.id: each.answer() for query, each in played}
    _write(folder / f"{called}.json", {"scores": scores, "answers": answers})
    (folder / f"{called}.md").write_text(markdown(scores), "utf-8")
    for_scorer = {query.id: each.converted(query.text, name) for query, each in played}
    _write(for_scorer_file, for_scorer)
    return scores


def _play_all(agent: BaseAgent, queries: Sequence[BenchQuery], journal: "_Journal", parallel: int) -> None:
    with Progress(console=Console(stderr=True)) as bar, ThreadPoolExecutor(parallel) as pool:
        task = bar.add_task("queries", total=len(queries))
        try:
            for done in as_completed([pool.submit(_play, agent, query, journal) for query in queries]):
                done.result()
                bar.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those under way are waited for, and kept
            raise


def _play(agent: BaseAgent, query: BenchQuery, journal: "_Journal") -> None:
    try:
        played = agent.play(query)
    except Exception as error:  # whatever agent it is, the other queries go on
        problem = f"{type(error).__name__}: {error}"
        played = Played(problem, error=problem, crashed=True, passes=True, is_watched=False)
    journal.add(query, played)


class _Journal:
    """The queries that were answered, a line for each in a file; the last one may be torn."""

    def __init__(self, path: Path, queries: Sequence[BenchQuery]) -> None:
        self._path = path
        self._lock = Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = {query.id: query.text for query in queries}
        lines = [line for line in self._lines() if not line[2].passes]
        self.played = {id_: played for id_, text, played in lines if asked.get(id_) == text}
        new = path.with_suffix(".new")
        new.write_bytes(b"".join(_LINE.dump_json(line) + b"\n" for line in lines))
        new.replace(path)

    def add(self, query: BenchQuery, played: Played) -> None:
        with self._lock, self._path.open("ab") as file:
            file.write(_LINE.dump_json((query.id, query.text, played)) + b"\n")
            self.played[query.id] = played

    def _lines(self) -> Iterator[tuple[str, str, Played]]:
        for line in self._path.read_bytes().splitlines() if self._path.is_file() else ():
            with suppress(ValueError):  # torn
                yield _LINE.validate_json(line)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), "utf-8")
