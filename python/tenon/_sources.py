# SPDX-License-Identifier: Apache-2.0
"""Where PyTorch models come from: names, files, factories."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from typing import Any, Dict, List, Optional, Tuple

from ._errors import Code, Error

IMAGENET = "imagenet"


class Source:
    """A module with what is known about it."""

    def __init__(self, module: Any, input_shapes: Optional[List[List[int]]] = None, ready: bool = False) -> None:
        self.module = module if ready else module.eval()
        self.input_shapes = input_shapes or [[3, 224, 224]]
        self.metadata: Dict[str, str] = {}
        self.notes: List[str] = []

    def load_weights(self, path: str) -> None:
        """A state dict into the module. Raises Error(usage) naming what does not fit."""
        state = state_dict(path)
        wanted = self.module.state_dict()
        # As DataParallel and Lightning save them.
        for prefix in ("module.", "model."):
            if state and all(name.startswith(prefix) for name in state) and not set(state) & set(wanted):
                state = {name[len(prefix) :]: value for name, value in state.items()}
        missing = [name for name in wanted if name not in state]
        unknown = [name for name in state if name not in wanted]
        odd = [name for name in state if name in wanted and tuple(state[name].shape) != tuple(wanted[name].shape)]
        if missing or unknown or odd:
            parts = []
            for text, names in (("missing", missing), ("unknown", unknown), ("of other sizes", odd)):
                if names:
                    parts.append("%d %s, as %s" % (len(names), text, names[0]))
            raise Error(Code.usage, "the weights are not this model's", where=path, why="; ".join(parts))
        self.module.load_state_dict(state)
        self.notes.append("weights of %s" % path)


def find(model: Any, *, weights: str = "auto", trust: bool = False) -> Source:
    """The model of a name, a file, a factory, or a module itself."""
    if not isinstance(model, (str, os.PathLike)):
        return Source(model)
    text = os.fspath(model)
    if text.endswith((".pt", ".pth", ".pt2", ".torchscript", ".ptl", ".ckpt", ".safetensors")) or os.path.isfile(text):
        return _of_file(text, trust)
    if ":" in text:
        return _of_factory(text)
    return _of_name(text, weights)


def state_dict(path: str) -> Dict[str, Any]:
    """The tensors of a file that holds nothing but weights. Runs no code of the file."""
    if not os.path.exists(path):
        raise Error(Code.io, "cannot open the weights", where=path, why="No such file or directory")
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        return dict(load_file(path))
    import pickle

    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Error(
            Code.unsupported,
            "the file holds more than weights, and may run code",
            where=path,
            why=str(error).splitlines()[0],
            hint="save model.state_dict(), or .safetensors",
        ) from None
    for key in ("state_dict", "model_state_dict", "model", "ema"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
            break
    if not isinstance(state, dict) or not all(hasattr(value, "shape") for value in state.values()):
        raise Error(Code.unsupported, "the file holds no state dict", where=path)
    return state


def _of_file(path: str, trust: bool) -> Source:
    import pickle

    import torch

    if not os.path.exists(path):
        raise Error(Code.io, "cannot open the model", where=path, why="No such file or directory")
    names: List[str] = []
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] or name for name in archive.namelist()]
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        load: Any = torch.jit.load
        return Source(load(path, map_location="cpu"))
    if path.endswith(".pt2") or any(name.startswith(("models/", "serialized_exported_program")) for name in names):
        return Source(torch.export.load(path).module(), ready=True)
    if path.endswith(".safetensors"):
        raise _weights_alone(path)
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        pass
    else:
        raise _weights_alone(path)
    if not trust:
        raise Error(
            Code.unsupported,
            "loading this file would run code that is in it",
            where=path,
            why="it is a pickle of more than weights",
            hint="--trust (trust=True) loads it, if you know whose it is; better: state dicts, TorchScript",
        )
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except ModuleNotFoundError as error:
        raise Error(
            Code.unsupported,
            "the file needs a package that is not installed",
            where=path,
            why=str(error),
            hint="pip install %s" % str(error.name).partition(".")[0],
        ) from None
    if isinstance(loaded, dict):
        loaded = loaded.get("ema") or loaded.get("model")
    if not hasattr(loaded, "forward"):
        raise Error(Code.unsupported, "the file holds no model", where=path)
    source = Source(loaded.float())
    if type(loaded).__module__.startswith(("ultralytics", "models.")):
        source.input_shapes = [[3, 640, 640]]
        source.metadata = {"tenon.preprocess": "yolo", "names": repr(dict(getattr(loaded, "names", {}) or {}))}
        for part in loaded.modules():
            if hasattr(part, "export"):
                part.export = True
    return source


def _weights_alone(path: str) -> Error:
    return Error(
        Code.usage,
        "the file holds weights and no model",
        where=path,
        hint="name the model as well: --model resnet50 --checkpoint %s; in Python checkpoint=" % path,
    )


def _of_factory(text: str) -> Source:
    module_name, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise Error(Code.usage, "there is no such factory", where=text, why=str(error)) from None
    finally:
        sys.path.pop(0)
    import torch

    return Source(made if isinstance(made, torch.nn.Module) else made())


def _names_text(names: List[str]) -> str:
    return repr(dict(enumerate(names)))


def _of_name(name: str, weights: str) -> Source:
    import torch

    # Random weights are the same each time, so that an export and a benchmark speak of one model.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _named(name, weights)


def _named(name: str, weights: str) -> Source:
    import torchvision

    if name in torchvision.models.list_models():
        best = torchvision.models.get_model_weights(name).DEFAULT
        made, note = _downloaded(lambda: torchvision.models.get_model(name, weights=best), name, weights, str(best))
        source = Source(made or torchvision.models.get_model(name, weights=None))
        source.notes.append(note)
        crop = getattr(best.transforms(), "crop_size", None)
        if crop:
            source.input_shapes = [[3, crop[0], crop[0]]]
            source.metadata["tenon.preprocess"] = IMAGENET
        if "categories" in best.meta:
            source.metadata["names"] = _names_text(best.meta["categories"])
        return source
    timm = _timm()
    if timm is not None and name in timm.list_models():
        made, note = _downloaded(lambda: timm.create_model(name, pretrained=True), name, weights, "of timm")
        source = Source(made or timm.create_model(name, pretrained=False))
        source.notes.append(note)
        config = source.module.default_cfg
        source.input_shapes = [list(config.get("input_size", (3, 224, 224)))]
        return source
    known = list(torchvision.models.list_models()) + (timm.list_models() if timm is not None else [])
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    raise Error(
        Code.usage,
        'no model is called "%s"' % name,
        hint='did you mean "%s"?' % near[0]
        if near
        else "give a name of torchvision or timm, a file, or module:factory",
    )


def _timm() -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError:
        return None


def _downloaded(make: Any, name: str, weights: str, which: str) -> Tuple[Any, str]:
    """The model with trained weights, or None, and what to say of its weights."""
    if weights == "none":
        return None, "random weights, as --weights none asks"
    try:
        return make(), "trained weights " + which
    except Exception as error:
        why = (str(error).strip() or repr(error)).splitlines()[0]
        if weights == "default":
            raise Error(
                Code.io,
                "the weights of %s cannot be downloaded" % name,
                why=why,
                hint="--weights none (weights=) takes random ones, --checkpoint (checkpoint=) a file of yours",
            ) from None
        return None, "random weights: trained ones cannot be downloaded (%s)" % why
