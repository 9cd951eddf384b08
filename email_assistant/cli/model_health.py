"""What `doctor` says of the models and of tracing."""

import json
from typing import TYPE_CHECKING, Any, get_args

from email_assistant.cli.context import NO_MODEL

if TYPE_CHECKING:
    import httpx

    from email_assistant.db.model_servers import ModelServers
    from email_assistant.settings import Settings

Check = tuple[str, str | None, str]  # (what was checked, what is wrong with it, or what is right)

_SMALL_CONTEXT = 8192  # tokens below which mail of ordinary length is cut


async def check_models(settings: "Settings", servers: "ModelServers") -> list[Check]:
    """Every model is asked for a word, since only an answer shows that name, key and quota are right; then for more.
    What waited for it goes on with that."""
    from email_assistant.settings import AccountRole

    if settings.openai_api_key is None and settings.openai_base_url is None:
        return [("model", f"none {NO_MODEL}", "")]
    models = sorted({settings.model_for(role) for role in get_args(AccountRole)})
    checks: list[Check] = []
    for model in models:
        found = await _check_model(settings, model)
        checks += [await _waited_for(servers, settings, model, found[0]), *found[1:]]
    return checks


async def _waited_for(servers: "ModelServers", settings: "Settings", model: str, check: Check) -> Check:
    name, problem, detail = check
    refusing = [each for each in await servers.standing(settings.model_server) if each.model in ("", model)]
    if not refusing:
        return check
    if problem:
        return name, f"{problem}; {refusing[0].times()}", detail
    await servers.answered(settings.model_server, model)
    return name, problem, f"{detail}; the mail that waited for it goes on"


async def check_tracing(settings: "Settings") -> Check:
    import httpx

    from email_assistant.model.client import network_to

    if settings.tracing == "off":
        given = settings.langfuse_public_key or settings.langfuse_secret_key
        how = "; LANGFUSE_… alone turn nothing on, EMAIL_ASSISTANT_TRACING=langfuse does" if given else ""
        return "tracing", None, f"off{how}"
    if settings.tracing == "otel":
        return await _check_otel(settings)
    assert settings.langfuse_secret_key
    base = settings.langfuse_base_url.rstrip("/")
    keys = (settings.langfuse_public_key or "", settings.langfuse_secret_key.get_secret_value())
    try:
        async with httpx.AsyncClient(timeout=settings.model_timeout_seconds, auth=keys, **network_to(base)) as http:
            status = (await http.get(f"{base}/api/public/projects")).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return "tracing", f"{base} can't be reached ({type(error).__name__}), so traces are lost", ""
    if status != 200:
        return "tracing", f"{base} answers {status}, so traces are lost; check LANGFUSE_PUBLIC_KEY and …_SECRET_KEY", ""
    return "tracing", None, f"{base} is shown each run, with the text of the mail"


async def _check_otel(settings: "Settings") -> Check:
    """A collector has no page to ask for: whatever it answers to no spans at all, it is there."""
    import httpx

    from email_assistant.model.client import network_to

    base = settings.otel_endpoint.rstrip("/")
    try:
        async with httpx.AsyncClient(timeout=settings.model_timeout_seconds, **network_to(base)) as http:
            await http.post(f"{base}/v1/traces", headers={"Content-Type": "application/x-protobuf"})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return "tracing", f"{base} can't be reached ({type(error).__name__}), so traces are lost", ""
    return "tracing", None, f"{base} is shown each step, without the text of the mail"


async def _check_model(settings: "Settings", model: str) -> list[Check]:
    import httpx

    from email_assistant.model.client import network_to

    name = f"model {model}"
    # A connection for each question: some servers close theirs between two, and that would look like a refusal.
    one_by_one = httpx.Limits(max_keepalive_connections=0)
    network = network_to(settings.openai_base_url)
    async with httpx.AsyncClient(timeout=settings.model_timeout_seconds, limits=one_by_one, **network) as http:
        server = _ModelServer(http, settings, model)
        if problem := await server.problem():
            return [(name, problem, "")]
        return [
            (name, None, "answers"),
            (f"{name}, JSON schemas", None, await server.schemas()),
            (f"{name}, tool calls", None, await server.tool_calls()),
            (f"{name}, streaming", None, await server.streaming()),
            (f"{name}, context", None, await server.context()),
        ]


