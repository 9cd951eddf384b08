"""The OpenAPI document and the served API keep to each other: every operation, with data that fits and that doesn't."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import jsonschema_rs
import psycopg
import pytest
import requests
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

from email_assistant.app import open_app
from email_assistant.settings import Settings
from email_assistant.web.routers import examples
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.test_api import ADA, TOKEN, Home, served

EXAMPLES = 12
SECONDS = 15
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SECRET_KEY = "6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="
PROFILE = "response_preferences"
ENDLESS = ("/api/events", "/events")
CHAT = ("/run", "/resume")
"""Operations that answer in a form of their own."""
REPLY = {"status", "response", "thread_id", "pending_action", "url", "message"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
PLAN = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

Document = dict[str, Any]


@dataclass
class World:
    """A served API, and things of every kind to name to it."""

    portal: BlockingPortal
    home: Home
    account: UUID
    root: str
    http: requests.Session
    _chats: "count[int]" = field(default_factory=count)
    answered: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By operation, the statuses that were seen."""

    def item(self, status: str = "pending") -> str:
        item = self.portal.call(self.home.draft, self.account)
        if status == "decided":
            self.http.post(f"{self.root}/api/inbox/{item.id}/decision", json={"type": "accept"}).raise_for_status()
        return str(item.id)

    def mail(self, state: str) -> str:
        async def make() -> str:
            mail, _, run = await self.home.mail(self.account, state=state)
            await self.home.execute("update runs set state = 'failed' where id = %s", run)
            return mail

        return self.portal.call(make)

    def thread(self) -> str:
        """A thread that waits, and that this client was shown."""
        item = self.http.get(f"{self.root}/api/inbox/{self.item()}").json()
        self.http.get(f"{self.root}/threads/{item['run']}").raise_for_status()
        return str(item["run"])

    def chat(self) -> tuple[str, str]:
        """A chat that waits for the person to confirm a call: its id, and the call's."""
        body = {"thread_id": f"chat {next(self._chats)}", "user_request": "plan"}
        reply = self.http.post(f"{self.root}/run", json=body).json()
        assert reply["pending_action"], reply
        [call] = reply["pending_action"]["tool_calls"]
        return body["thread_id"], call["call_id"]

    def rule(self) -> str:
        """A rule that has a history."""
        rules = f"{self.root}/api/memory/rules"
        of = {"account": ADA}
        rule = self.http.post(rules, params=of, json={"profile": PROFILE, "text": "Be brief."}).json()["id"]
        self.http.put(f"{rules}/{PROFILE}/{rule}", params=of, json={"text": "Be kind."}).raise_for_status()
        return str(rule)

    def lesson(self) -> str:
        """A change to a rule, as if it had been learned."""
        lesson = uuid4()
        self.portal.call(
            self.home.execute,
            """insert into lessons (id, user_id, account_id, profile, rule, version, text, removed)
               select %s, user_id, id, %s, %s, 2, 'Be kind.', false from accounts where address = %s""",
            *(lesson, PROFILE, self.rule(), ADA),
        )
        return str(lesson)

    def held_lesson(self) -> str:
        """What would be learned, and waits for the person."""
        lesson, rule = uuid4(), uuid4()
        self.portal.call(
            self.home.execute,
            """insert into lessons_to_confirm (id, user_id, account_id, profile, source, change, origin, broken)
               select %s, user_id, id, %s, %s, jsonb_build_object('key', %s::text, 'text', 'Be kind.',
                      'removed', false, 'version', 0), '{"did": "You said so."}', '[]'
               from accounts where address = %s""",
            *(lesson, PROFILE, str(lesson), str(rule), ADA),
        )
        return str(lesson)

    def changed_tool(self) -> str:
        """A tool that has changed, with the hash of the document's example."""
        self.portal.call(
            self.home.execute,
            """insert into mcp_tools (user_id, server, tool, hash, description, schema)
               select id, 'calendar', 'create_event', '', '', '{}' from users on conflict do nothing""",
        )
        new = examples()["AcceptTool"]["hash"]
        self.portal.call(
            self.home.execute,
            "update mcp_tools set new_hash = %s, new_description = '', new_schema = '{}', changed_at = now()",
            new,
        )
        return "create_event"

    def held(self, session: str, waits: float) -> str:
        """A call of somebody else's agent that waits for the person so many seconds; its id."""
        begun = {"session_id": session, "name": "book_room", "timeout_s": waits, "agent_name": session}
        asked = {"json": begun, "headers": BEARER}
        Thread(target=requests.post, args=(f"{self.root}/agent/begin",), kwargs=asked).start()
        waiting = {"status": "pending", "sort": "newest"}
        while True:
            for item in self.http.get(f"{self.root}/api/inbox", params=waiting).json()["items"]:
                if item["sender"] == session:
                    return str(item["call_id"])

    def name_real_things(self, case: Any) -> None:
        """Put what there is in the place of what was made up."""
        path, method = case.operation.path, case.operation.method
        if "{item_id}" in path:
            case.path_parameters["item_id"] = self.item("decided" if path.endswith("/undo") else "pending")
        if "{mail_id}" in path:
            case.path_parameters["mail_id"] = self.mail("failed" if path.endswith("/retry") else "done")
        if "{thread_id}" in path:
            case.path_parameters["thread_id"] = self.thread()
        if "{chat_id}" in path:
            case.path_parameters["chat_id"], _ = self.chat()
        if "{rule_id}" in path:
            case.path_parameters |= {"profile": PROFILE, "rule_id": self.rule()}
        if "{lesson_id}" in path:
            case.path_parameters["lesson_id"] = self.lesson()
        if "{held_id}" in path:
            case.path_parameters["held_id"] = self.held_lesson()
        if "{name}" in path:
            case.path_parameters["name"] = self.changed_tool()
        if any(parameter.name == "account" for parameter in case.operation.query):
            case.query = {**(case.query or {}), "account": ADA}
        if path in ("/agent/end", "/api/approve_or_deny") and isinstance(case.body, dict):
            session = str(uuid4())
            case.body |= {"session_id": session, "call_id": self.held(session, waits=2)}
        if method.upper() == "DELETE":
            case.query.pop("version", None)

    def call(self, case: Any) -> None:
        if case.operation.path == "/agent/begin" and isinstance(case.body, dict):
            waits = case.body.get("timeout_s")
            case.body |= {"timeout_s": 0.1} if waits is None or (isinstance(waits, float | int) and waits > 0.1) else {}
        answer = case.call(self.root, session=self.http, headers=BEARER, timeout=SECONDS)
        self.answered[case.operation.label].add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            is_refusal(case.operation.path, answer.status_code, answer.headers["content-type"][0], answer.content)


