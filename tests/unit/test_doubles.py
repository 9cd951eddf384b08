"""The doubles do what Google and OpenAI do, as far as the acceptance tests lean on it."""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import Any

import googleapiclient.discovery
import httpx
import openai
import pytest
from google.oauth2.credentials import Credentials
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.doubles.google import Google
from tests.doubles.model import Model, ModelRequest, ToolCall, broken_tool, complain, tool
from tests.doubles.serving import Hold

pytestmark = pytest.mark.sampled

ME = "/gmail/v1/users/me"


@pytest.fixture
def mailbox() -> Iterator[Google]:
    with Google(roots=2) as double:
        yield double


@pytest.fixture
def http(mailbox: Google) -> Iterator[httpx.Client]:
    form = {"grant_type": "refresh_token", **mailbox.login}
    token = httpx.post(f"{mailbox.root}/token", data=form, trust_env=False).json()["access_token"]
    with httpx.Client(
        base_url=mailbox.root, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=10
    ) as client:
        mailbox.requests.clear()
        yield client


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(roots=2) as double:
        yield double


def reply(to: str = "bob@example.org", subject: str = "Re: Lunch", answers: str = "", text: str = "Yes.") -> str:
    mail = EmailMessage()
    mail["To"], mail["Subject"], mail["Message-ID"] = to, subject, "<mine@example.com>"
    if answers:
        mail["In-Reply-To"] = mail["References"] = answers
    mail.set_content(text)
    return base64.urlsafe_b64encode(mail.as_bytes()).decode()