class _ModelServer:
    """Asks a model's server the questions that show what it can do, and says what the program does where it can't."""

    def __init__(self, http: "httpx.AsyncClient", settings: "Settings", model: str) -> None:
        self._http = http
        self._settings = settings
        self._model = model
        self._base = (settings.openai_base_url or "https://api.openai.com/v1").rstrip("/")
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else "none"
        self._headers = {"Authorization": f"Bearer {key}"}

    async def problem(self) -> str | None:
        """Why it answers nothing at all."""
        import httpx

        from email_assistant.model.asking import WORD

        settings = self._settings
        try:
            answer = await self._post(WORD)
        except httpx.TimeoutException:
            return f"{self._base} did not answer within {settings.model_timeout_seconds:g} s; is it overloaded?"
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return f"{self._base} can't be reached ({type(error).__name__}); check OPENAI_BASE_URL and the network"
        if not answer.is_success:
            return f"{self._base} {self._meaning(answer.status_code)} ({answer.status_code}: {_words(answer)})"
        if _message(answer) is None:
            return f"{self._base} speaks no OpenAI; check OPENAI_BASE_URL, it often ends in /v1"
        return None

    def _meaning(self, status: int) -> str:
        match status:
            case 401 | 403:
                return f"refuses the key; check {self._settings.key_variable}"
            case 402:
                return "wants to be paid first: see to that where you have its key"
            case 404:
                return "does not know it; check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL"
            case 429:
                return "is over its rate limit or quota; wait, or look at what your plan allows"
            case _ if status < 500:
                return "refuses the request"
            case _:
                return "fails; look at the server's own log"

    async def schemas(self) -> str:
        from email_assistant.model.asking import WORD, Ready
        from email_assistant.model.structured import form_of

        response_format = form_of(Ready, "ready").response_format("json_schema")["extra_body"]
        message = await self._ask(WORD, **response_format)
        if message is None:
            return "refused; JSON is asked for without, and its form told in words"
        try:
            Ready.model_validate_json(message.get("content") or "")
        except ValueError:
            return "ignored; the form is told in words, and what does not fit is asked for again"
        return "kept to"

    async def tool_calls(self) -> str:
        from email_assistant.model.asking import CALL, READY_TOOL, WORD

        must = await self._ask(WORD, tools=[READY_TOOL], tool_choice="required")
        if must and must.get("tool_calls"):
            return "made, also where one is required"
        may = await self._ask(CALL, tools=[READY_TOOL], tool_choice="auto")
        if not (may and may.get("tool_calls")):
            return f"{'refused' if may is None else 'none are made'}; they are asked for as JSON"
        if must is None:
            return "made, but refused where one is required; they are asked for as JSON"
        return "made, but not always where one is required; the model is reminded once, then its text is put to you"

    async def streaming(self) -> str:
        from email_assistant.model.asking import WORD

        answer = await self._try(WORD, stream=True, stream_options={"include_usage": True})
        if answer and (chunks := _chunks(answer)):
            counted = any(chunk.get("usage") for chunk in chunks)
            return "in pieces, with what they cost" if counted else "in pieces; what they cost is guessed"
        answer = await self._try(WORD, stream=True)
        if answer and _chunks(answer):
            return "in pieces; what they cost is guessed, since the server refuses to say"
        return "not possible; answers in the chat come whole"

    async def context(self) -> str:
        import httpx

        try:
            answer = await self._http.get(f"{self._base}/models", headers=self._headers)
            known = answer.json()["data"]
            entry = next((one for one in known if one["id"] == self._model), known[0] if len(known) == 1 else {})
            tokens = _context_of(entry)
        except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError):  # not every server has this page
            tokens = None
        if tokens is None:
            return "not told; what is refused as too long is sent again with its mail cut short"
        little = (
            "; that is little, and long mail is cut short: give it more if you can" if tokens < _SMALL_CONTEXT else ""
        )
        return f"{tokens:,} tokens{little}"

    async def _ask(self, text: str, **options: Any) -> dict[str, Any] | None:
        """The message that is answered; None if the request is refused."""
        answer = await self._try(text, **options)
        return _message(answer) if answer else None

    async def _try(self, text: str, **options: Any) -> "httpx.Response | None":
        import httpx

        try:
            answer = await self._post(text, **options)
        except httpx.HTTPError:
            return None
        return answer if answer.is_success else None

    async def _post(self, text: str, **options: Any) -> "httpx.Response":
        body = {"model": self._model, "messages": [{"role": "user", "content": text}], **options}
        return await self._http.post(f"{self._base}/chat/completions", json=body, headers=self._headers)


def _message(answer: "httpx.Response") -> dict[str, Any] | None:
    try:
        return dict(answer.json()["choices"][0]["message"])
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _words(answer: "httpx.Response") -> str:
    """A server's own, in one line."""
    from email_assistant.mail.charset import cut, one_line

    try:
        said = answer.json()["error"]["message"]
    except (ValueError, TypeError, KeyError):
        said = answer.text
    return cut(one_line(str(said)), 200)


def _chunks(answer: "httpx.Response") -> list[dict[str, Any]]:
    """The pieces of a streamed answer; none if it is no stream."""
    lines = [line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith("data:")]
    try:
        return [json.loads(line) for line in lines if line != "[DONE]"]
    except ValueError:
        return []


def _context_of(entry: dict[str, Any]) -> int | None:
    """As vLLM, OpenRouter, Groq and llama.cpp name it; OpenAI and others don't tell."""
    told = [entry.get(name) for name in ("max_model_len", "context_length", "context_window")]
    told.append((entry.get("meta") or {}).get("n_ctx"))
    return next((tokens for tokens in told if isinstance(tokens, int)), None)
