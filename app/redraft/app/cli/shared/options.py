"""Options and arguments that several verbs share, and structs of those that belong together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_type_hints

import msgspec
import typer

from redraft.app.process.health import alive_beside
from redraft.app.process.lifecycle import PATIENCE
from redraft.events.errors import InputError

R = TypeVar("R")


def with_options(verb: Callable[..., R]) -> Callable[..., R]:
    """Returns the verb as typer takes it: the fields of each struct among its parameters are options of their own."""
    hints = get_type_hints(verb, include_extras=True)
    given = inspect.signature(verb).parameters.values()
    expanded = [each for parameter in given for each in _expanded(parameter.replace(annotation=hints[parameter.name]))]

    def called(**values: Any) -> R:  # noqa: ANN401 - whatever the options are
        return verb(**{each.name: _value(each.name, hints[each.name], values) for each in given})

    called.__name__, called.__doc__ = verb.__name__, verb.__doc__
    called.__annotations__ = {each.name: each.annotation for each in expanded}
    vars(called)["__signature__"] = inspect.Signature(expanded)
    return called


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    if not _is_struct(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    fields = msgspec.structs.fields(parameter.annotation)
    return [each for field in fields for each in _expanded(_parameter(field))]


def _parameter(field: msgspec.structs.FieldInfo) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.required else field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)


def _value(name: str, kind: Any, values: dict[str, object]) -> object:  # noqa: ANN401 - a type, or an alias of one
    if not _is_struct(kind):
        return values[name]
    return kind(**{field.name: _value(field.name, field.type, values) for field in msgspec.structs.fields(kind)})


StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the events are: sqlite:///path or postgresql://… (default: REDRAFT_STORE, else your data folder).",
    ),
]
BusOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bus",
        metavar="URL",
        help="The broker: amqp://user:password@host:5672/ (default: REDRAFT_BUS, where a password is safer).",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RunArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or the start or end of it, or `last`.")
]
TagOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A word to find the run by; may be repeated.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
TextOption: TypeAlias = Annotated[
    bool, typer.Option("--text", help="SOURCE is the text itself, whatever it looks like.")
]
TrustOption: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Go on with a run that was imported: carry out somebody else's plan.")
]
ActorsOption: TypeAlias = Annotated[
    str, typer.Option(metavar="FILE.py", help="A Python file with the plan's own functions.")
]
WorkflowArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="A shipped one, file.py:name, or plan.yaml.")
]


StateOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="state.NAME=VALUE",
        help="A value with which the run's state begins: state.audience=children; JSON, or a text. May be repeated.",
    ),
]


def refuse_blank(key: str | None) -> str | None:
    """Raises InputError for a key of blanks: a script whose variable is empty would get a run more with each call."""
    if key is not None and not key.strip():
        raise InputError("--key is empty: give it a word, such as notes-7, or leave it out")
    return key


def refuse_empty(remedy: str) -> Callable[[typer.Context, typer.CallbackParam, str], str]:
    """Returns what raises InputError for an option that is given without a text: a script's variable was empty."""

    def refuse(context: typer.Context, param: typer.CallbackParam, text: str) -> str:
        source = context.get_parameter_source(param.name or "")
        if not text.strip() and source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{param.opts[0]} is empty: give {remedy}, or leave it out")
        return text

    return refuse


LARGEST: Final = 2**63 - 1
"""The largest whole number that the databases take."""


def refuse_beyond(param: typer.CallbackParam, number: int | None) -> int | None:
    """Raises InputError for a number that the databases do not take; what is too small, each verb says itself."""
    if number is not None and number > LARGEST:
        raise InputError(f"{param.opts[0]} is {number}; give at most {LARGEST}")
    return number


class PlanChanges(msgspec.Struct, frozen=True):
    """The options that change the plan of a workflow."""

    until: Annotated[
        str,
        typer.Option(
            callback=refuse_empty("a condition, such as 'score >= 0.9'"),
            help="End the outermost loop when this holds, such as 'score >= 0.9'.",
        ),
    ] = ""
    max_iterations: Annotated[int | None, typer.Option(help="The most iterations of the outermost loop.")] = None
    budget: Annotated[
        str,
        typer.Option(
            metavar="LIMITS",
            callback=refuse_empty("limits, such as cost=2"),
            help="What the run may use at most: tokens=50000,cost=2,calls=40,seconds=600.",
        ),
    ] = ""
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="For steps that ask a model and name none: openai:…, anthropic:…, google:…, ollama:… (REDRAFT_MODEL).",
        ),
    ] = ""


