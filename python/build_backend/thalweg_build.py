"""Builds the wheel: a PEP 517 backend of the standard library alone.

CMake, Ninja, a C++ compiler, the headers of Python and pybind11 come from the system
(scripts/setup.sh); nothing is fetched. Settings, as `pip install . -C NAME=VALUE`:
  build-dir   folder of the build, kept for the next time; default build/wheel-<tag>
  cmake-args  more arguments for CMake, separated by blanks
  jobs        compilations side by side; default one for each processor
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "thalweg"
# Wheels are zip files: no date before 1980. A fixed one makes equal builds equal bytes.
DATE = (1980, 1, 1, 0, 0, 0)
SKIPPED = ("build", "node_modules", "__pycache__", "dist")


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError(
        "an editable install is not supported: the package is half compiled. For work on it run "
        "`make test` once and set PYTHONPATH=build/dev/python, or use `pip install .`"
    )


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory) / _info_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _metadata().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    package = _compile(settings)
    name = f"{NAME}-{_version()}-{_tag()}.whl"
    with zipfile.ZipFile(
        pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED, compresslevel=6
    ) as archive:
        record = _Record(archive)
        for path, file in _package_files(package):
            record.add(f"{NAME}/{path}", file.read_bytes(), file.stat().st_mode)
        for path in ("LICENSE", "NOTICE"):
            record.add(f"{_info_folder()}/{path}", (ROOT / path).read_bytes())
        for path, text in _metadata().items():
            record.add(f"{_info_folder()}/{path}", text.encode())
        record.close()
    return name


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{_version()}"
    name = f"{base}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz") as archive:
        for file in sorted(_source_files(ROOT)):
            archive.add(file, f"{base}/{file.relative_to(ROOT)}", recursive=False)
        info = pathlib.Path(sdist_directory) / "PKG-INFO"
        info.write_text(_metadata()["METADATA"], encoding="utf-8")
        archive.add(info, f"{base}/PKG-INFO")
        info.unlink()
    return name


class _Record:
    """Adds files to the archive and keeps the list of their hashes, which goes in last."""

    def __init__(self, archive):
        self._archive = archive
        self._lines = []

    def add(self, path, content, mode=0o644):
        self._write(path, content, mode)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._lines.append(f"{path},sha256={digest},{len(content)}")

    def close(self):
        path = f"{_info_folder()}/RECORD"
        self._lines.append(f"{path},,")
        self._write(path, ("\n".join(self._lines) + "\n").encode(), 0o644)

    def _write(self, path, content, mode):
        info = zipfile.ZipInfo(path, DATE)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = ((mode | 0o100000) & 0xFFFF) << 16
        self._archive.writestr(info, content)


def _compile(settings):
    """Builds the module and returns the folder of the staged package."""
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"{tool} was not found: run scripts/setup.sh, or install {tool}")
    build = pathlib.Path(settings.get("build-dir", ROOT / "build" / f"wheel-{_tag()}")).resolve()
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DTHALWEG_TESTS=OFF", "-DTHALWEG_PYTHON=ON", "-DTHALWEG_CUDA=AUTO"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", *settings.get("cmake-args", "").split()]
    _run(configure)
    compile_command = ["cmake", "--build", build, "--target", "thalweg_python"]
    if "jobs" in settings:
        compile_command += ["-j", settings["jobs"]]
    _run(compile_command)
    return build / "python" / NAME


def _run(command):
    command = [os.fspath(part) for part in command]
    print(" ".join(command), flush=True)
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed; its messages are above (pip shows them with -v)")


def _package_files(package):
    """(path in the package, file): Python files, the compiled module of this Python, nano."""
    module = "_core" + sysconfig.get_config_var("EXT_SUFFIX")
    if not (package / module).exists():
        raise RuntimeError(f"the build made no {module}: was it made for another Python?")
    files = [*(ROOT / "python" / NAME).glob("*.py"), *(ROOT / "python" / NAME).glob("*.pyi")]
    files += [ROOT / "python" / NAME / "py.typed", package / module]
    found = [(file.name, file) for file in files]
    nano = ROOT / "models" / "nano"
    found += [(f"models/nano/{f.relative_to(nano)}", f) for f in nano.rglob("*") if f.is_file()]
    return sorted(found)


def _source_files(folder):
    for entry in folder.iterdir():
        if entry.name in SKIPPED or entry.name.startswith((".git", "build-")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _source_files(entry)
        elif entry.is_file():
            yield entry


def _version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(thalweg VERSION ([0-9.]+)", text).group(1)


def _tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{platform}"


def _info_folder():
    return f"{NAME}-{_version()}.dist-info"


def _metadata():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    head = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {_version()}",
        "Summary: Inference engine for DeepSeek-V4.1-Flash",
        "License: Apache-2.0",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: thalweg_build", "Root-Is-Purelib: false"]
    return {
        "METADATA": "\n".join(head) + "\n\n" + readme,
        "WHEEL": "\n".join([*wheel, f"Tag: {_tag()}"]) + "\n",
        "top_level.txt": NAME + "\n",
    }