class TestWhatATestDoes:
    def test_mail_that_arrives_is_read_as_it_was_written(self, mailbox: Google, http: httpx.Client) -> None:
        start = http.get(f"{ME}/profile").json()["historyId"]
        mail_id = mailbox.deliver("Bob <bob@example.org>", "Grüße", "Lunch on Friday?", html="<p>Lunch</p>")
        listed = http.get(f"{ME}/messages", params={"q": "newer_than:1d in:inbox is:unread"}).json()
        full = http.get(f"{ME}/messages/{mail_id}").json()
        history = http.get(f"{ME}/history", params={"startHistoryId": start, "historyTypes": "messageAdded"}).json()
        assert [m["id"] for m in listed["messages"]] == [mail_id]
        assert [part["mimeType"] for part in full["payload"]["parts"]] == ["text/plain", "text/html"]
        assert [r["messagesAdded"][0]["message"]["id"] for r in history["history"]] == [mail_id]
        assert (mailbox.message(mail_id).subject, mailbox.message(mail_id).text) == ("Grüße", "Lunch on Friday?")

    def test_an_expired_history_answers_404(self, mailbox: Google, http: httpx.Client) -> None:
        start = http.get(f"{ME}/profile").json()["historyId"]
        mailbox.expire_history()
        now = http.get(f"{ME}/profile").json()["historyId"]
        assert http.get(f"{ME}/history", params={"startHistoryId": start}).status_code == 404
        assert http.get(f"{ME}/history", params={"startHistoryId": now}).status_code == 200

    @pytest.mark.parametrize("ahead", [0, 2**64 - 5000])
    def test_label_changes_and_deletions_are_in_the_history(
        self, mailbox: Google, http: httpx.Client, ahead: int
    ) -> None:
        mailbox.history_ahead = ahead
        mail_id = mailbox.deliver("bob@example.org", "Lunch", "Friday?")
        start = http.get(f"{ME}/profile").json()["historyId"]
        mailbox.person_moves(mail_id, out_of=["UNREAD"])
        mailbox.person_relabels(mail_id, add=["Friends"])
        mailbox.person_deletes(mail_id)
        records = http.get(f"{ME}/history", params={"startHistoryId": start}).json()["history"]
        assert [sorted(record.keys() - {"id", "messages"}) for record in records] == [
            ["labelsRemoved"],
            ["labelsAdded"],
            ["messagesDeleted"],
        ]
        assert [int(record["id"]) - int(start) for record in records] == [1, 2, 3]

    def test_what_is_sent_over_the_api_is_told_from_what_the_person_sends(
        self, mailbox: Google, http: httpx.Client
    ) -> None:
        mail_id = mailbox.deliver("bob@example.org", "Lunch", "Friday?")
        body = {"message": {"raw": reply(answers=mailbox.message(mail_id).message_id), "threadId": mail_id}}
        draft = http.post(f"{ME}/drafts", json=body).json()
        assert [m.text for m in mailbox.drafts] == ["Yes."]
        http.post(f"{ME}/drafts/send", json={"id": draft["id"]})
        by_hand = mailbox.message(mailbox.person_sends(mail_id, "Done already."))
        [sent] = mailbox.sent
        assert (sent.text, sent.thread_id, sent.labels, mailbox.drafts) == ("Yes.", mail_id, {"SENT"}, [])
        assert (by_hand.thread_id, by_hand.labels) == (mail_id, {"SENT"})

    def test_googles_own_client_works_against_it(self, mailbox: Google) -> None:
        mail_id = mailbox.deliver("bob@example.org", "Lunch", "Friday?")
        login = Credentials(None, **mailbox.login, token_uri=f"{mailbox.root}/token")  # type: ignore[no-untyped-call]
        options = {"api_endpoint": mailbox.root}
        gmail = googleapiclient.discovery.build("gmail", "v1", credentials=login, client_options=options)
        message = gmail.users().messages().get(userId="me", id=mail_id).execute()
        assert message["snippet"] == "Friday?"

    def test_an_access_token_that_expired_is_refused_until_it_is_refreshed(
        self, mailbox: Google, http: httpx.Client
    ) -> None:
        mailbox.expire_access_tokens()
        assert http.get(f"{ME}/profile").status_code == 401

    def test_a_revoked_login_is_an_invalid_grant(self, mailbox: Google) -> None:
        form = {"grant_type": "refresh_token", **mailbox.login}
        mailbox.revoke()
        refused = httpx.post(f"{mailbox.root}/token", data=form, trust_env=False)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

    def test_a_path_it_does_not_know_is_recorded(self, mailbox: Google, http: httpx.Client) -> None:
        assert http.post("/batch/gmail/v1").status_code == 404
        assert [call.path for call in mailbox.calls("unknown")] == ["/batch/gmail/v1"]


