"""Stores: keys and values that the processes of a group share. With one process, a dictionary in its memory."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from tdt.distributed.constants import default_pg_timeout


class DistError(RuntimeError):
    """A failure in `tdt.distributed`; base class of the others."""


class DistBackendError(DistError):
    """A failure of a backend."""


class DistNetworkError(DistError):
    """A failure of the network."""


class DistStoreError(DistError):
    """A failure of a store, such as a key that was not set before the timeout."""


class Store:
    """Base class of stores: `set` writes a key, `get` waits for one and returns its bytes.

    Threads of the process may share a store: `get` and `wait` in one return when another sets the key.

    >>> import tdt
    >>> store = tdt.distributed.HashStore()
    >>> store.set("epoch", "3")
    >>> store.get("epoch"), store.add("count", 2), store.add("count", 1), store.num_keys()
    (b'3', 2, 3, 2)
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._timeout = default_pg_timeout

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait for a key."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set `key` to `value`."""
        with self._changed:
            self._values[key] = _bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """Value of `key`, once it is set. Raises DistStoreError after the timeout."""
        with self._changed:
            self._wait([key], self._timeout)
            return self._values[key]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Return when all `keys` are set. Raises DistStoreError after the timeout."""
        with self._changed:
            self._wait(keys, self._timeout if timeout is None else timeout)

    def _wait(self, keys: list[str], timeout: timedelta) -> None:
        if not self._changed.wait_for(lambda: all(key in self._values for key in keys), timeout.total_seconds()):
            missing = next(key for key in keys if key not in self._values)
            raise DistStoreError(f"Wait timeout: no process has set the key '{missing}' within {timeout}")

    def add(self, key: str, amount: int) -> int:
        """Add `amount` to the counter `key`, initially 0, and return the sum. ValueError if the value is not an integer."""
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = b"%d" % total
            self._changed.notify_all()
            return total

    def append(self, key: str, value: str | bytes) -> None:
        """Append `value` to the value of `key`."""
        with self._changed:
            self._values[key] = self._values.get(key, b"") + _bytes(value)
            self._changed.notify_all()

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set `key` to `desired_value` if it has `expected_value` (or is not set, and that is empty).

        Returns the value after the call; `expected_value` if the key is not set.
        """
        expected, desired = _bytes(expected_value), _bytes(desired_value)
        with self._changed:
            if self._values.get(key, b"") == expected:
                self._values[key] = desired
                self._changed.notify_all()
            return self._values.get(key, expected)

    def check(self, keys: list[str]) -> bool:
        """Whether all `keys` are set."""
        with self._changed:
            return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Delete `key`. Returns whether it was set."""
        with self._changed:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Number of keys that are set."""
        with self._changed:
            return len(self._values)

    def list_keys(self) -> list[str]:
        """Keys that are set."""
        with self._changed:
            return list(self._values)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Values of `keys`, once they are set."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Set each of `keys` to the value at the same position of `values`."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are supported: True."""
        return True


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class HashStore(Store):
    """A store in the memory of this process."""


class TCPStore(Store):
    """A store that processes would share over the network: tdt serves one process, from its memory.

    Args:
        host_name, port: address of the store; no port is opened.
        world_size: number of processes; None and 1 are the same.
        is_master: whether this process holds the store.
        timeout: how long `get` and `wait` wait for a key.
    Raises:
        NotImplementedError: for more than one process, or a store in another process.

    >>> import tdt
    >>> store = tdt.distributed.TCPStore("localhost", 29500, world_size=1, is_master=True)
    >>> store.set("ready", "yes"), store.get("ready"), store.port
    (None, b'yes', 29500)
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = default_pg_timeout, wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        _one_process("TCPStore", world_size)
        if not is_master:
            raise NotImplementedError(
                "TCPStore(is_master=False) would connect to another process; tdt trains in one process, which holds "
                "the store itself: pass is_master=True"
            )
        super().__init__()
        self.host, self.port, self._timeout = host_name, port, timeout


class FileStore(Store):
    """A store that processes would share through a file: tdt serves one process, from its memory.

    NotImplementedError for more than one process.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        _one_process("FileStore", world_size)
        super().__init__()
        self.path = file_name


def _one_process(name: str, world_size: int | None) -> None:
    if world_size not in (None, -1, 1):
        raise NotImplementedError(
            f"{name}: tdt trains in one process, but world_size is {world_size}; start one process (world_size=1)"
        )


class PrefixStore(Store):
    """A view of `store` whose keys begin with `prefix` and a slash.

    >>> import tdt
    >>> store = tdt.distributed.HashStore()
    >>> tdt.distributed.PrefixStore("run", store).set("epoch", "3")
    >>> store.get("run/epoch")
    b'3'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store that holds the values."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return self._store.timeout

    def _full(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._full(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._full(key))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._store.wait([self._full(key) for key in keys], timeout)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._full(key), amount)

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._full(key), value)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._store.compare_set(self._full(key), expected_value, desired_value)

    def check(self, keys: list[str]) -> bool:
        return self._store.check([self._full(key) for key in keys])

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._full(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        prefix = self._full("")
        return [key.removeprefix(prefix) for key in self._store.list_keys() if key.startswith(prefix)]


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Any:
    """Iterator of one (store, rank, world size), by which a process joins its group.

    NotImplementedError for more than one process.

    >>> import tdt
    >>> store, rank, size = next(tdt.distributed.rendezvous("tcp://localhost:29500", rank=0, world_size=1))
    >>> rank, size
    (0, 1)
    """
    _one_process("rendezvous", world_size)
    return iter([(HashStore(), 0, 1)])
