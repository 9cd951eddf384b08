"""The settings of what is learned from a person's habits."""

from email_assistant.settings.environment import FromEnvironment


class RehearsalSettings(FromEnvironment):
    habits: bool = True
    """Whether a class is given by what the person did with mail like it, without the model, once that is proven."""
