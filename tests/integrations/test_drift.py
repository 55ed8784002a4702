"""How a framework differs from what is known of it."""

from __future__ import annotations

from streamlink.integrations.drift import drift


class Framework:
    def same(self, items: object, context: object) -> None: ...

    def changed(self, items: object, more: object) -> None: ...


def test_only_what_has_changed_or_gone_is_reported() -> None:
    found = {"same": Framework.same, "changed": Framework.changed, "gone": None}
    known = {"same": "items, context", "changed": "items", "gone": "items"}
    assert drift(found, known) == [
        "changed(items, more) was changed(items)",
        "gone() was gone(items)",
    ]
