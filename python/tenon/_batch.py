# SPDX-License-Identifier: Apache-2.0
"""A folder of a million images: shards of rows that are there whole or not at all, so that a restart goes on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _build
from ._errors import Code, Error, counted
from ._rows import Row, RowMaker, assigned_threads, images_below

Item = Tuple[str, Optional[bytes]]


def sources(source: str) -> List[Item]:
    """(path, bytes or None) of a folder, a file, or a Parquet file with "path" or "bytes" columns."""
    if not source.endswith(".parquet"):
        return [(path, None) for path in images_below(source)]
    import pyarrow.parquet as parquet

    table = parquet.read_table(source)
    names = table.column_names
    if "path" not in names:
        raise Error(Code.usage, 'the Parquet file has no column "path"', where=source, why="it has " + ", ".join(names))
    paths = table.column("path").to_pylist()
    contents = table.column("bytes").to_pylist() if "bytes" in names else [None] * len(paths)
    return list(zip(paths, contents))


class Shards:
    """The folder OUTPUT.parts: a Parquet file for each shard, and what they are of."""

    def __init__(self, output: str, engine: str, options: Dict[str, Any], items: Sequence[Item], size: int) -> None:
        self.folder = output + ".parts"
        self.output = output
        self.items = list(items)
        self.size = size
        facts = {"engine": os.path.abspath(engine), "options": options, "size": size}
        text = json.dumps([facts, [path for path, _ in self.items]], sort_keys=True, default=str)
        self.key = hashlib.sha256(text.encode()).hexdigest()
        os.makedirs(self.folder, exist_ok=True)
        self._check()

    def _check(self) -> None:
        path = os.path.join(self.folder, "run.json")
        try:
            with open(path, encoding="utf-8") as file:
                known = json.load(file)["key"]
        except (OSError, ValueError, KeyError):
            known = None
        if known not in (None, self.key):
            raise Error(
                Code.usage,
                "the folder holds parts of another run",
                where=self.folder,
                hint="remove it, or give another --output",
            )
        write_whole(path, json.dumps({"key": self.key}).encode())

    def __len__(self) -> int:
        return (len(self.items) + self.size - 1) // self.size

    def path(self, index: int) -> str:
        return os.path.join(self.folder, "%06d.parquet" % index)

    def is_done(self, index: int) -> bool:
        return os.path.exists(self.path(index))

    def open(self) -> List[int]:
        """Shards that are still to do."""
        return [index for index in range(len(self)) if not self.is_done(index)]

    def of(self, index: int) -> List[Item]:
        return self.items[index * self.size : (index + 1) * self.size]

    def finish(self) -> int:
        """Joins the shards in order; gives the number of rows, which is that of the images."""
        import pyarrow
        import pyarrow.parquet as parquet

        tables = [parquet.read_table(self.path(index)) for index in range(len(self))]
        table = pyarrow.concat_tables(tables)
        if table.num_rows != len(self.items):
            rows, images = counted(table.num_rows, "row"), counted(len(self.items), "image")
            raise Error(Code.internal, "%s for %s" % (rows, images), where=self.folder)
        temporary = self.output + ".part"
        parquet.write_table(table, temporary)
        os.replace(temporary, self.output)
        for index in range(len(self)):
            os.remove(self.path(index))
        os.remove(os.path.join(self.folder, "run.json"))
        os.rmdir(self.folder)
        return int(table.num_rows)


def write_whole(path: str, data: bytes) -> None:
    """The file appears whole or not at all, also where two write it."""
    temporary = "%s.%d.part" % (path, os.getpid())
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def write_shard(path: str, rows: Sequence[Row]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    names = ("path", "error", "width", "height", "result")
    temporary = "%s.%d.part" % (path, os.getpid())
    parquet.write_table(pyarrow.table({name: [row[name] for row in rows] for name in names}), temporary)
    os.replace(temporary, path)


def _local(shards: Shards, make: RowMaker) -> Iterator[int]:
    for index in shards.open():
        items = shards.of(index)
        write_shard(shards.path(index), make.rows([path for path, _ in items], [content for _, content in items]))
        yield index


class Worker:
    """An actor of Ray, with an engine of its own."""

    def __init__(self, engine: str, options: Dict[str, Any]) -> None:
        self._make = RowMaker(engine, **{"threads": assigned_threads(), **options})

    def work(self, path: str, items: Sequence[Item]) -> int:
        write_shard(path, self._make.rows([name for name, _ in items], [content for _, content in items]))
        return len(items)

    def process(self) -> int:
        """For tests that end it."""
        return os.getpid()


def _workers(engine: str, options: Dict[str, Any], address: str, count: int) -> List[Any]:
    """Actors on a Ray cluster, of which one at least is there when this returns."""
    import ray

    if not ray.is_initialized():
        ray.init(address=None if address == "local" else address, log_to_driver=False)
    device = options.get("device") or _build.load(engine).device
    gpus = 0 if device == "cpu" else 1
    actor = ray.remote(Worker).options(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)
    pool = [actor.remote(os.path.abspath(engine), options) for _ in range(count)]
    ray.wait([worker.process.remote() for worker in pool], num_returns=1)
    return pool


def _on_ray(shards: Shards, pool: Sequence[Any]) -> Iterator[int]:
    """Shards go to whichever worker is free; those of a worker that died go to another."""
    import ray

    waiting = shards.open()
    running: Dict[Any, Tuple[int, Any]] = {}
    free = list(pool)
    while waiting or running:
        while waiting and free:
            index, worker = waiting.pop(0), free.pop(0)
            running[worker.work.remote(os.path.abspath(shards.path(index)), shards.of(index))] = (index, worker)
        done, _ = ray.wait(list(running), num_returns=1)
        index, worker = running.pop(done[0])
        ray.get(done[0])
        free.append(worker)
        yield index


def batch(
    engine: str,
    source: str,
    output: str,
    *,
    ray: Optional[str] = None,
    workers: int = 2,
    shard: int = 256,
    say: Callable[[str], None] = lambda _: None,
    started: Callable[[Any], None] = lambda _: None,
    **options: Any,
) -> Dict[str, Any]:
    """One row for each image of `source` into the Parquet file `output`: path, error, width, height, result (JSON).

    A run that was interrupted goes on where it was. With `ray` ("local", "auto" or an address) `workers`
    processes work, of one core each; a worker that dies loses nothing. Options are those of RowMaker. The rate that it
    gives leaves out what comes before the first image.
    """
    items = sources(source)
    if not items:
        raise Error(
            Code.io,
            "the source has no images",
            where=source,
            hint="images are .jpg, .jpeg, .png, .bmp, .tif, .tiff and .webp files",
        )
    shards = Shards(output, engine, options, items, shard)
    open_at_start = len(shards.open())
    if open_at_start < len(shards):
        say("%d of %s done already" % (len(shards) - open_at_start, counted(len(shards), "shard")))
    if ray:
        pool = _workers(engine, options, ray, workers)
        started(pool)
        steps = _on_ray(shards, pool)
    else:
        steps = _local(shards, RowMaker(engine, **options))
    start = time.perf_counter()
    done = 0
    for index in steps:
        done += len(shards.of(index))
        say("%s, %.1f a second" % (counted(done, "image"), done / (time.perf_counter() - start)))
    seconds = time.perf_counter() - start
    rows = shards.finish()
    return {"output": output, "rows": rows, "ran": done, "seconds": seconds, "images_per_second": done / seconds}
