"""`/chat`: a place that is kept."""

from fastapi import APIRouter
from fastapi.responses import Response

from email_assistant.servers.api.rendering import render

router = APIRouter()


@router.get("/chat")
async def chat() -> Response:
    return render("chat.html")