class TestFaults:
    def test_a_status_comes_once_and_nothing_is_done(self, mailbox: Google, http: httpx.Client) -> None:
        mailbox.fault("messages.send", status=429, reason="rateLimitExceeded", retry_after=7)
        refused = http.post(f"{ME}/messages/send", json={"raw": reply()})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "7")
        assert refused.json()["error"]["errors"][0]["reason"] == "rateLimitExceeded"
        assert mailbox.sent == []
        assert http.post(f"{ME}/messages/send", json={"raw": reply()}).status_code == 200

    @pytest.mark.parametrize(("moment", "sent"), [("before", 0), ("after", 1)])
    def test_a_dropped_connection_loses_the_request_or_its_answer(
        self, mailbox: Google, http: httpx.Client, moment: Any, sent: int
    ) -> None:
        mailbox.fault("messages.send", drop=moment)
        with pytest.raises(httpx.TransportError):
            http.post(f"{ME}/messages/send", json={"raw": reply()})
        assert len(mailbox.sent) == sent

    @pytest.mark.parametrize(("moment", "sent"), [("before", 0), ("after", 1)])
    def test_a_held_request_waits_and_tells_who_asked(
        self, mailbox: Google, http: httpx.Client, moment: Any, sent: int
    ) -> None:
        hold = Hold()
        mailbox.fault("messages.send", hold=hold, at=moment)
        with ThreadPoolExecutor() as pool:
            url = f"{mailbox.roots[1]}{ME}/messages/send"
            answer = pool.submit(http.post, url, json={"raw": reply()})
            assert hold.reached() == mailbox.roots[1]
            assert len(mailbox.sent) == sent
            hold.release()
            assert answer.result().status_code == 200
        assert len(mailbox.sent) == 1

    def test_an_abandoned_request_is_never_done(self, mailbox: Google, http: httpx.Client) -> None:
        hold = Hold()
        mailbox.fault("messages.send", hold=hold)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(http.post, f"{ME}/messages/send", json={"raw": reply()})
            hold.reached()
            hold.abandon()
            assert isinstance(answer.exception(), httpx.TransportError)
        assert mailbox.sent == []

    def test_a_truncated_answer_follows_a_done_request(self, mailbox: Google, http: httpx.Client) -> None:
        mailbox.fault("messages.send", truncated=True)
        answer = http.post(f"{ME}/messages/send", json={"raw": reply()})
        with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
            answer.json()
        assert len(mailbox.sent) == 1

    def test_a_proxy_answers_in_html(self, mailbox: Google, http: httpx.Client) -> None:
        mailbox.fault("*", html502=True)
        answer = http.get(f"{ME}/profile")
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (502, "text/html")

    def test_a_fault_can_be_for_one_root_alone(self, mailbox: Google, http: httpx.Client) -> None:
        mailbox.fault("getProfile", status=500, root=mailbox.roots[1])
        assert http.get(f"{ME}/profile").status_code == 200
        assert http.get(f"{mailbox.roots[1]}{ME}/profile").status_code == 500


PROMPT = 'Answer this.\n<mail id="m1">\nFrom: Bob <bob@example.org>\nSubject: Lunch\n\nFriday?\nBob\n</mail>'

SEND = {
    "type": "function",
    "function": {
        "name": "send_email_tool",
        "parameters": {"type": "object", "properties": {"response_text": {"type": "string"}}},
    },
}


def triage_format(name: str = "triage") -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": {"type": "object"}}}


