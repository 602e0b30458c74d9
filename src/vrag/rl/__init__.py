"""Training by reinforcement and supervision: rows, advantages, losses, updates, checkpoints and curves."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrag.rl.episodes.episode import AsyncEpisode, Episode

__all__ = ["AsyncEpisode", "Episode"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of either type
    """Import the episodes when they are asked for: every process of verl imports this package."""
    if name in __all__:
        from vrag.rl.episodes import episode

        return getattr(episode, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
