"""The README's Python example runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_first_python_example_of_the_readme_runs(tmp_path):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert blocks, "README.md must show a python example"
    example = blocks[0]
    assert "gdpnet" in example
    answer = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", example],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
