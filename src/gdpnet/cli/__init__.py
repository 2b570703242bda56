"""The command line: parse, call one function, print."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

FAILED, WRONG_INPUT = 1, 2
"""Exit codes for work that failed, in part or whole, and for input that the user must change."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, which typer catches and turns into this number."""

TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error that the user can fix is one sentence on stderr and exit code 1 or 2."""
    from typer.main import get_command

    from gdpnet.cli.app import app

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = get_command(app).main(words or ["--help"], prog_name="gdpnet", standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        return 0
    except SystemExit as end:  # after --install-completion and --show-completion
        return int(end.code or 0)
    except Exception as error:
        sentence = _sentence_of(error)
        if debug or sentence is None:
            raise
        print(f"gdpnet: {' '.join(sentence.split())}", file=sys.stderr)
        return _code_of(error)
    if code == INTERRUPTED:
        print(
            "gdpnet: interrupted; finished work is saved: continue train with --resume, and other commands by "
            "running them again",
            file=sys.stderr,
        )
    return code or 0


def run() -> None:
    """Run the command line as a program; SIGTERM ends it in order, so that temporary files are deleted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.exit(main())


def _code_of(error: Exception) -> int:
    from gdpnet.errors import WorkError

    return FAILED if isinstance(error, WorkError | OSError) else WRONG_INPUT


def _sentence_of(error: Exception) -> str | None:
    """Return what to tell the user; None for a mistake of the program."""
    from gdpnet.errors import GDPNetError

    if isinstance(error, GDPNetError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    # typer raises its own usage errors, which carry their sentence in `format_message`
    return error.format_message() if hasattr(error, "format_message") else None
