"""The command line: parse, call one function, print."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

FAILED, WRONG_INPUT = 1, 2
"""Exit codes for work that failed, in part or whole, and for input that the user must change."""

UNEXPECTED = 70
"""Exit code after a mistake of the program itself (EX_SOFTWARE)."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, which typer catches and turns into this number."""

_MEMORY = (
    "there is not enough memory for this: use a smaller graph or smaller settings, or write the graph as a store "
    "(gdpnet store) and use --shards"
)
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "std::bad_alloc")
"""What torch says in place of a MemoryError."""

TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error is one sentence on stderr, and its traceback with --debug, and an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    with _noticing_signals() as seen:
        try:
            code = _run(words)
            sys.stdout.flush()
        except BaseException as error:
            # a signal can arrive inside a library that turns its exception into one of its own
            code = 128 + seen[-1] if seen else _failed(error, debug)
    if code == INTERRUPTED:
        _say(
            "interrupted; what was written is kept: continue train with --resume, and other commands by running them "
            "again"
        )
    return code


def run() -> None:
    """Run the command line as a program; SIGTERM ends it in order, so that temporary files are deleted."""
    code = INTERRUPTED
    try:
        _open_standard_streams()
        _drop_unusable_variables()
        signal.signal(signal.SIGTERM, terminate)
        sys.unraisablehook = _signal_again
        if hasattr(sys.stdout, "reconfigure"):
            # a name that the terminal cannot show must not end a command
            sys.stdout.reconfigure(errors="backslashreplace")
        code = main()
        _flush_output()
    except KeyboardInterrupt:  # before or after `main`, which answers its own
        pass
    finally:
        _end_in_order()
    sys.exit(code)


def _drop_unusable_variables() -> None:
    """Take out of the environment what libraries of this process would fail on or warn about.

    Pictures are files here, so the window system that a notebook has chosen for matplotlib does not matter.
    """
    os.environ.pop("MPLBACKEND", None)
    os.environ.pop("NUMBA_DISABLE_JIT", None)  # compiled functions call others that Python cannot
    threads = os.environ.get("NUMBA_NUM_THREADS", "1")
    if not threads.isdecimal() or int(threads) == 0:
        del os.environ["NUMBA_NUM_THREADS"]
    asks_for_words = os.environ.get("_GDPNET_COMPLETE", "").startswith("complete_")
    if asks_for_words and not {"COMP_WORDS", "_TYPER_COMPLETE_ARGS"} & set(os.environ):
        del os.environ["_GDPNET_COMPLETE"]  # no shell asks to complete a line


def _open_standard_streams() -> None:
    """Lead streams that were closed to nowhere; the next file that is opened would have their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _signal_again(lost: sys.UnraisableHookArgs) -> None:
    """Send a signal again whose exception was raised in a destructor, where Python drops it."""
    numbers = {SystemExit: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}
    number = numbers.get(lost.exc_type)
    if number is None or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(lost)
        return
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, 0.02)  # when the destructor has ended


def _flush_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _end_in_order() -> None:
    """Delete temporary files that a signal has kept from being deleted; after that a signal ends the process."""
    from gdpnet._core.files import delete_left

    _answer_signals(signal.SIG_IGN)
    delete_left()
    _answer_signals(signal.SIG_DFL)


def _answer_signals(how: signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, how)


def _run(words: list[str]) -> int:
    from typer.main import get_command

    from gdpnet.cli.app import app
    from gdpnet.errors import GDPNetError, reason_of

    try:
        Path.cwd()
    except FileNotFoundError as error:  # libraries end the process when they look for their parts
        raise GDPNetError("the current folder was deleted: change to one that exists") from error
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError as error:
            raise GDPNetError(f"an argument cannot be read: {reason_of(error)}") from error

    code = get_command(app).main(words or ["--help"], prog_name="gdpnet", standalone_mode=False)
    return int(code or 0)


def terminate(number: int, frame: FrameType | None) -> None:
    """End the process in order, as an answer to SIGTERM."""
    sys.exit(TERMINATED)


@contextmanager
def _noticing_signals() -> Iterator[list[int]]:
    """Yield a list of the signals to end that came, whatever becomes of the exceptions that they raise."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: terminate}
    before = {number: answer for number, answer in usual.items() if signal.getsignal(number) is answer}

    def notice(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        usual[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, notice)
    try:
        yield seen
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)


def _failed(error: BaseException, debug: bool) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, SystemExit):  # after --install-completion, and typer's answer to a closed pipe
        return error.code if isinstance(error.code, int) else FAILED if error.code else 0
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return FAILED
    if debug:
        import traceback

        traceback.print_exception(error)
    code, sentence = _answer(error)
    _say(sentence)
    return code


def _answer(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an exception, and what to tell the user."""
    from gdpnet.errors import GDPNetError, WorkError, reason_of

    if isinstance(error, GDPNetError):
        return FAILED if isinstance(error, WorkError) else WRONG_INPUT, str(error)
    if isinstance(error, MemoryError) or any(word in str(error) for word in _NO_MEMORY):
        return FAILED, _MEMORY
    if isinstance(error, OSError):
        return FAILED, f"{error.filename}: {error.strerror}" if error.filename else reason_of(error)
    if hasattr(
        error, "format_message"
    ):  # typer raises its own usage errors, which carry their sentence there
        return WRONG_INPUT, error.format_message()
    found = f"{type(error).__name__}: {reason_of(error)}"[:120]
    return UNEXPECTED, (
        f"something went wrong that should not ({found}): run the same command with --debug and report the traceback "
        "in the issue tracker of the project"
    )


def _say(sentence: str) -> None:
    from gdpnet.errors import shortened

    print(f"gdpnet: {shortened(' '.join(sentence.split()))}", file=sys.stderr)


def _drop_output() -> None:
    """Send what is left of the output nowhere, so that the interpreter does not fail on it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