def is_problem(status: int, media_type: str, body: bytes) -> None:
    """RFC 9457, with every member that we promise."""
    assert media_type == "application/problem+json"
    problem = json.loads(body)
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == status
    assert all(isinstance(problem[name], str) and problem[name] for name in ("type", "title", "detail"))


def is_refusal(path: str, status: int, media_type: str, body: bytes) -> None:
    if path not in CHAT:
        is_problem(status, media_type, body)
    elif status != 422:  # which is FastAPI's own
        reply = json.loads(body)
        assert set(reply) == REPLY
        assert (reply["status"], bool(reply["message"])) == ("error", True)


@pytest.fixture(scope="module")
def world(postgres_url: str, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    name = f"openapi_{worker_id}"
    folder: Path = tmp_path_factory.mktemp("home")
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'create database "{name}"')
    url = postgres_url.replace("/postgres?", f"/{name}?", 1)
    with ExitStack() as stack:
        google, model = stack.enter_context(Google(ADA)), stack.enter_context(Model())
        model.on_policy("calendar")
        plan = [tool("create_event", title="Lunch", start="2031-06-02T12:00:00", end="2031-06-02T13:00:00")]
        model.on_chat(defaultdict(lambda: ["I see."], {"plan": [plan, "Done."]}))
        chosen = Settings(
            home=folder,
            secret_key=SecretStr(SECRET_KEY),
            undo_seconds=60,
            google_root=google.root,
            openai_api_key=SecretStr("model-key"),
            openai_base_url=model.root,
            model="stub-model",
        )
        portal = stack.enter_context(start_blocking_portal())
        app = stack.enter_context(portal.wrap_async_context_manager(open_app(chosen, url)))
        root = stack.enter_context(portal.wrap_async_context_manager(served(app)))
        http = stack.enter_context(requests.Session())
        http.trust_env = False
        http.headers.update(BEARER)
        home = Home(app)
        yield World(portal, home, portal.call(home.account), root, http)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'drop database "{name}" with (force)')


@pytest.fixture(scope="module")
def document(world: World) -> Document:
    found = world.http.get(f"{world.root}/openapi.json").json()
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def operations(document: Document) -> list[Any]:
    # The credentials are ours to send: ten wrong ones, and nobody is let in for a minute.
    config = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
    schema = schemathesis.openapi.from_dict(document, config=config)
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(found) == sum(len(methods) for methods in document["paths"].values())
    return [operation for operation in found if operation.path not in ENDLESS]