class RunOptions(msgspec.Struct, frozen=True):
    """The words and options of `redraft run`; those of `redraft submit` are some of them."""

    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[WORKFLOW] SOURCE",
            help="What to refine: a file or folder, - for standard input, or the text itself. "
            "WORKFLOW may stand before it instead of after -w.",
        ),
    ] = []
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            "-w",
            help="prose, code, article, file.py:name, or plan.yaml (default: code for Python, else prose).",
        ),
    ] = ""
    actors: ActorsOption = ""
    text: TextOption = False
    out: Annotated[str, typer.Option(metavar="PATH", help="Publish to this file instead of standard output.")] = ""
    changes: PlanChanges = PlanChanges()
    settings: StateOption = []
    tests: Annotated[
        list[str], typer.Option(metavar="PATH", help="Tests that judge the code too; may be repeated.")
    ] = []
    key: Annotated[
        str | None,
        typer.Option(
            callback=refuse_blank, help="The same key is the same run: it goes on, or gives its result again."
        ),
    ] = None
    tag: TagOption = None
    resume: Annotated[
        str,
        typer.Option(
            metavar="RUN",
            callback=refuse_empty("a run, such as last"),
            help="Go on with a run that was interrupted; no SOURCE.",
        ),
    ] = ""
    trust: TrustOption = False
    watch: Annotated[bool, typer.Option("--watch", help="Show what models write, as it comes.")] = False
    batch: Annotated[
        str, typer.Option(metavar="FILE.jsonl", help="Many briefs, one on each line: a text in quotes, or an object.")
    ] = ""
    concurrency: Annotated[int, typer.Option(min=1, help="How many runs of a batch go on at once.")] = 16
    texts: Annotated[
        bool, typer.Option("--texts", help="With --json: the texts before and after each refinement too.")
    ] = False


class ForkOptions(msgspec.Struct, frozen=True):
    """The words and options of `redraft fork`."""

    run: RunArgument
    at: Annotated[
        str,
        typer.Option("--at", metavar="N|TIME", help="Begin with its first N events, or with those up to this time."),
    ]
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="What is different from there on: until, max_iterations, keep, rollback_margin, "
            "rollback_of, on_exhausted, on_plateau (LOOP.until where there are several loops), on_failure, "
            "STEP.timeout, STEP.queue_wait, "
            "STEP.actor, STEP.history, STEP.only_issues, STEP.when, STEP.OPTION, state.NAME. "
            "May be repeated.",
        ),
    ] = []
    brief: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            callback=refuse_empty("a file, - or a text"),
            help="Another brief: a file, -, or the text itself.",
        ),
    ] = ""
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow", "-w", metavar="FILE.py:NAME", help="Where its functions are (default: as its run began)."
        ),
    ] = ""
    actors: ActorsOption = ""
    out: Annotated[str, typer.Option(metavar="PATH", help="Publish to this file, by the publisher file.")] = ""
    key: Annotated[
        str | None,
        typer.Option(callback=refuse_blank, help="The same key is the same fork, however often it is asked for."),
    ] = None
    tag: TagOption = None
    trust: TrustOption = False


ByOption: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Your name, for the record (default: your user name).")
]
ReasonOption: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="The reason; it is kept in the record.")]


def name_of(by: str) -> str:
    """Returns the name that was given, else that of the user."""
    from getpass import getuser

    if by.strip():
        return by.strip()
    try:
        return getuser()
    except (OSError, KeyError):  # as in a container whose user has no name
        return "somebody"


class SignedFiles(msgspec.Struct, frozen=True):
    """The files of a checkpoint that is signed, and of one that is verified; empty where they are not given."""

    checkpoint: Annotated[
        str, typer.Option(metavar="FILE", help="With --all: verify, and write a signed checkpoint of the log.")
    ] = ""
    key: Annotated[
        str, typer.Option(metavar="FILE", help="The private key to sign it with (default: REDRAFT_SIGNING_KEY).")
    ] = ""
    against: Annotated[
        str, typer.Option(metavar="FILE", help="With --all: verify that the log still holds all of this checkpoint.")
    ] = ""
    public_key: Annotated[
        str, typer.Option(metavar="FILE", help="The public key of its signature (default: REDRAFT_PUBLIC_KEY).")
    ] = ""


class SteeringOptions(msgspec.Struct, frozen=True):
    """The options of every verb that steers a run: the author, the store and the bus."""

    by: ByOption = ""
    store: StoreOption = None
    bus: BusOption = None
    json: JsonOption = False


PatienceOption: TypeAlias = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long to keep trying to reach the servers at the start.")
]


def _without_leftovers(path: Path | None) -> Path | None:
    """Deletes the health files of an earlier process that was killed: their age would make this one look hung."""
    for left in (path, alive_beside(path)) if path else ():
        with suppress(OSError):  # whoever writes it says what is wrong
            left.unlink()
    return path


JsonLogOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Log JSON lines, on a terminal too.")]


class ProcessOptions(msgspec.Struct, frozen=True):
    """The options of a verb that serves until it is told to end."""

    health_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            callback=_without_leftovers,
            envvar="REDRAFT_HEALTH_FILE",
            show_envvar=False,
            help="A file that is touched every 5 s while all is well (default: REDRAFT_HEALTH_FILE, else none).",
        ),
    ] = None
    patience: PatienceOption = PATIENCE
    json: JsonLogOption = False
    tied: Annotated[bool, typer.Option("--tied", hidden=True, help="End when standard input ends.")] = False

    @property
    def log_format(self) -> Literal["json"] | None:
        """The form of the log, None where the settings say it."""
        return "json" if self.json else None
