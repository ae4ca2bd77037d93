"""Leave out the chat prompt of a lone user prompt, so that it goes the legacy way."""

from msgspec import Struct

from multiturn import Conversion, Turn, stage
from multiturn.model.conversion import ChatView


@stage(requires={"history", "chat", "question"}, provides={"chat"})
def omit_lone_prompt(conversion: Conversion) -> Conversion:
    """Choose no chat where one user turn is the whole conversation.

    Put it after ``consolidate_system`` and ``render_question``. The provider then sends the system
    message that the chat would have had, and the question as the only user message. A turn with
    images, documents or audio keeps its chat: a question is only text.
    """
    view = conversion.chat_view
    if view is None or isinstance(view, UnlessLone):
        return conversion
    return conversion.replace(chat_view=UnlessLone(view))


class UnlessLone(Struct, frozen=True):
    """The view of the chat that ``omit_lone_prompt`` chooses: the earlier one, or no chat."""

    view: ChatView

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...] | None:
        """Return what the other view shows; None for a lone user turn."""
        turns = conversion.turns
        if len(turns) == 1 and turns[0].role == "user" and not turns[0].has_media:
            return None
        return self.view(conversion)

    def left_out(self, conversion: Conversion) -> tuple[Turn, ...] | None:
        """Return what the other view shows: its system message is sent before the question."""
        left_out: ChatView = getattr(self.view, "left_out", self.view)
        return left_out(conversion)