class TestModel:
    @pytest.fixture
    def client(self, model: Model) -> openai.OpenAI:
        return openai.OpenAI(base_url=model.root, api_key="key", max_retries=0)

    @pytest.fixture
    def chat(self, model: Model) -> ChatOpenAI:
        return ChatOpenAI(base_url=model.root, api_key=SecretStr("key"), model="stub-model", max_retries=0)

    def test_triage_is_answered_by_subject(self, model: Model, chat: ChatOpenAI) -> None:
        model.on_triage({"Lunch": "respond"})
        answer = chat.bind(response_format=triage_format()).invoke(PROMPT)
        assert '"classification": "respond"' in str(answer.content)
        [request] = model.calls("triage")
        assert (request.mail.id, request.mail.subject, request.mail.text) == ("m1", "Lunch", "Friday?\nBob")

    def test_the_response_script_runs_in_order(self, model: Model, chat: ChatOpenAI) -> None:
        model.script([[tool("send_email_tool", response_text="Yes.", unknown=1)], "Done."])
        bound = chat.bind_tools([SEND], tool_choice="any")
        first = bound.invoke(PROMPT)
        assert isinstance(first, AIMessage)
        assert [(call["name"], call["args"]) for call in first.tool_calls] == [
            ("send_email_tool", {"response_text": "Yes."})
        ]
        answered = ToolMessage("Sent.", tool_call_id=first.tool_calls[0]["id"])
        assert bound.invoke([HumanMessage(PROMPT), first, answered]).content == "Done."
        last = model.calls("response")[-1]
        assert last.tool_calls == [("send_email_tool", {"response_text": "Yes."})]
        assert last.tool_results == ["Sent."]
        assert model.violations == []

    def test_the_script_may_be_a_function_of_the_request(self, model: Model, chat: ChatOpenAI) -> None:
        def answer(request: ModelRequest) -> str:
            return f"about {request.mail.subject}"

        model.script(answer)
        assert chat.bind_tools([SEND]).invoke(PROMPT).content == "about Lunch"

    def test_memory_requests_add_one_rule(self, model: Model, chat: ChatOpenAI) -> None:
        answer = chat.bind(response_format=triage_format("rule_change")).invoke("They changed the draft.")
        assert '"action": "add"' in str(answer.content)
        assert len(model.calls("memory")) == 1

    def test_broken_arguments_and_fixed_ids_pass_as_scripted(self, model: Model, chat: ChatOpenAI) -> None:
        model.script([[broken_tool("send_email_tool", "{not json"), ToolCall("Done", {}, id="call_0")]])
        answer = chat.bind_tools([SEND]).invoke(PROMPT)
        assert isinstance(answer, AIMessage)
        assert answer.invalid_tool_calls[0]["args"] == "{not json"
        assert answer.tool_calls[0]["id"] == "call_0"

    def test_usage_is_counted(self, model: Model, client: openai.OpenAI) -> None:
        model.on_triage("ignore")
        answer = client.chat.completions.create(
            model="stub-model",
            messages=[{"role": "user", "content": PROMPT}],
            response_format=triage_format(),  # type: ignore[call-overload]
        )
        assert answer.usage.prompt_tokens == model.requests[0].prompt_tokens > len(PROMPT) // 8

    def test_a_tool_call_without_its_tool_message_is_refused(self, model: Model, chat: ChatOpenAI) -> None:
        model.script([[tool("send_email_tool", response_text="Yes.")]])
        bound = chat.bind_tools([SEND])
        first = bound.invoke(PROMPT)
        with pytest.raises(openai.BadRequestError, match="no tool message"):
            bound.invoke([HumanMessage(PROMPT), first, HumanMessage("And?")])
        assert len(model.violations) == 1

    def test_a_request_without_a_script_is_refused(self, model: Model, chat: ChatOpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="nothing was scripted"):
            chat.bind_tools([SEND]).invoke(PROMPT)
        assert len(model.violations) == 1

    def test_a_status_can_be_injected(self, model: Model, client: openai.OpenAI) -> None:
        model.fault(status=429, retry_after=3)
        with pytest.raises(openai.RateLimitError) as limited:
            client.chat.completions.create(model="stub-model", messages=[{"role": "user", "content": "Hello"}])
        assert limited.value.response.headers["Retry-After"] == "3"

    def test_nonsense_fits_no_schema(self, model: Model, chat: ChatOpenAI) -> None:
        model.fault("triage", nonsense=True)
        assert chat.bind(response_format=triage_format()).invoke(PROMPT).content == '{"weather": "sunny"}'

    def test_a_held_request_waits_and_tells_who_asked(self, model: Model) -> None:
        model.on_triage("ignore")
        hold = Hold()
        model.fault("triage", hold=hold)
        chat = ChatOpenAI(base_url=model.roots[1], api_key=SecretStr("key"), model="stub-model", max_retries=0)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(chat.bind(response_format=triage_format()).invoke, PROMPT)
            assert hold.reached() == model.roots[1]
            assert not answer.done()
            hold.release()
            assert "ignore" in str(answer.result().content)


def calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": i} for i in ids]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([calls("a", "b"), result("b"), result("a"), {"role": "user"}], None),
        ([calls("a"), result("a"), calls("a"), result("a")], None),
        ([calls("a", "b"), result("a"), {"role": "user"}], "have no tool message"),
        ([calls("a")], "have no tool message"),
        ([calls("a"), result("a"), result("a")], "no preceding tool call"),
        ([result("a")], "no preceding tool call"),
        ([calls("a", "a"), result("a")], "repeat"),
        ([calls("a" * 41), result("a" * 41)], "longer than 40"),
    ],
)
def test_every_tool_call_needs_exactly_one_tool_message(messages: Any, complaint: str | None) -> None:
    found = complain(messages)
    assert found is None if complaint is None else complaint in str(found)
