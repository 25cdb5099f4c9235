# SPDX-License-Identifier: Apache-2.0
"""What files hold, by how they begin."""

from __future__ import annotations

import os
from typing import Any, Optional

from . import _core
from ._arguments import flag, path as path_of
from ._errors import Code, Error

_BUILD = "tenon.build builds an engine from a model"
_EXPORT = "tenon.export makes an ONNX model of it, which tenon.build takes"
# (beginning, what the file is, what to do)
_BEGINNINGS = (
    (b"\xff\xd8\xff", "a JPEG image", _BUILD),
    (b"\x89PNG\r\n", "a PNG image", _BUILD),
    (b"BM", "a BMP image", _BUILD),
    (b"GIF8", "a GIF image", _BUILD),
    (b"RIFF", "a WebP image or another RIFF file", _BUILD),
    (b"II*\0", "a TIFF image", _BUILD),
    (b"MM\0*", "a TIFF image", _BUILD),
    (b"\x93NUMPY", "a NumPy array", _BUILD),
    (b"ftrt", "a plan of TensorRT", "build anew from the ONNX model: tenon.build"),
    (b"PK\x03\x04", "a PyTorch file or another archive", _EXPORT),
    (b"\x80\x02", "a pickle, perhaps of PyTorch", _EXPORT),
    (b"{", "JSON", _BUILD),
    (b"TRT-", "a calibration table", _BUILD),
)
# ONNX has no mark: models begin with their IR version, field 1.
_ONNX = (b"\x08", "an ONNX model", "tenon.build makes an engine of it")


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(64)
    except OSError:
        return b""


def not_an_engine(head: bytes, where: str) -> Optional[Error]:
    """The error for what does not begin as an engine; None where it does."""
    if head.startswith(_core.engine_magic) or (head and _core.engine_magic.startswith(head)):
        return None
    known = [one for one in (*_BEGINNINGS, _ONNX) if head.startswith(one[0])]
    if not known and where.endswith(".onnx"):
        known = [_ONNX]
    what = "it is empty" if not head else "it is %s" % known[0][1] if known else "it does not begin as an engine does"
    hint = known[0][2] if known else "engines are files that Engine.save has written; " + _BUILD
    return Error(Code.bad_engine, "the file is not an engine", where=where, why=what, hint=hint)


def not_an_engine_file(path: str) -> Optional[Error]:
    return not_an_engine(_head(path), path) if os.path.isfile(path) else None


def refuse_engine(model: Any) -> None:
    """Raises Error(usage) where a model to be built is an engine already."""
    head = _head(model) if isinstance(model, str) else bytes(model[:64])
    if head.startswith(_core.engine_magic):
        raise Error(
            Code.usage,
            "the model is an engine already",
            where=model if isinstance(model, str) else "",
            hint="tenon.load loads it; tenon.retune chooses its kernels anew",
        )


def require_kind(path: str, kind: str) -> None:
    """Raises Error(usage) where writing would replace a file of another kind: "engine", "model" (ONNX), "json" or
    "calibration cache"."""
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return
    head = _head(path)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    fits = {
        "engine": head.startswith(_core.engine_magic),
        "model": head.startswith(b"\x08"),
        "json": text.startswith((b"{", b"[")),
        "calibration cache": text.startswith((b"{", b"[", b"TRT-")),
    }[kind]
    if not fits:
        noun = {"engine": "an engine", "model": "an ONNX model", "json": "JSON"}.get(kind, "a " + kind)
        raise Error(
            Code.usage,
            "an output would replace a file of another kind",
            where=path,
            why="the file does not hold " + noun,
            hint="give another path, or remove the file",
        )


def engine_target(given: Any, overwrite: Any) -> str:
    """The path that an engine is written to."""
    path = path_of("path", given)
    if not flag("overwrite", overwrite):
        require_kind(path, "engine")
    return path
