"""An agent whose tools the public `open_edison` client gates. Arguments: the server, its key, and seconds to wait.

Runs in the environment of this folder. Each line of its input is a call, {session, tool, args, kwargs, result,
is_async}, of which it prints what came: {result}, {denied} or {down}.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from open_edison import Edison  # type: ignore[import-not-found]


def main(root: str, key: str, seconds: float) -> None:
    edison = Edison(api_base=root, api_key=key, timeout_s=seconds, agent_name="planner", agent_type="test")
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps(_outcome(edison, call)), flush=True)  # noqa: T201 - read by whoever started it


def _outcome(edison: Any, call: dict[str, Any]) -> dict[str, str]:
    ran = _async(call["result"]) if call["is_async"] else lambda *args, **kwargs: call["result"]
    ran.__name__ = call["tool"]
    tracked = edison.track(session_id=call["session"])(ran)
    try:
        answer = tracked(*call["args"], **call["kwargs"])
        return {"result": asyncio.run(answer) if call["is_async"] else answer}
    except PermissionError as error:
        return {"denied": str(error)}
    except Exception as error:
        return {"down": f"{type(error).__name__}: {error}"}


def _async(result: str) -> Callable[..., Any]:
    async def ran(*args: Any, **kwargs: Any) -> str:
        return result

    return ran


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
