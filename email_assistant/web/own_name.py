"""A host name of this home's own, so that its cookies reach no other server of this machine.

Cookies know no port (RFC 6265, section 8.5): what is set for 127.0.0.1 goes to every server there, whoever started it.
Names below .localhost lead to this machine (RFC 6761, section 6.3), and each has cookies of its own. The name is
random: who knew it could lead the browser to their own port under it. So only who has given the token is told it.
"""

from dataclasses import dataclass

from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class OwnName:
    host: str
    is_known: bool
    """Whether the system's own resolver finds it. Browsers may do so by themselves, but a link must open in any."""

    def instead_of(self, request: Request) -> str | None:
        """The root address under the name, where the request's own had better be left for it."""
        # Over https, a proxy stands between: what leads to this machine from here need not lead here from there.
        if not self.is_known or request.url.scheme != "http" or request.url.hostname == self.host:
            return None
        port = f":{request.url.port}" if request.url.port else ""
        return f"http://{self.host}{port}"
