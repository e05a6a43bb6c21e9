"""A pytest plugin for planted bugs: Hypothesis reports the first failure without looking for the smallest one."""

from __future__ import annotations

from hypothesis import Phase, settings

from tests.support import profiles  # noqa: F401 - registers the profile that this one is like

settings.register_profile(
    "planted", parent=settings.get_profile("rota"), phases=[Phase.explicit, Phase.generate], database=None
)
