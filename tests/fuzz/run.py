"""Run many cases in processes that are watched: `python -m tests.fuzz.run --count 2000 [--vendor V] [--first SEED] [--out FILE]`.

A case that takes longer than `--limit` seconds is a hang, a process that ends without a word is a crash; both are reported with their seed
and the run goes on. Exit status 1 if anything went wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from tests.fuzz.case import run_case
from tests.fuzz.deliveries import WRITERS

CHILD: tuple[str, ...] = ()
"""Another program to watch, as source text; for the test of the watcher."""
MEMORY = Path("/dev/shm")  # flushing to disk is most of a case's time


def cases(vendors: list[str], first: int, count: int) -> list[tuple[str, int]]:
    """Deal the seeds out to the vendors in turn."""
    return [(vendors[number % len(vendors)], first + number) for number in range(count)]


def child(vendors: list[str], first: int, count: int) -> None:
    """Run cases and print a line for each."""
    for vendor, seed in cases(vendors, first, count):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            print(json.dumps(asdict(run_case(vendor, seed, Path(folder) / "case"))), flush=True)


def watched(vendors: list[str], first: int, count: int, limit_s: float):
    """Yield a result per case, starting the child again behind every case that it does not come back from."""
    wanted, done = cases(vendors, first, count), 0
    while done < count:
        order = [vendors[(done + number) % len(vendors)] for number in range(len(vendors))]
        program = ["-c", *CHILD] if CHILD else ["-m", "tests.fuzz.run"]
        words = [sys.executable, *program, "--child", "--first", str(first + done), "--count", str(count - done)]
        process = subprocess.Popen(
            [*words, *(f"--vendor={name}" for name in order)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        lines: Queue = Queue()
        Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        try:
            while done < count:
                line = lines.get(timeout=limit_s)
                if line is None:
                    break
                yield json.loads(line)
                done += 1
            why = f"the process ended with status {process.wait(10)}"
        except Empty:
            why = f"no answer for {limit_s:.0f} s"
        process.kill()
        process.wait()
        if done < count:
            vendor, seed = wanted[done]
            yield {"vendor": vendor, "seed": seed, "damage": "?", "endings": [], "problems": [why], "odd": []}
            done += 1


def _pump(stream, lines: Queue) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--vendor", action="append")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    vendors = options.vendor or sorted(WRITERS)
    if options.child:
        child(vendors, options.first, options.count)
        return 0
    endings, odd, bad = {name: Counter() for name in vendors}, Counter(), []
    for number, result in enumerate(watched(vendors, options.first, options.count, options.limit), 1):
        endings[result["vendor"]].update(result["endings"])
        odd.update(f"{result['vendor']} {text.partition(':')[0]}" for text in result["odd"])
        if result["problems"]:
            bad.append(result)
            print(json.dumps(result), flush=True)
        if options.out and (result["problems"] or result["odd"]):
            with options.out.open("a") as file:
                file.write(json.dumps(result) + "\n")
        if number % 100 == 0:
            print(f"{number}/{options.count}: {len(bad)} bad", flush=True)
    for vendor in vendors:
        print(vendor, dict(endings[vendor]))
    print(f"{options.count} cases, {len(bad)} bad; errors that validate sees in what was built: {dict(odd)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
