"""A storage over HTTP for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.s3_server import Storage, s3_storage


@pytest.fixture(scope="session")
def _running_storage() -> Iterator[Storage]:
    with s3_storage() as storage:
        yield storage


@pytest.fixture
def storage(_running_storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The storage, with nothing going wrong so far; the environment says where it is."""
    for name, value in _running_storage.environment().items():
        monkeypatch.setenv(name, value)
    _running_storage.proxy.begin()
    return _running_storage
