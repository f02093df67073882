"""`windlass init DIR`: an app of your own, with a test that passes and settings that a node follows."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.init_templates import files, module_name
from windlass.cli.output import print_note


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Begin an app in a new folder: one file with tasks, one test, settings for the node."""
    _check(folder)
    name = module_name(folder.resolve().name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files(name).items():
            # Never over something that came to stand there since it was looked at.
            with (folder / file).open("x", encoding="utf-8") as out:
                out.write(text)
            click.echo(folder / file)
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be written: {error.strerror}") from error
    print_note(f"Next:\n{_next(folder, name)}")


def _check(folder: Path) -> None:
    """Refuse a folder in which something stands already."""
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is a file; give a new or an empty folder")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if there:
        more = " and more" if len(there) > 3 else ""
        raise click.UsageError(f"{folder} is not empty ({', '.join(there[:3])}{more}); give a new or an empty folder")


def _next(folder: Path, name: str) -> str:
    lines = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    lines += ["pytest", f"python {name}.py", "windlass worker", "windlass top"]
    return "\n".join(f"  {line}" for line in lines)
