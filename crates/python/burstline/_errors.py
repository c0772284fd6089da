"""Errors. Each message is one line, with the wrong number and the remedy."""


class Error(Exception):
    """An error of a source, a publisher or a system call."""


class AbsentError(Error, FileNotFoundError):
    """No publisher, file, set or interface has this name."""

    __str__ = Exception.__str__


class RefusedError(Error, PermissionError):
    """The system, or a publisher, denies this process access."""

    __str__ = Exception.__str__


class ClosedError(Error, ValueError):
    """The reader or publisher is closed."""


class ReleasedError(Error, ValueError):
    """The burst is released: the loop has moved on, or its ``with`` has ended."""


class ForkedError(Error, RuntimeError):
    """A child process uses a reader or publisher that its parent opened."""


class BusyError(Error, RuntimeError):
    """Another thread is in a call of the same reader or publisher."""
