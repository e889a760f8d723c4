"""Runs the commands of README's `sh` blocks as printed, from top to bottom, and fails at the first that fails.

A block whose opening fence says `sh skip=REASON` is not run (it needs a key, a GPU, or is what called this script).
"""

import os
import pathlib
import re
import subprocess
import sys
import time

BLOCK = re.compile(r"^```sh([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Run every block in one shell each, with the project's own commands first on the path."""
    readme = pathlib.Path(sys.argv[1])
    environment = {**os.environ, "PATH": f"{pathlib.Path('.venv/bin').resolve()}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for words, body in BLOCK.findall(readme.read_text(encoding="utf-8")):
        if "skip=" in words:
            continue
        for command in body.replace("\\\n", " ").splitlines():
            if not command.strip() or command.startswith("#"):
                continue
            start = time.monotonic()
            print(f"$ {command}", flush=True)
            done = subprocess.run(
                ["bash", "-c", command], env=environment, stdin=subprocess.DEVNULL, timeout=900, check=False
            )
            print(f"[{done.returncode}] {time.monotonic() - start:.1f} s", flush=True)
            if done.returncode:
                return done.returncode
            ran += 1
    print(f"{ran} README commands ran")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
