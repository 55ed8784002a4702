"""What each side keeps of its requests: for a reply, for a repeat, and never twice."""

from __future__ import annotations

from streamlink.protocol.frames import Cancel, Reply, Request, TaskProgress
from streamlink.protocol.requests import MAX_KEPT, OpenRequests, ServedRequests


def asked(count: int) -> OpenRequests:
    """Return the book of a side that has sent ``count`` requests."""
    requests = OpenRequests()
    for _ in range(count):
        requests.add(Request(requests.next_number(), "train"))
    return requests


def test_a_new_call_begins_with_cancels_and_open_requests_in_their_order() -> None:
    requests = asked(3)
    cancel = requests.cancel(2, "enough")
    assert list(requests.to_repeat()) == [cancel, Request(1, "train"), Request(3, "train")]


def test_a_reply_counts_once_and_makes_its_cancel_needless() -> None:
    requests = asked(1)
    requests.cancel(1, "enough")
    assert not requests.answer(1)
    assert list(requests.to_repeat()) == []


def test_only_an_open_request_can_be_cancelled_and_once() -> None:
    requests = asked(1)
    assert requests.cancel(1, "enough") == Cancel(1, "enough")
    assert requests.cancel(1, "again") is None


def test_progress_is_a_counter_that_grew() -> None:
    requests = asked(1)
    assert requests.is_progress(TaskProgress(1, 5))
    assert not requests.is_progress(TaskProgress(1, 5))
    assert not requests.is_progress(TaskProgress(9, 5))


def test_a_request_whose_reply_began_is_not_processed_again() -> None:
    requests = asked(2)
    requests.begin_reply(1)
    assert (requests.complete(1), requests.complete(2)) == (False, True)
    assert requests.processing == {2}


def test_a_request_that_arrives_again_is_not_new() -> None:
    served = ServedRequests()
    assert served.is_new(Request(1, "train"))
    assert not served.is_new(Request(1, "train"))
    assert served.answer_to(1) is None  # it is still in work
    served.reply(Reply(1))
    assert served.answer_to(1) == Reply(1)


def test_only_the_latest_replies_are_kept_and_an_older_one_is_reported_as_lost() -> None:
    served = ServedRequests()
    for number in range(1, MAX_KEPT + 2):
        served.is_new(Request(number, "train"))
        served.reply(Reply(number))
    answer = served.answer_to(1)
    assert answer is not None
    assert "is not kept" in answer.error
    assert served.answer_to(2) == Reply(2)


def test_progress_is_reported_once_and_repeated_on_a_new_call() -> None:
    served = ServedRequests()
    served.is_new(Request(1, "train"))
    served.report(1, 3)
    served.report(1, 7)
    assert served.take_progress() == [TaskProgress(1, 7)]
    assert not served.has_progress
    served.repeat()
    assert served.take_progress() == [TaskProgress(1, 7)]
