"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, which typer catches and turns into this number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error that the user can fix is one sentence on stderr and exit code 2."""
    from typer.main import get_command

    from gdpnet.cli.app import app
    from gdpnet.errors import GDPNetError

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = get_command(app).main(words or ["--help"], prog_name="gdpnet", standalone_mode=False)
    except GDPNetError as error:
        if debug:
            raise
        return _fail(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        return 0
    except OSError as error:
        if debug:
            raise
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        # typer raises its own usage errors, which carry their sentence in `format_message`
        if debug or not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message())
    if code == INTERRUPTED:
        print(
            "gdpnet: interrupted; finished work is saved: continue train with --resume, and other commands by "
            "running them again",
            file=sys.stderr,
        )
    return code or 0


def run() -> None:
    """Run the command line as a program."""
    sys.exit(main())


def _fail(sentence: str) -> int:
    print(f"gdpnet: {' '.join(sentence.split())}", file=sys.stderr)
    return 2
