"""The Context of a Task that a dhaga awaits. Task and dhaga share the Context, so each sees the other's changes.

If the caller's Context cannot be entered again, the Task has a copy. The copy's variables are copied back at the end.
"""

from __future__ import annotations

from contextvars import Context, copy_context

from greenlet import getcurrent


def context_to_share() -> tuple[Context, Context | None]:
    """Return the context for a Task: the caller's context and None, or the same copy of the caller's context twice.

    A copy is necessary if the caller's context cannot be entered again, that is, inside ``Context.run``.
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
    """Copy the variables that the Task has set in ``copy`` to the caller's context."""
    for variable, value in copy.items():
        if variable.get(copy) is not value:  # get() returns ``copy`` if the variable is not set in this context
            variable.set(value)
