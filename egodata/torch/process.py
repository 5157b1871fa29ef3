"""What a process costs, as the kernel counts it. Linux only: elsewhere the numbers are not known and said to be so."""

import os
from pathlib import Path

PROC = Path("/proc")


def pss_bytes(pid: int) -> int | None:
    """Return the memory of a process, shared pages counted by the share that falls to it; None where that is not known."""
    return _field(PROC / str(pid) / "smaps_rollup", "Pss:", unit=1024)


def anonymous_bytes(pid: int) -> int | None:
    """Return the memory of a process that lies in no file: unlike PSS it stays when other processes, which share its libraries, end."""
    return _field(PROC / str(pid) / "smaps_rollup", "Pss_Anon:", unit=1024)


def read_bytes() -> int | None:
    """Return the bytes that this process has asked files for so far, from disk or from the page cache; mapped pages are not among them."""
    return _field(PROC / "self" / "io", "rchar:", unit=1)


def cpu_s(pid: int) -> float | None:
    """Return the CPU seconds of a process so far; None where they are not known."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _field(path: Path, name: str, *, unit: int) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * unit for line in lines if line.startswith(name)), None)
