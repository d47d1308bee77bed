"""The terminal while something is followed: lines that stay, below them a few that change, and what is typed.

What happens and what is typed come in one order, so that a message never breaks into a line that somebody is typing.
Where nobody looks (a pipe) there are only the lines that stay, and nothing is read.
"""

from __future__ import annotations

import codecs
import os
import select
import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import click

from agent_worker.cli.output import F, echo, paint
from agent_worker.cli.prose import cut
from agent_worker.cli.wrapping import cells, hanging
from agent_worker.client.plain_http import ServerEvent
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.core.text import clean

TICK = 1.0  #: seconds between two looks at the clock
_ENTER, _ERASE, _ERASE_WORD, _ERASE_LINE, _END = "\r\n", "\x7f\x08", "\x17", "\x15", "\x04"
_BESIDE = "\u200d\ufe0f"  # is erased with the character it belongs to


@dataclass(frozen=True, slots=True)
class Typed:
    """A line that was typed; None says that nothing more will come."""

    text: str | None


LIMIT = 3  #: exit code: a limit stopped it
WAITS = 4  #: exit code: it waits for the person, and nobody is at the terminal


def wait_option(command: F) -> F:
    """`--wait`, for what ends otherwise when it waits for the person and nobody is there."""
    told = "Wait for your answers even without a terminal."
    return click.option("--wait", is_flag=True, help=told)(command)


