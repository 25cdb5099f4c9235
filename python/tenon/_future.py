# SPDX-License-Identifier: Apache-2.0
"""The result of a run in the background."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, Generator, Optional


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """A concurrent.futures.Future that `await` takes too."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()

    def _settle(self, value: Any, error: Optional[BaseException]) -> None:
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)
