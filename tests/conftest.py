"""Settings every test runs under; fixtures live beside the tests that use them."""

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import few_of_products
from tests.support.process_guard import ProcessGuard

# No deadline and no complaint about speed: a busy machine must not fail a right program. The
# examples of `make test` are the same for everybody, so that it never fails by chance; those of
# `make test-all` are new ones on a developer's machine, and the same where changes are judged.
settings.register_profile(
    "full",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.register_profile(
    "quick", settings.get_profile("full"), max_examples=10, derandomize=True, database=None
)
settings.load_profile("quick")  # `make test-all` asks for the other: --hypothesis-profile=full


# All that is logged is kept for a test that fails. The `log_level` of pytest would be set anew for
# each phase of each test, and so empty what each of hundreds of loggers has cached.
logging.getLogger().setLevel(logging.DEBUG)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, and let it pass over what is there from then on.

    Modules and the items of all tests live until the end. To walk through them again and again is
    in vain, and costs each worker a third of its collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        _let_all_logs_reach_the_root()
        gc.freeze()
        gc.enable()


def _let_all_logs_reach_the_root() -> None:
    """Spare pytest, for each phase of each test, a handler at each of PyTorch's forty loggers."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Forget what a test has logged once it has passed.

    A worker would send it with its report, and nobody would read it.
    """
    report = yield
    if report.passed and hasattr(item.config, "workerinput"):
        report.sections.clear()
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most cases of each test marked ``product`` to the full profile."""
    if settings.get_current_profile_name() != "full":
        few, most = few_of_products(items)
        items[:] = few
        config.hook.pytest_deselected(items=most)


def pytest_configure(config: pytest.Config) -> None:
    """Watch which tests start processes."""
    config.pluginmanager.register(ProcessGuard())


# A shell without job control lets its background jobs ignore Ctrl-C, and so would every process of
# a suite that runs there; the tests interrupt themselves and each other.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _each in (signal.SIGHUP, signal.SIGTERM):  # ignored under nohup, and so by what tests start
    if signal.getsignal(_each) is signal.SIG_IGN:
        signal.signal(_each, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _no_log_outlives_its_test() -> Iterator[None]:
    """Take away what a command has set up: a late line would go to a stream that is closed.

    All of it, not only what this test has added: a fixture of a module may have run a command
    before the first of its tests, and its streams are closed as well.
    """
    logger = logging.getLogger("streamlink")
    yield
    logger.handlers.clear()
