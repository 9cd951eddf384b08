"""One item: what is asked, why, and the keys that answer it."""

from pathlib import Path
from typing import ClassVar
from uuid import UUID

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from email_assistant.cli.card import line
from email_assistant.cli.mails import keep
from email_assistant.features.terminal import words
from email_assistant.features.terminal.base import InboxScreen, LiveScreen
from email_assistant.features.terminal.desk import Sight
from email_assistant.features.terminal.edit import EditScreen, RespondScreen, ReviewScreen
from email_assistant.inbox.answers import REFINEMENTS
from email_assistant.inbox.originals import Original
from email_assistant.inbox.sentences import sentence
from email_assistant.tools.spec import Answer
from email_assistant.web.wording import buttons

_SAVED_BY_KEY = 9  # files


class ItemScreen(LiveScreen):
    """`then`: "change" or "respond" opens that as soon as the item is there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(2)", "Down", show=False),
        Binding("k", "scroll(-2)", "Up", show=False),
        Binding("a", "accept", "Send, book, done"),
        Binding("r", "change", "Change"),
        Binding("m", "from_gmail", "Send the one in Gmail", show=False),
        Binding("t", "respond", "Tell the assistant", show=False),
        *(Binding(each.key, f"refine('{name}')", each.name, show=False) for name, each in REFINEMENTS.items()),
        Binding("h", "later", "Later"),
        Binding("e", "turn_down", "Dismiss"),
        Binding("i", "ignore", "Not such mail", show=False),
        Binding("z", "undo", "Undo"),
        Binding("v", "files", "Files"),
        Binding("u", "back", "Back to the list"),
        Binding("escape", "back", show=False),
        Binding("slash", "search", "Search", key_display="/"),
    ]

    def __init__(self, item_id: UUID, then: str = "") -> None:
        super().__init__()
        self.item_id = item_id
        self._then = then
        self._seen: Sight | None = None
        self._is_read = False  # whether the whole of what is asked has been on the screen

    def on_mount(self) -> None:
        super().on_mount()
        self.watch(self.query_one(VerticalScroll), "scroll_y", self._look, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._look)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("Reading…", id="item", markup=False)
            yield Static(id="around", markup=False)
        yield from self.compose_foot()

    async def load(self) -> None:
        before, self._seen = self._seen, await self.inbox.desk.look(self.item_id)
        seen = self._seen
        self._is_read = self._is_read and before is not None and before.item.hash == seen.item.hash
        self.query_one("#item", Static).update(words.sight(seen, sentence(seen.item, seen.zone)))
        self.query_one("#around", Static).update(words.around(seen))
        self.call_after_refresh(self._look)
        then, self._then = self._then, ""
        if then == "change":
            self.action_change()
        elif then == "respond":
            self.action_respond()

    def action_accept(self) -> None:
        """What would be done is done once it was on the screen to its end; until then more of it is shown."""
        if (seen := self._open_to("accept")) and self._is_read:
            self.inbox.answer(seen.item, {"type": "accept"}, then=self.action_back)
        elif seen:
            view = self.query_one(VerticalScroll)
            view.scroll_relative(y=max(1, view.container_size.height // 2), animate=False)
            self.inbox.say("This was not all of it: a shows more, and does it once you have seen its end.")

    def action_ignore(self) -> None:
        if seen := self._open_to("ignore"):
            self.inbox.answer(seen.item, {"type": "ignore"}, then=self.action_back)

    def action_turn_down(self) -> None:
        """It is put away, and teaches nothing."""
        if seen := self._open_to("ignore"):
            self.inbox.answer(seen.item, {"type": "done"}, then=self.action_back)

    def action_later(self) -> None:
        if seen := self._open_to():
            self.inbox.put_off(seen.item, then=self.action_back)

    def action_change(self) -> None:
        """Edit what is proposed; answer what can't be edited."""
        if self._seen and "edit" not in self._seen.item.allowed:
            self.action_respond()
        elif seen := self._open_to("edit"):
            self.inbox.push_screen(EditScreen(seen))

    def action_from_gmail(self) -> None:
        """Send what the person has made of it in Gmail, once the difference was seen."""
        seen = self._open_to("edit")
        if seen and seen.item.in_gmail and seen.item.in_gmail.args:
            self.inbox.push_screen(ReviewScreen(seen, seen.form.filled_with(seen.item.in_gmail.args)))
        elif seen:
            self.inbox.say("There is no other text of it in Gmail that can be sent from here.", is_error=True)

    def action_respond(self) -> None:
        if seen := self._open_to("response"):
            self.inbox.push_screen(RespondScreen(seen))

    def action_refine(self, name: str) -> None:
        """Have a letter written anew, or one where none was proposed."""
        refinement, seen = REFINEMENTS[name], self._open_to("response")
        if seen and seen.item.kind == "draft" and refinement.of_blank == seen.item.is_blank:
            answer = {"type": "response", "args": refinement.words}
            self.inbox.answer(seen.item, answer, then=self.action_back)

    def action_files(self) -> None:
        if self._seen:
            self.inbox.push_screen(FilesScreen(self._seen))

    def action_undo(self) -> None:
        is_decided = self._seen is not None and self._seen.item.status == "decided"
        self.inbox.action_undo(self._seen.item if self._seen and is_decided else None)

    def action_back(self) -> None:
        self.inbox.to_list()

    def action_search(self) -> None:
        self.inbox.to_list(search=True)

    def _look(self) -> None:
        view, asked = self.query_one(VerticalScroll), self.query_one("#item", Static)
        place = asked.virtual_region
        # A text that was put there has the place of the one before until Textual lays the screen out anew, which
        # `call_after_refresh` does not wait for.
        is_its_own = place.height == asked.get_content_height(view.container_size, self.size, place.width)
        is_in_sight = place.bottom <= view.scroll_offset.y + view.container_size.height
        self._is_read = self._is_read or (self._seen is not None and is_its_own and is_in_sight)

    def _open_to(self, answer: Answer | None = None) -> Sight | None:
        """What is on the screen, if it waits and takes the answer; else the reason is said."""
        if self._seen is None:
            return None
        item = self._seen.item
        if item.status != "pending":
            self.inbox.say(f"{words.became(item)}; nothing was changed", is_error=True)
            return None
        if answer and answer not in item.allowed:
            takes = ", ".join(buttons(item)["done" if each == "ignore" else each] for each in item.allowed)
            self.inbox.say(f"This does not take that; it takes: {takes}.", is_error=True)
            return None
        return self._seen