class Console:
    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()
        self.takes_keys = self.is_live and sys.stdin.isatty()
        self.is_attended = self.takes_keys or self.is_live  #: is somebody there, who sees what it waits for?
        self._below: Sequence[str] = ()
        self._prompt: str | None = None
        self._typed = ""
        self._laid_aside = ""  # was typed when something was asked
        self._ahead = ""  # was pressed when nothing was asked for, and is for the next prompt
        self._rows = 0  # of the screen that are drawn and will be wiped
        self._keys = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lines: deque[Typed] = deque()
        self._modes: Any = None
        self._handlers: dict[int, Any] = {}

    @property
    def columns(self) -> int:
        """How wide a line may be, one less than the terminal: a full line makes some terminals begin the next one."""
        return max(shutil.get_terminal_size().columns - 1, 20)

    def __enter__(self) -> Console:
        if self.takes_keys:
            import termios

            self._modes = termios.tcgetattr(sys.stdin)
            self._take_keys()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
                self._handlers[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        self._below, self._prompt = (), None
        self._redraw()
        if self._modes is not None:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def say(self, *lines: str) -> None:
        """Print lines that stay."""
        self._wipe()
        for line in lines:
            click.echo(line)
        self._draw()

    def tell(self, text: str, colour: str = "") -> None:
        """A sentence that stays, wrapped where somebody looks."""
        told = clean(text).split("\n")
        lines = [part for line in told for part in hanging(line, self.columns)] if self.is_live else told
        self.say(*(paint(line, colour) if colour else line for line in lines))

    def aside(self, text: str) -> None:
        """A sentence that stays and is no part of an answer: on standard error."""
        self._wipe()
        echo(clean(text), err=True)
        self._draw()

    def complain(self, error: AgentWorkerError) -> None:
        """Print what went wrong and what to do, while something is followed."""
        self.tell(f"error: {error.message}", "red")
        if error.hint and error.hint not in error.message:
            self.tell(f"  hint: {error.hint}")

    def below(self, *lines: str) -> None:
        """Set the lines that change, below those that stay."""
        if self.is_live and lines != self._below:
            self._below = lines
            self._redraw()

    def prompt(self, text: str | None) -> None:
        """Set what is asked for in the last line; with None nothing is asked, and keys are kept for the next time."""
        if self.takes_keys and text != self._prompt:
            self._prompt, self._typed, self._laid_aside = text, self._typed or self._laid_aside, ""
            if text is not None:
                keys, self._ahead = self._ahead, ""
                for key in keys:
                    self._press(key)
            self._redraw()

    def ask(self, prompt: str) -> None:
        """Ask in the last line. What was typed before the question was seen does not answer it, and is laid aside."""
        if self.takes_keys:
            import termios

            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            self._lines.clear()
            self._ahead = ""
            self._prompt, self._typed, self._laid_aside = prompt, "", self._typed
            self._redraw()

    def line(self, prompt: str) -> str | None:
        """One typed line; None at the end of the input."""
        self.prompt(prompt)
        try:
            while not self._lines:
                select.select([sys.stdin], [], [])
                self._read_keys()
            return self._lines.popleft().text
        finally:
            self.prompt(None)

    def happenings(self, events: Iterator[ServerEvent]) -> Iterator[ServerEvent | Typed | None]:
        """Events as they come, and lines as they are typed; None after some of them, and every second."""
        if not self.is_live:
            yield from events
            return
        pump = _Pump(events)
        waiting = [pump.stirred, *([sys.stdin] if self.takes_keys else [])]
        while True:
            ready, _, _ = select.select(waiting, [], [], TICK)
            if not ready:
                yield None
            if sys.stdin in ready:
                self._read_keys()
            while self._lines:
                yield self._lines.popleft()
            if pump.stirred in ready:
                yield from pump.taken()
                yield None
                if pump.is_over:
                    return

    # --- drawing --------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        self._wipe()
        self._draw()

    def _wipe(self) -> None:
        if self._rows:
            click.echo("\r" + "\x1b[A" * (self._rows - 1) + "\x1b[J", nl=False)
            self._rows = 0

    def _draw(self) -> None:
        if not self.is_live:
            return
        lines = [*self._below, *([self._input()] if self._prompt is not None else [])]
        click.echo("\n".join(lines), nl=False)
        self._rows = len(lines)

    def _input(self) -> str:
        """The last line: the prompt, and the end of what was typed if all of it does not fit."""
        prompt = cut(self._prompt or "", self.columns // 2)
        shown = self._typed
        while cells(shown) > self.columns - cells(prompt):
            shown = shown[1:]
        return f"{prompt}{shown}"

    # --- keys -----------------------------------------------------------------------------------------

    def _take_keys(self) -> None:
        """Read each key as it is pressed, without the terminal showing it. Ctrl-C stays what it is."""
        import tty

        tty.setcbreak(sys.stdin)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGCONT:
            self._take_keys()
            self._draw()
        else:
            raise SystemExit(128 + number)

    def _read_keys(self) -> None:
        pressed = os.read(sys.stdin.fileno(), 4096)
        if not pressed:
            self._lines.append(Typed(None))
        keys = _without_sequences(self._keys.decode(pressed))
        if self._prompt is None:
            self._ahead += keys
            return
        for key in keys:
            self._press(key)
        self._redraw()

    def _press(self, key: str) -> None:
        if key in _ENTER:
            self._lines.append(Typed(self._typed))
            self._typed = ""
        elif key in _ERASE:
            self._typed = self._typed[:-1].rstrip(_BESIDE)
        elif key == _ERASE_WORD:
            self._typed = self._typed.rstrip().rpartition(" ")[0]
        elif key == _ERASE_LINE:
            self._typed = ""
        elif key == _END and not self._typed:
            self._lines.append(Typed(None))
        elif key.isprintable() or key in _BESIDE:
            self._typed += key


def _without_sequences(keys: str) -> str:
    """Keys such as arrows send several characters: they do nothing here."""
    import re

    return re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?", "", keys)


class _Pump:
    """Reads events in a thread of its own, so that they are taken while a person thinks."""

    def __init__(self, events: Iterator[ServerEvent]) -> None:
        self.stirred, self._stir = os.pipe()
        self.is_over = False  #: all of it was taken
        self._is_read = False
        self._taken: deque[ServerEvent] = deque()
        self._failure: BaseException | None = None
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def taken(self) -> Iterator[ServerEvent]:
        """What has come by now. Raises what ended the stream."""
        os.read(self.stirred, 4096)
        is_last = self._is_read  # looked at before what has come is taken: what comes after that stirs again
        while self._taken:
            yield self._taken.popleft()
        self.is_over = is_last
        if is_last and self._failure is not None:
            raise self._failure

    def _read(self, events: Iterator[ServerEvent]) -> None:
        try:
            for event in events:
                self._taken.append(event)
                os.write(self._stir, b".")
        except BaseException as error:  # boundary: told to whoever takes them
            self._failure = error
        finally:
            self._is_read = True
            with suppress(OSError):
                os.write(self._stir, b".")
