"""Words and phrases that we do not use, because plain English has a better one.

    python -m tests.support.voice src/windlass/cli docs/guides

lists where a file uses one, and exits with 1 if any does. `tests/test_tidy.py` checks the whole tree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = (".py", ".md", ".sql", ".toml", ".yaml", ".yml", ".mjs", ".html", ".css", ".js", ".tcss")
SKIPPED = ("tests/support/voice.py",)

WORDS = {
    "anew": "again",
    "bell": "wake-up",
    "birth": "initial state",
    "births": "initial states",
    "born": "created, started",
    "burial": "reaping",
    "buried": "reaped",
    "bury": "reap",
    "capsule": "recorded attempt",
    "clerk": "handler calls",
    "crew": "dispatcher",
    "deed": "action",
    "deeds": "actions",
    "fate": "outcome",
    "forsake": "drop, abandon",
    "forsaken": "dropped",
    "hall": "waiters",
    "hear": "receive, read",
    "heard": "received, recorded",
    "hearing": "receiving",
    "hears": "receives",
    "heed": "obey, use",
    "heeds": "obeys, uses",
    "lately": "recently",
    "lest": "so that … not",
    "mend": "fix, repair",
    "mended": "fixed, repaired",
    "mends": "fixes, repairs",
    "newsroom": "broadcaster",
    "nursery": "worker parent",
    "rang": "notified",
    "ring": "cycle, notify",
    "rings": "cycles, notifies",
    "rouse": "wake up, resume",
    "roused": "woken up",
    "said": "printed, answered, output, message",
    "stood": "was",
    "tally": "counters",
    "tell": "report, notify, say",
    "telling": "reporting",
    "tells": "reports, notifies, says",
    "told": "reported, notified",
    "troubled": "failing",
    "unborn": "not started",
    "whoever": "the one who, anyone who",
    "whomever": "anyone who",
}
PHRASES = {
    r"\bat the most\b": "at most",
    r"\bat the least\b": "at least",
    r"\bof late\b": "recently",
    r"\bin vain\b": "without success",
    r"\bonce more\b": "again",
    r"\ball of it\b": "say what",
    r"\bso many\b": "the number",
    r"\bon whose behalf\b": "for which tenant",
    r"\b(?:comes?|came|becomes?|became) of\b": "happens to",
    r"\bis no (?!longer\b|more\b|such\b|need\b|way\b|other\b)\w": "is not a …; never 'X is no Y'",
    r"\bin the name of\b": "as, for",
    r"\bword of\b": "a report of",
    r'"""The same\.': "say what it does",
    r"\bbeside (?!s)": "next to, with, in addition to",
    r"\bholds? against\b|\bheld against\b": "compare with",
    r"\bgoes on\b": "continues",
    r"\bthe good end\b|\bgood end\b": "success",
    r"\bbad end\b": "failure",
}
_TOKEN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the word and what to write instead, for each banned word and phrase of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for token in _TOKEN.findall(line):
            if better := WORDS.get(token.lower()):
                yield number, token, better
        for phrase, better in PHRASES.items():
            if found := re.search(phrase, line, re.IGNORECASE):
                yield number, found[0], better


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files at or below these paths that we write by hand."""
    for path in paths:
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        for each in found:
            relative = each.resolve().relative_to(ROOT).as_posix()
            if each.is_file() and each.suffix in SUFFIXES and relative not in SKIPPED:
                yield each


def main() -> int:
    total = 0
    for path in files(map(Path, sys.argv[1:] or ["src"])):
        for number, word, better in findings(path):
            sys.stdout.write(f"{path}:{number}: {word!r}: write {better}\n")
            total += 1
    sys.stdout.write(f"{total} to fix\n")
    return 1 if total else 0


if __name__ == "__main__":
    raise SystemExit(main())