class FilesScreen(InboxScreen):
    """What a mail holds besides its text, as Gmail has it: its invitation, and its files to be saved."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"save({number})", show=False) for number in range(1, _SAVED_BY_KEY + 1)),
        Binding("u", "back", "Back"),
        Binding("escape", "back", show=False),
        Binding("j", "scroll(2)", show=False),
        Binding("k", "scroll(-2)", show=False),
    ]

    def __init__(self, seen: Sight) -> None:
        super().__init__()
        self._seen = seen
        self._mail: Original | None = None

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("Asking Gmail…", id="files", markup=False)
        yield from self.compose_foot()

    def on_mount(self) -> None:
        self.run_worker(self._load(), exit_on_error=False)

    async def _load(self) -> None:
        try:
            self._mail = await self.inbox.desk.original(self._seen.item)
        except Exception as error:
            self.inbox.complain(error)
            return
        shown = words.beside_the_text(self._mail.contents, self._seen.zone)
        self.query_one("#files", Static).update(Content(shown))

    def action_save(self, number: int) -> None:
        if self._mail:
            self.run_worker(self._save(self._mail, number), exit_on_error=False)

    async def _save(self, mail: Original, number: int) -> None:
        try:
            path = await keep(mail, number, Path.cwd())
        except Exception as error:
            self.inbox.complain(error)
            return
        self.inbox.say(f"Saved as {line(path)}.")

    def action_back(self) -> None:
        self.inbox.say("")
        self.dismiss()
