"""Refusals, in the shape in which Google's APIs give them."""

from typing import Any

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    410: "FAILED_PRECONDITION",
    412: "FAILED_PRECONDITION",
    500: "INTERNAL",
}


NOT_FOUND = "Requested entity was not found."  # as Gmail says it


class ApiError(Exception):
    """A refusal: the HTTP status `code`, Google's `reason` word and a `message` for people."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        detail = {"message": self.message, "domain": "global", "reason": self.reason}
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "errors": [detail],
                "status": _STATUS.get(self.code, "UNKNOWN"),
            }
        }


def invalid(message: str, reason: str = "invalidArgument") -> ApiError:
    """400: the request itself is wrong."""
    return ApiError(400, reason, message)


def not_found(message: str = NOT_FOUND) -> ApiError:
    """404: what the request names isn't there."""
    return ApiError(404, "notFound", message)
