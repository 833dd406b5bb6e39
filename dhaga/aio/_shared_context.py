"""The Context of a Task that a dhaga awaits: the caller's own, so that each sees the variables that the other sets.

Where that cannot be entered again, the Task has a copy, whose variables are copied back at the end of the await.
"""

from __future__ import annotations

from contextvars import Context, copy_context

from greenlet import getcurrent


def context_to_share() -> tuple[Context, Context | None]:
    """Return the caller's context for a Task, and None; or a copy, twice, if the context cannot be entered again.

    A context inside ``Context.run`` cannot.
    """
    me = getcurrent()
    context = me.gr_context
    if context is None:  # main code that has used no context variable yet
        copy_context()
        context = me.gr_context
    assert context is not None
    try:
        context.run(int)
    except RuntimeError:
        copy = context.copy()
        return copy, copy
    return context, None


def copy_variables_back(copy: Context) -> None:
    """Copy the variables that the Task has set in its copy to the caller's context."""
    for variable, value in copy.items():
        if variable.get(copy) is not value:  # the copy as default means: not set in this context
            variable.set(value)
