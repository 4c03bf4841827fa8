"""CUDA on the host, read and never imported: CUDA_HOME, nvcc, torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remote import schema
from remote.host import cuda
from tests.payload.gpu_fakes import program

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Stage

VERSION = """
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.10.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
hip: Optional[str] = None
"""
LIBRARY = b"\0ELF\0sm_90a\0no sm_80 here\0sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120\0" + bytes(99)


def toolkit(folder: Path, release: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program(folder / "bin", f'echo "Cuda compilation tools, release {release}, V{release}.61"', "nvcc")
    return folder


def test_cuda_home_tells_what_its_nvcc_is(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda", "12.8")
    told = cuda.cuda_home(str(home), "/nonexistent")
    assert (told.path, told.exists, told.nvcc, told.first_nvcc) == (str(home), True, "12.8", None)


def test_another_nvcc_that_comes_first_is_told(tmp_path: Path) -> None:
    home, other = toolkit(tmp_path / "cuda", "12.8"), toolkit(tmp_path / "env", "11.8")
    told = cuda.cuda_home(str(home), f"{other}/bin:{home}/bin")
    assert (told.nvcc, told.first_nvcc, told.first_release) == ("12.8", f"{other}/bin/nvcc", "11.8")
    assert cuda.cuda_home(str(home), f"{home}/bin:{other}/bin").first_release == "12.8"
    assert cuda.cuda_home(None, f"{other}/bin").first_release == "11.8"


@pytest.mark.parametrize("path", [None, ""])
def test_no_cuda_home_is_no_error(path: str | None) -> None:
    assert cuda.cuda_home(path, "/nonexistent") == schema.CudaHome()


def test_a_cuda_home_that_is_not_there_is_told() -> None:
    told = cuda.cuda_home("/nonexistent/cuda", "/nonexistent")
    assert (told.path, told.exists, told.nvcc) == ("/nonexistent/cuda", False, None)


@pytest.mark.parametrize("body", ["exit 1", "echo garbage", "kill -9 $$"])
def test_an_nvcc_that_does_not_run_has_no_release(tmp_path: Path, body: str) -> None:
    home = toolkit(tmp_path / "cuda", "12.8")
    program(home / "bin", body, "nvcc")
    assert cuda.cuda_home(str(home), "/nonexistent").nvcc is None


@pytest.mark.parametrize(
    ("python", "env", "path", "expected"),
    [
        ("/env/bin/python", {"CUDA_HOME": "/cuda"}, "/usr/bin", "/env/bin:/cuda/bin:/usr/bin"),
        ("/env/bin/python", {"PATH": "/own"}, "/usr/bin", "/env/bin:/own"),
        ("/env/bin/python", {}, None, "/env/bin:/usr/local/bin:/usr/bin:/bin"),
    ],
)
def test_the_path_is_the_one_of_the_jobs_processes(
    python: str, env: dict[str, str], path: str | None, expected: str
) -> None:
    assert cuda.search_path(python, env, path) == expected


def test_torch_is_read(tmp_path: Path) -> None:
    (tmp_path / "version.py").write_text(VERSION)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtorch_python.so").write_bytes(LIBRARY)
    told = cuda.torch(tmp_path / "version.py")
    assert told is not None
    assert (told.version, told.cuda) == ("2.10.0+cu128", "12.8")
    assert told.archs == ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")


def test_a_build_without_cuda_has_none(tmp_path: Path) -> None:
    (tmp_path / "version.py").write_text("__version__ = '2.10.0+cpu'\ncuda: Optional[str] = None\n")
    assert cuda.torch(tmp_path / "version.py") == schema.TorchFacts(version="2.10.0+cpu")


@pytest.mark.parametrize("text", ["", "__version__ = 7", "x = (", "\x00", "raise SystemExit"])
def test_a_torch_that_does_not_tell_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "version.py").write_text(text)
    assert cuda.torch(tmp_path / "version.py") is None
    assert cuda.torch(tmp_path / "none.py") is None
    assert cuda.torch(None) is None


@pytest.mark.parametrize("data", [b"", b"\0", b"no list", b"\0sm_\0", b"\0sm_90 and more\0"])
def test_a_library_that_does_not_tell_has_no_architectures(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "lib.so").write_bytes(data)
    assert cuda.archs(tmp_path / "lib.so") == ()
    assert cuda.archs(tmp_path / "none.so") == ()


def test_the_verb_reads_the_jobs_torch_and_toolkit(stage: Stage, tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda", "12.8")
    stage.write({"torch/__init__.py": "raise SystemExit('imported')", "torch/version.py": VERSION})
    (stage.site / "torch" / "lib").mkdir()
    (stage.site / "torch" / "lib" / "libtorch_python.so").write_bytes(LIBRARY)
    job = stage.job(device="cuda", env={"PYTHONPATH": str(stage.site), "CUDA_HOME": str(home)})
    facts = stage.call(
        stage.push(None), "facts", schema.FactsRequest(job=job), schema.HostFacts, CUDA_HOME="/nonexistent/session"
    )
    assert facts.torch is not None
    assert (facts.torch.cuda, "sm_100" in facts.torch.archs) == ("12.8", True)
    assert (facts.cuda_home.path, facts.cuda_home.nvcc) == (str(home), "12.8")