def described(document: Document) -> Iterator[tuple[str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.mark.long
@pytest.mark.parametrize("mode", GenerationMode)
def test_every_answer_is_one_that_the_document_speaks_of(
    world: World, operations: list[Any], mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for operation in operations:
        # Any text can stand in a path.
        if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue
        with subtests.test(operation.label):
            fuzz(world, operation, mode)


def fuzz(world: World, operation: Any, mode: GenerationMode) -> None:
    @PLAN
    @given(case=operation.as_strategy(mode), is_real=st.booleans())
    def answers(case: Any, is_real: bool) -> None:
        if is_real:
            world.name_real_things(case)
        world.call(case)

    answers()


def test_what_the_document_gives_as_an_example_is_taken(
    world: World, operations: list[Any], document: Document, subtests: pytest.Subtests
) -> None:
    """Each operation succeeds, with its own example, on things that there are."""
    for operation in operations:
        with subtests.test(operation.label):
            succeed(world, operation, document)


def succeed(world: World, operation: Any, document: Document) -> None:
    body = document["paths"][operation.path][operation.method]
    example = example_of(document, body.get("requestBody", {}).get("content", {}))
    case = operation.Case(path_parameters={}, query={}, **({"body": example} if example is not None else {}))
    world.name_real_things(case)
    match operation.path:
        case "/api/inbox/decisions":
            item = world.item()
            case.body["items"] = [{"id": item, "hash": world.http.get(f"{world.root}/api/inbox/{item}").json()["hash"]}]
        case "/resume":
            thread_id, call = world.chat()
            refusal = {"call_id": call, "approved": False, "feedback": "Not now."}
            case.body |= {"thread_id": thread_id, "approvals": [refusal]}
        case "/threads/{thread_id}/runs" | "/threads/{thread_id}/runs/stream":
            shown = world.http.get(f"{world.root}/threads/{case.path_parameters['thread_id']}").json()
            [[interrupt]] = shown["interrupts"].values()
            case.body["command"]["resume"][0]["args"] = interrupt["value"][0]["action_request"]
    world.call(case)
    assert max(world.answered[operation.label] & set(range(200, 300)), default=0), world.answered[operation.label]


def example_of(document: Document, content: Document) -> Any:
    """A JSON body's example; None if there is no JSON body."""
    if "application/json" not in content:
        return None
    schema = content["application/json"]["schema"]
    schema = schema.get("items", schema)
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    assert schema.get("examples"), f"no example of {schema.get('title')}"
    return json.loads(json.dumps(schema["examples"][0]))


def test_every_operation_is_described(document: Document) -> None:
    for label, operation in described(document):
        assert len(operation.get("description", "")) > 40, f"{label} is not described"
        assert operation.get("tags"), label


def test_every_body_has_an_example_that_fits(document: Document) -> None:
    checked = 0
    for label, operation in described(document):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [answer.get("content", {}) for status, answer in operation["responses"].items() if status < "300"]
        for content in filter(None, contents):
            if content.keys() & {"application/vnd.sqlite3", "application/zip", "text/plain"}:
                continue
            if "text/event-stream" in content:
                assert content["text/event-stream"].get("example"), label
                continue
            example = example_of(document, content)
            schema = content["application/json"]["schema"]
            one = schema["items"] if schema.get("type") == "array" else schema
            validator = jsonschema_rs.validator_for({**one, "components": document["components"]})
            assert [str(error) for error in validator.iter_errors(example)] == [], label
            checked += 1
    assert checked > 30


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({**BEARER, "Origin": "https://evil.example"}, 403)])
def test_who_may_not_come_in_is_told_as_documented(
    world: World, document: Document, headers: dict[str, str], status: int
) -> None:
    for label, operation in described(document):
        method, _, path = label.partition(" ")
        if "security" not in operation or (status == 403 and method == "GET"):
            continue
        filled = path.replace("{", "").replace("}", "")
        answer = requests.request(method, world.root + filled, headers=headers, timeout=SECONDS)
        assert answer.status_code == status, label
        assert str(status) in operation["responses"], label
        is_refusal(path, status, answer.headers["content-type"], answer.content)


def test_a_body_that_is_too_large_is_refused_as_documented(world: World, document: Document) -> None:
    for label, operation in described(document):
        if "requestBody" not in operation:
            continue
        method, _, path = label.partition(" ")
        filled = path.replace("{", "").replace("}", "")
        large = b'{"text": "' + b"x" * 2_000_000 + b'"}'
        answer = world.http.request(
            method,
            world.root + filled,
            data=large,
            params={"account": ADA},
            headers={"content-type": "application/json"},
            timeout=SECONDS,
        )
        assert str(answer.status_code) in operation["responses"], (label, answer.status_code)
        is_refusal(path, answer.status_code, answer.headers["content-type"], answer.content)


def test_a_name_that_is_not_this_servers_is_refused_as_a_problem(world: World) -> None:
    answer = world.http.get(f"{world.root}/api/inbox", headers={"Host": "evil.example"}, timeout=SECONDS)
    assert answer.status_code == 400
    assert answer.headers["x-content-type-options"] == "nosniff"
    is_problem(400, answer.headers["content-type"], answer.content)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/nothing", 404), ("PATCH", "/api/inbox", 405), ("GET", "/threads/x", 404)],
)
def test_what_there_is_not_is_refused_as_a_problem(world: World, method: str, path: str, status: int) -> None:
    answer = world.http.request(method, world.root + path, timeout=SECONDS)
    assert answer.status_code == status
    is_problem(status, answer.headers["content-type"], answer.content)
