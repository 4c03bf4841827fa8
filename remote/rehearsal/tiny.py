"""The tiny model as a folder: random weights by Transformers, the target's own tokenizer and code beside them.

Kept under the workdir by a name that tells content, so the next gate finds it made. Runs in the job's environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.rehearsal.shrink import CannotShrink

if TYPE_CHECKING:
    from collections.abc import Callable

    from remote.rehearsal.shrink import Tiny

MAKING = ".making-"  # what a folder is called until it is whole
STALE = 24 * 3600.0  # seconds: nothing is made for that long
RECIPE = 1  # counts changes of what is made of the same configuration
OWN = ("config.json", "generation_config.json")  # the tiny model has its own; the target's name tokens beyond it
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json")
LARGEST = 256 * 2**20  # of a file that goes along (tokenizers are below 50 MB)
ROUTER = 4.0  # routers speak plainly, so that rounding seldom changes what they choose


def make(tiny: Tiny, target: str, cache: Path, *, dtype: str) -> Path:
    """Give the folder of the tiny model, made when it is not there yet; raises CannotShrink."""
    beside = _beside(Path(target))
    name = _name(tiny.architecture, tiny.config, dtype, files=beside)
    return _made(cache / name, beside, lambda folder: _weights(tiny, folder, dtype))


def without_weights(config: dict[str, Any], target: str, cache: Path) -> Path:
    """Give a folder that has a configuration and the target's small files, and no weights."""
    beside = _beside(Path(target))
    text = json.dumps(config, indent=1)
    return _made(
        cache / f"thin-{_name(text, files=beside)}",
        beside,
        lambda folder: (folder / "config.json").write_text(text, encoding="utf-8"),
    )


def _made(folder: Path, beside: list[Path], fill: Callable[[Path], object]) -> Path:
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    unfinished = Path(tempfile.mkdtemp(prefix=MAKING, dir=folder.parent))
    try:
        for path in beside:
            (unfinished / path.name).symlink_to(path.resolve())
        fill(unfinished)
        _into_place(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _sweep(cache: Path) -> None:
    """Remove what gates that were killed have begun to make."""
    for path in cache.glob(f"{MAKING}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE:
                shutil.rmtree(path, ignore_errors=True)


def _into_place(unfinished: Path, folder: Path) -> None:
    """Put a folder in its place, unless another gate was first: its engine may be reading the same one there."""
    if (folder / "config.json").is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)  # one without config.json is a ruin
    try:
        unfinished.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():
            raise


def _beside(target: Path) -> list[Path]:
    """Give the target's small files: tokenizer, chat template, code."""
    return [
        path
        for path in sorted(target.iterdir())
        if path.is_file()
        and path.name not in OWN
        and not path.name.endswith(WEIGHTS)
        and path.stat().st_size <= LARGEST
    ]


def _name(*of: Any, files: list[Path]) -> str:
    import transformers

    beside = [(path.name, str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    content = [RECIPE, transformers.__version__, *of, beside]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _weights(tiny: Tiny, folder: Path, dtype: str) -> None:
    import torch

    config, model_class = _classes(tiny, folder)
    torch.manual_seed(0)
    try:
        model = model_class._from_config(config) if model_class else _by_auto(config)  # noqa: SLF001 - as Auto does
    except Exception as error:
        raise CannotShrink(f"Transformers cannot build a tiny one ({type(error).__name__}: {error})") from error
    _fill(model, torch.Generator().manual_seed(0))
    model = model.to(getattr(torch, dtype))
    config.architectures = [tiny.architecture or type(model).__name__]
    model.generation_config = _plain_generation()  # what the configuration says of generating is nobody's business
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    _complete(folder / "config.json", tiny, dtype)


def _classes(tiny: Tiny, folder: Path) -> tuple[Any, Any]:
    """Give the configuration, and the class where Transformers itself has one of the architecture's name."""
    import transformers

    model_class = getattr(transformers, tiny.architecture or "", None)
    config_class = getattr(model_class, "config_class", None)
    try:
        if config_class is not None:
            return config_class(**{name: value for name, value in tiny.config.items() if name != "model_type"}), (
                model_class
            )
        (folder / "config.json").write_text(json.dumps(tiny.config), encoding="utf-8")
        return transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True), None
    except Exception as error:
        raise CannotShrink(
            f"Transformers {transformers.__version__} does not know the model "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
        ) from error


def _plain_generation() -> Any:
    from transformers import GenerationConfig

    return GenerationConfig()


def _by_auto(config: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config, trust_remote_code=True)


def _fill(model: Any, chance: Any) -> None:
    """Fill every parameter: layers that change the states plainly, norms and biases that are not what none would be."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=chance)
            if parameter.dim() < 2:  # noqa: PLR2004 - vectors are norms and biases
                parameter.copy_(0.1 * noise + (0.0 if "bias" in name else 1.0))
            elif "embed" in name or ".wte" in name:
                parameter.copy_(noise)
            else:
                spread = parameter.shape[-1] ** -0.5
                parameter.copy_(noise * spread * (ROUTER if _routes(name, parameter, model) else 1.0))


def _routes(name: str, parameter: Any, model: Any) -> bool:
    """Tell a router's weights: a row for each expert."""
    text = model.config
    experts = {getattr(text, one, None) for one in ("n_routed_experts", "num_local_experts", "num_experts")}
    return parameter.dim() == 2 and parameter.shape[0] in experts and ("gate" in name or "router" in name)  # noqa: PLR2004


def _complete(file: Path, tiny: Tiny, dtype: str) -> None:
    """Put back what Transformers' class has no field for, and vLLM reads."""
    written: dict[str, Any] = json.loads(file.read_text("utf-8"))
    known = {name: value for name, value in tiny.config.items() if name not in written and value is not None}
    known.pop("torch_dtype", None)
    written = {**known, **written, "dtype": dtype}
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(written, out, indent=1)
