"""Names in messages: the nearest known ones where one is unknown, and paths as a shell takes them."""

import difflib
import shlex
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are close to a wrong one.

    Args:
        name: What was asked for.
        known: What exists.

    Returns:
        A sentence fragment such as ``did you mean a, b?`` or ``known: a, b, c``; empty if nothing is known.

    >>> nearest("obs_hed_pose", ["obs_head_pose", "left.obs_ee_pose"])
    'did you mean obs_head_pose?'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {', '.join(close)}?"
    if not names:
        return "none exist"
    shown = ", ".join(names[:8])
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"known: {shown}{more}"


def shell_word(value: object) -> str:
    """Return a value as one word of a command that somebody copies from a message: quoted where it holds spaces or the like.

    >>> print("egodata verify", shell_word("/data/week 3"))
    egodata verify '/data/week 3'
    """
    return shlex.quote(str(value))
