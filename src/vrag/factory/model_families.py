"""The family of a model: by the settings, its checkpoint, its name, its server, or a measurement.

The family determines how images are shown and in which coordinates boxes are read; a wrong one crops another
part of the page without an error. So nothing is guessed silently: if neither name nor server nor measurement
decide, boxes are read in the default convention and the run carries a notice.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vrag.factory.models import LOCAL, USUAL_PROFILE, FamilySource, ModelFamily, open_local_model
from vrag.model_profiles import profile_named, profile_of

if TYPE_CHECKING:
    from vrag.settings import Settings

__all__ = ["open_family"]

log = logging.getLogger("vrag")


def open_family(settings: Settings, *, probe: bool | None = None, quiet: bool = False) -> ModelFamily:
    """Return the family of the model that the settings name.

    If the name does not decide, the server is asked, and then the model is measured once; the result is
    cached.

    Args:
        settings: The settings of the model and its server.
        probe: Whether the model may be measured; None for the value of the settings.
        quiet: Leave the notice to the caller instead of logging it.

    Raises:
        SettingsError: If the profile does not exist, the server's address is invalid, or its key is missing
            or withheld.
        ModelError: If the family of the checkpoint is unknown.
    """
    if settings.profile != "auto":
        return ModelFamily(profile_named(settings.profile), FamilySource.SETTING)
    if settings.model.startswith(LOCAL):
        return ModelFamily(open_local_model(settings).profile, FamilySource.CHECKPOINT)
    if not settings.model:
        return ModelFamily(profile_named(USUAL_PROFILE), FamilySource.NOTHING)
    if known := profile_of(settings.model):
        return ModelFamily(known, FamilySource.NAME)
    from vrag.factory.family_detection import detect_family

    family = detect_family(settings, settings.probe if probe is None else probe)
    if family.source is FamilySource.NOTHING and not quiet:
        log.warning("%s", family.notice)
    return family
