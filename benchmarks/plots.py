"""Draws the plots of docs/speed.md: `python benchmarks/plots.py [--only peers,growth] [--into docs/images]`.

It reads `benchmarks/figures/NAME.json`, which the benchmark of that name printed with `--json`, and writes
`speed-NAME.svg` and `speed-NAME.png`. `history` and `drafts` (of `growth.py`) hold what was
printed for both stores. It needs matplotlib (`pip install -e '.[plots]'`).
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

FIGURES: Final = Path(__file__).parent / "figures"
IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
COLOURS: Final = ("#2f6f9f", "#d98032", "#5a9a5a", "#a65a8f", "#7a7a7a")

Found: TypeAlias = Any
"""What a benchmark printed."""


def _axes(count: int, title: str, height: float = 3.4) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(8.5, height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    return figure, [figure.add_subplot(1, count, number + 1) for number in range(count)]


def _plain(axis: Any) -> None:  # noqa: ANN401 - an axis of either kind
    """Shows the numbers of a logarithmic axis as they are."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


NAMES: Final = {
    "redraft, sqlite": "Redraft, SQLite",
    "burr, sqlite": "Burr, SQLite",
    "eventsource, sqlite": "eventsource-py, SQLite",
    "langgraph, sqlite": "LangGraph, SQLite",
    "redraft, rabbit": "Redraft, RabbitMQ and PostgreSQL",
    "langgraph, postgresql": "LangGraph, PostgreSQL",
    "faststream, quorum": "FastStream, RabbitMQ",
}
"""The peers that are drawn; the loop by hand, which is no peer, is many times as fast."""


def peers(found: Found) -> Figure:
    """Loops a second of each peer, one at a time and 64 at once: the median, from the lowest to the highest."""
    figure, both = _axes(
        2, "Loops of nine steps a second: median of five, lowest to highest (each side has its own scale)"
    )
    names = list(NAMES)[::-1]
    for axes, at_once in zip(both, ("1", "64"), strict=True):
        rates = [[each["loops_per_s"] for each in found[name][at_once]] for name in names]
        middles = [statistics.median(each) for each in rates]
        reach = [[middle - min(each), max(each) - middle] for middle, each in zip(middles, rates, strict=True)]
        colours = [COLOURS[0] if name.startswith("redraft") else COLOURS[4] for name in names]
        labels = [NAMES[name] for name in names]
        axes.barh(labels, middles, xerr=list(zip(*reach, strict=True)), color=colours, capsize=2)
        axes.set_xlabel("loops a second")
        axes.set_title("one at a time" if at_once == "1" else f"{at_once} at once", fontsize=10)
    both[1].set_yticklabels([])
    return figure


def processes(found: Found) -> Figure:
    """The CPU time of a loop in each process of a deployment."""
    figure, both = _axes(2, "CPU time of a loop on RabbitMQ and PostgreSQL, by process", 2.6)
    for axes, each in zip(both, found, strict=True):
        parts: Mapping[str, float] = each["by_process"]
        bars = axes.barh(list(parts)[::-1], list(parts.values())[::-1], color=COLOURS[0])
        axes.bar_label(bars, fmt="%.1f", padding=2)
        axes.set_xlabel("ms of CPU a loop")
        many = "one at a time" if each["at_once"] == 1 else f"{each['at_once']} at once"
        axes.set_title(f"{many}: {each['cpu_ms_per_loop']:.1f} ms in all", fontsize=10)
    return figure


def coordinators(found: Found) -> Figure:
    """The CPU time of a loop by process, and loops a second, by the number of coordinators."""
    figure, (cpu, rate) = _axes(2, "Several coordinators on two cores, 256 runs at once", 2.8)
    names = [str(each["coordinators"]) for each in found]
    first = [each["by_coordinator"][0] for each in found]
    others = [sum(each["by_coordinator"][1:]) for each in found]
    rest = [each["cpu_ms_per_loop"] - sum(each["by_coordinator"]) for each in found]
    bottom = [0.0] * len(found)
    parts = {"the coordinator that relays": first, "the other coordinators": others, "worker and client": rest}
    for (label, values), colour in zip(parts.items(), COLOURS, strict=False):
        cpu.bar(names, values, bottom=bottom, width=0.5, color=colour, label=label)
        bottom = [under + value for under, value in zip(bottom, values, strict=True)]
    cpu.set_ylim(0, 1.5 * max(bottom))
    cpu.legend(fontsize=8)
    rate.bar(names, [each["loops_per_s"] for each in found], color=COLOURS[0], width=0.5)
    for axes, label in ((cpu, "ms of CPU a loop"), (rate, "loops a second")):
        axes.set_xlabel("coordinators")
        axes.set_ylabel(label)
    return figure


