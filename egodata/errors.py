"""Errors that name the thing, what was expected, what came, and what to do.

Every error is built from one finished string, so it survives pickling between processes.
Each class also subclasses the builtin that a caller would catch.
"""


class EgodataError(Exception):
    """Base of every error that egodata raises on purpose."""


class InputError(EgodataError, ValueError):
    """A file, a value or an option that the caller gave is not usable."""


class ConfigError(InputError):
    """A configuration file holds an unknown key, a wrong type or a value out of range."""


class SchemaError(InputError):
    """An id, a name, a shape, a dtype or an attribute breaks the format."""


class NotFoundError(EgodataError, LookupError):
    """Something asked for by name is not there."""


class EpisodeNotFoundError(NotFoundError):
    """No such episode, or no version of it with the content asked for."""


class FeatureNotFoundError(NotFoundError):
    """An episode lacks the feature, camera or annotation key asked for."""


class CorruptEpisodeError(EgodataError, OSError):
    """Stored bytes are missing or changed."""


class WindowError(EgodataError, IndexError):
    """A frame or a row range lies outside the episode."""


class VideoError(EgodataError, OSError):
    """A video cannot be opened, decoded or encoded."""


class HandleError(EgodataError, RuntimeError):
    """A handle that another process opened, or that is closed, was used."""


class ConflictError(EgodataError, RuntimeError):
    """Someone else changed or holds what was to be written."""


class GateError(EgodataError, ValueError):
    """A dataset fails a gate: leakage, an empty head, a pin outside its head, a missing episode."""


class RecipeError(EgodataError, ValueError):
    """A recipe asks for something that an episode cannot give."""


class MissingExtraError(EgodataError, ImportError):
    """An optional dependency is not installed."""


class SampleError(EgodataError, RuntimeError):
    """Reading one sample failed; the message names its episode and frame."""


class WorkerError(EgodataError, RuntimeError):
    """A loader's worker died or gave nothing within its time limit."""
