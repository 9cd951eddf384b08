"""What the API answers when the database is lost on the way."""

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from email_assistant.web.errors import add_error_handlers
from email_assistant.work.faults import classify

LOST = [
    psycopg.OperationalError("the connection is lost"),
    psycopg.InterfaceError("the connection is closed"),
    psycopg.errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout"),
    psycopg.errors.DeadlockDetected("deadlock detected"),
    psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_database_that_is_lost_on_the_way_is_no_fault_of_the_request(error: psycopg.Error) -> None:
    api = FastAPI()
    add_error_handlers(api)

    @api.get("/api/inbox")
    def inbox() -> None:
        raise error

    answer = TestClient(api, raise_server_exceptions=False).get("/api/inbox")

    assert answer.status_code == 503
    assert answer.json()["detail"] == "the database can't be reached; try again in a moment"
    assert classify(error).outage