def growth(found: Found) -> Figure:
    """The CPU time of a step, by what might make it grow."""
    figure, three = _axes(3, "CPU time of a step, by what it might grow with", 2.8)
    what = ("recorded_runs", "iterations", "critics")
    labels = ("recorded runs in the log", "iterations in a run", "critics side by side")
    for axes, name, label in zip(three, what, labels, strict=True):
        sizes = found[f"cpu_ms_per_step_by_{name}"]
        axes.plot([int(size) for size in sizes], list(sizes.values()), "o-", color=COLOURS[0])
        axes.set_xscale("log")
        axes.set_xticks([int(size) for size in sizes])
        _plain(axes.xaxis)
        axes.set_ylim(0, 1.15 * max(max(found[f"cpu_ms_per_step_by_{each}"].values()) for each in what))
        axes.set_xlabel(f"{label} (logarithmic)")
    three[0].set_ylabel("ms of CPU a step")
    return figure


def drafts(found: Found) -> Figure:
    """MB of drafts a second, by the size of a draft, beside what store and broker take."""
    figure, (axes,) = _axes(1, "Throughput of large drafts, 8 runs at once")
    labels = {
        "mb_per_s": "Redraft on SQLite",
        "limit_mb_per_s_store": "rows into a bare SQLite table",
        "rabbit_mb_per_s": "Redraft on RabbitMQ and PostgreSQL",
        "rabbit_limit_mb_per_s_store": "rows into a bare PostgreSQL table",
        "rabbit_limit_mb_per_s_broker": "messages to RabbitMQ",
    }
    for (name, label), colour in zip(labels.items(), COLOURS, strict=True):
        if name in found:
            sizes = found[name]
            style = "o-" if label.startswith("Redraft") else "o--"
            axes.plot([int(size) / 1024 for size in sizes], list(sizes.values()), style, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([int(size) / 1024 for size in found["mb_per_s"]])
    _plain(axes.xaxis)
    _plain(axes.yaxis)
    axes.set_xlabel("size of a draft in KiB (logarithmic)")
    axes.set_ylabel("MB of drafts a second (logarithmic)")
    axes.legend(fontsize=8, handlelength=4)
    return figure


def history(found: Found) -> Figure:
    """The time that whole passes over a long history take, on each store."""
    figure, (axes,) = _axes(1, f"A history of {found[0]['events']:,} events", 2.8)
    passes: Mapping[str, Callable[[Found], float]] = {
        "read the log": lambda each: each["events"] / each["tail_per_s"],
        "make projections": lambda each: each["built_s"],
        "rebuild and compare": lambda each: each["rebuilt_s"],
        "audit: the chain": lambda each: each["chain_s"],
        "audit: the plans": lambda each: each["plans_s"],
    }
    height, stores = 0.8 / len(found), {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    for number, each in enumerate(found):
        places = [-at - number * height for at in range(len(passes))]
        seconds = [of(each) for of in passes.values()]
        axes.barh(places, seconds, height, color=COLOURS[number], label=stores[each["store"]])
    axes.set_yticks([-at - height * (len(found) - 1) / 2 for at in range(len(passes))], list(passes))
    axes.set_xlabel("seconds")
    axes.legend(fontsize=8)
    return figure


PLOTS: Final[Mapping[str, Callable[[Found], Figure]]] = {
    plot.__name__: plot for plot in (peers, processes, coordinators, growth, drafts, history)
}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--only", default=",".join(PLOTS), help="these alone, by their names (default all)")
    options.add_argument("--figures", type=Path, default=FIGURES, help="where the figures are")
    options.add_argument("--into", type=Path, default=IMAGES, help="where the plots go (default docs/images)")
    given = options.parse_args()
    if unknown := set(given.only.split(",")) - PLOTS.keys():
        options.error(f"--only: no plot is named {min(unknown)!r}; there are {', '.join(PLOTS)}")
    mpl.rcParams |= {"svg.hashsalt": "redraft", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    given.into.mkdir(parents=True, exist_ok=True)
    for name in given.only.split(","):
        figure = PLOTS[name](json.loads((given.figures / f"{name}.json").read_text(encoding="utf-8")))
        for kind, more in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 120})):
            figure.savefig(given.into / f"speed-{name}.{kind}", **more)


if __name__ == "__main__":
    main()
