"""`windlass init`: create a new app with a test and settings."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.init_templates import files, module_name
from windlass.cli.output import print_note


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Create a new app: one file with tasks, one test, and settings."""
    _check(folder)
    name = module_name(folder.resolve().name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files(name).items():
            # Do not overwrite a file that was created since the check.
            with (folder / file).open("x", encoding="utf-8") as out:
                out.write(text)
            click.echo(folder / file)
    except OSError as error:
        raise click.ClickException(f"Cannot write {error.filename}: {error.strerror}") from error
    print_note(f"Next:\n{_next(folder, name)}")


def _check(folder: Path) -> None:
    """Refuse a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is a file. Use a new or an empty folder.")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if there:
        more = " and more" if len(there) > 3 else ""
        raise click.UsageError(f"{folder} is not empty ({', '.join(there[:3])}{more}). Use a new or an empty folder.")


def _next(folder: Path, name: str) -> str:
    lines = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    lines += ["pytest", f"python {name}.py", "windlass worker", "windlass top"]
    return "\n".join(f"  {line}" for line in lines)
