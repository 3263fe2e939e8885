"""Errors as scikit-learn users expect them: subclasses of ``ValueError`` and of ``SlcError``."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from slc_ops.base.errors import FitError, InputError, SettingsError, SlcError


class FrameError(InputError, ValueError):
    """Unusable rows or columns."""


class CannotFit(FitError, ValueError):
    """The method cannot be fitted to these rows."""


class BadOption(SettingsError, ValueError):
    """An invalid argument."""


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Convert expected errors of other packages, and scikit-learn's own, to the errors above.

    >>> with as_value_errors():
    ...     raise FitError("all labels are 1")
    Traceback (most recent call last):
    slc_ops.api.errors.CannotFit: all labels are 1
    """
    try:
        yield
    except SlcError as error:
        if isinstance(error, ValueError):
            raise
        if isinstance(error, FitError):
            raise CannotFit(in_python(str(error))) from error
        if isinstance(error, SettingsError):
            raise BadOption(in_python(str(error))) from error
        raise FrameError(in_python(str(error))) from error
    except ValueError as error:
        raise FrameError(str(error)) from error


def in_python(text: str) -> str:
    """Rewrite a command-line message for Python callers.

    >>> in_python("it has a, b (rename with --map item_id=your_name)")
    "it has a, b (rename with columns={'item_id': 'your_name'})"
    """
    return re.sub(r"--map (\w+)=(\w+)", r"columns={'\1': '\2'}", text)
