"""`pip install .` in a fresh virtual environment, without network, gives a package that answers.

Usage: wheel_check.py SOURCE_FOLDER WORK_FOLDER. The work folder is made anew, but for its build.
"""

import pathlib
import shutil
import subprocess
import sys
import venv


def run(*command, cwd):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    work = pathlib.Path(sys.argv[2]).resolve()
    environment = work / "venv"
    shutil.rmtree(environment, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = [python, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-index"]
    run(*pip, "-v", source, "-C", f"build-dir={work / 'build'}", cwd=work)
    # From another folder, and -I: neither the sources nor PYTHONPATH may stand in for the package.
    run(python, "-I", source / "examples" / "offline_inference.py", cwd=work)
    check = "import thalweg, pathlib; print(thalweg.__file__, thalweg.__version__)"
    run(python, "-I", "-c", check, cwd=work)
    run(python, "-m", "pip", "--disable-pip-version-check", "uninstall", "-y", "thalweg", cwd=work)
    left = list((environment / "lib").rglob("thalweg*"))
    assert not left, f"uninstalling left {left}"


main()
