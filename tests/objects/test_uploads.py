"""Which upload a put continues: its own, that of its client's last process, or none."""

from __future__ import annotations

from streamlink.objects.shelf import Slot
from streamlink.objects.uploads import Upload, Uploads
from streamlink.objects.wire import Caller, Terms
from streamlink.stores.memory import MemoryStore

TERMS = Terms(7, (), None, None)


def begun(uploads: Uploads, caller: Caller, *, peer: str = "site-1") -> Upload:
    key = uploads.key_of(peer, "model", caller)
    slot = Slot("ab" * 16, 7)
    upload = Upload(key, caller, TERMS, slot, MemoryStore(), expires=5.0)
    uploads.add(upload)
    return upload


def test_another_process_of_the_client_continues_what_its_last_one_began() -> None:
    uploads = Uploads()
    first = begun(uploads, Caller("process 1", "call"))
    for is_running in (True, False):
        first.is_running = is_running
        again = Caller("process 2", "other")
        assert uploads.find(uploads.key_of("site-1", "model", again)) is first
        assert uploads.is_good_for(first, again, TERMS)


def test_two_calls_of_one_process_put_the_same_model_twice() -> None:
    uploads = Uploads()
    first = begun(uploads, Caller("process", "call 1"))
    second = begun(uploads, Caller("process", "call 2"))
    assert first is not second
    for upload in (first, second):
        assert uploads.find(uploads.key_of("site-1", "model", upload.caller)) is upload


def test_no_client_finds_what_another_has_put() -> None:
    uploads = Uploads()
    begun(uploads, Caller("process", "call"))
    assert uploads.find(uploads.key_of("site-2", "model", Caller("process", "call"))) is None


def test_other_terms_begin_anew() -> None:
    uploads = Uploads()
    upload = begun(uploads, Caller("process", "call"))
    assert not uploads.is_good_for(upload, upload.caller, Terms(7, None, None, None))


def test_only_what_was_cut_expires() -> None:
    uploads = Uploads()
    upload = begun(uploads, Caller("process", "call"))
    before, over = uploads.next_expiry, uploads.take_expired(9.0)
    assert (before, over) == (None, [])
    upload.is_running = False
    assert uploads.next_expiry == 5.0
    assert not uploads.take_expired(4.0)
    assert uploads.take_expired(5.0) == [upload]
    assert not len(uploads)


def test_the_uploads_of_a_client_are_those_of_its_name() -> None:
    uploads = Uploads()
    own = [begun(uploads, Caller("process", call)) for call in ("call 1", "call 2")]
    begun(uploads, Caller("process", "call"), peer="site-2")
    assert uploads.of("site-1") == own
    assert not uploads.of("site-3")
