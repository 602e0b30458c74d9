"""Builds what is released: sdist and wheel in dist/, their bill of materials in build/release/.

Sdist and wheel are built twice, the wheel once from the sdist and once from the checkout, and must be equal
byte for byte: every file has the time of the last commit. The wheel is installed with the locked dependencies
into an empty environment, outside the checkout, where it answers a question about its sample documents. The
bill of materials, in CycloneDX, is that of this environment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, BILLS = ROOT / "dist", ROOT / "build" / "release"
CYCLONEDX = Path(os.environ.get("CYCLONEDX", ROOT / ".venv" / "cyclonedx" / "bin" / "cyclonedx-py"))
QUESTION, ANSWER = "How many passengers travelled on the line from Orla to Saltby in 2024?", "84,210"


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a command; end the program with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nFailed with status {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def build(out: Path, *options: str) -> dict[str, str]:
    """Build sdist and wheel into a folder; return the SHA-256 of each file by its name."""
    time = run("git", "log", "-1", "--format=%ct").strip()
    python = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out]
    run(*python, *options, SOURCE_DATE_EPOCH=time)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def build_twice() -> None:
    """Build into dist/ by way of the sdist, and again from the checkout.

    Ends the program if the files differ or a package index would refuse them.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    files = build(DIST)
    with tempfile.TemporaryDirectory() as folder:
        again = build(Path(folder), "--sdist", "--wheel")
    if files != again:
        sys.exit(f"Two builds of one commit differ:\n{files}\n{again}")
    print(run(sys.executable, "-m", "twine", "check", "--strict", *(DIST / name for name in files)), end="")
    for name, digest in files.items():
        print(digest, f"{(DIST / name).stat().st_size:>9,} bytes", name)


def install(lock: Path, environment: Path) -> Path:
    """Make an environment of the locked packages and the wheel in dist/; return its folder of programs."""
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", environment)
    bin_folder = environment / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", bin_folder / "python", "install", "--no-deps"]
    run(*pip, "--require-hashes", "-r", lock, PIP_DISABLE_PIP_VERSION_CHECK="1")
    run(*pip, "--no-index", "--find-links", DIST, "vrag-agent", PIP_DISABLE_PIP_VERSION_CHECK="1")
    return bin_folder


def ask(bin_folder: Path) -> None:
    """Ask the sample documents a question, elsewhere; end the program if the answer is not found."""
    with tempfile.TemporaryDirectory() as folder:
        home = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), folder)
        output = run(bin_folder / "vrag", "demo", QUESTION, folder=Path(folder), **home, PYTHONPATH="")
    print(output, end="")
    if ANSWER not in output:
        sys.exit(f"The installed program does not answer {ANSWER}.")


def write_bill(bin_folder: Path, out: Path) -> None:
    """Write the bill of materials of an environment: packages, versions, licences, who needs whom."""
    out.parent.mkdir(parents=True, exist_ok=True)
    [wheel] = DIST.glob("*.whl")
    version = f'version = "{wheel.name.split("-")[1]}"'  # the build backend finds it, this program does not
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        stated = Path(folder) / "pyproject.toml"
        stated.write_text(re.sub(r"^dynamic = .*$", version, project, flags=re.MULTILINE), encoding="utf-8")
        command = [CYCLONEDX, "environment", "--output-reproducible", "--pyproject", stated]
        run(*command, "--of", "JSON", "-o", out, bin_folder / "python")
    print(f"Written: {out.relative_to(ROOT)}")


def main() -> None:
    """Build, install, ask and write, as the options say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--image", action="store_true", help="only the bill of materials of the image")
    image = parser.parse_args().image
    if not image or not list(DIST.glob("*.whl")):
        build_twice()
    lock, bill = ("deploy/image.lock", "vrag-image") if image else ("requirements.lock", "vrag-agent")
    with tempfile.TemporaryDirectory() as folder:
        bin_folder = install(ROOT / lock, Path(folder) / "environment")
        if not image:
            ask(bin_folder)
        write_bill(bin_folder, BILLS / f"{bill}.cdx.json")


if __name__ == "__main__":
    main()
