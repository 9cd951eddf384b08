"""The program between its doubles, as in the tests of how its rooms work together."""

from tests.integration.conftest import connect, daemon, google, home, model, open_home, start

__all__ = ["connect", "daemon", "google", "home", "model", "open_home", "start"]
