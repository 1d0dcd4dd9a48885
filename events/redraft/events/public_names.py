"""Lets a package offer names of its modules that are imported when they are first asked for, and are listed once.

    if TYPE_CHECKING:
        from redraft.events.messages.plan import Plan as Plan
    else:
        __getattr__, __dir__ = public_names(__name__)

Type checkers read the imports as they stand; at run time the same lines say where a name is. `from package import *`
offers the names of another such package too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


def public_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package, by its own block `if TYPE_CHECKING:`.

    `__all__` is one of its attributes.
    """
    module = sys.modules[package]

    @cache
    def homes() -> dict[str, str]:
        """Returns the module of each name."""
        import ast  # both take a while, and who imports modules by their own names need not wait for them
        import linecache

        source = "".join(linecache.getlines(module.__file__ or "", vars(module)))
        (block,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        listed = [(name.name, str(each.module)) for each in imports for name in each.names]
        return {name: home for one, home in listed for name in (dir(import_module(home)) if one == "*" else (one,))}

    def get(name: str) -> object:
        """Returns a public name. Raises AttributeError for any other."""
        if name == "__all__":
            return sorted(homes())
        if (name.startswith("__") and name != "__version__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes()[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted(homes())
