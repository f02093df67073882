"""The tree of commands, for tests that check all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from windlass.cli.main import main


def walk(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group below a group, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield " ".join((*words, name)), command
        if isinstance(command, click.Group):
            yield from walk(command, (*words, name))


EVERYTHING: Mapping[str, click.Command] = dict(walk(main))
COMMANDS: Mapping[str, click.Command] = {
    words: command for words, command in EVERYTHING.items() if not isinstance(command, click.Group)
}


def options_of(command: click.Command) -> set[str]:
    """Return the names of a command's options."""
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
