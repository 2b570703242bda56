"""The accuracy guard: fit two seeds of Cora and CiteSeer, clean and with as many random edges added as there were.

Fails if the mean micro-F1 of a case is below the recorded mean less two standard deviations. The recorded figures are
those of `results/robustness.jsonl`. Wants GDPNET_DATA; takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDS = Path(__file__).parents[1] / "results" / "robustness.jsonl"
DATASETS, RATES = ("cora", "citeseer"), (0.0, 1.0)


def robustness(*words: str) -> list[dict]:
    """Run `gdpnet robustness` for GDPNet on all cases; return the rows of its table."""
    command = [sys.executable, "-m", "gdpnet", "robustness", "--methods", "gdpnet", "--json"]
    command += [word for name in DATASETS for word in ("--dataset", name)]
    command += ["--rates", ",".join(f"{rate:g}" for rate in RATES), *words]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])["rows"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds (default: 2)")
    parser.add_argument("--jobs", type=int, default=2, help="fits side by side (default: 2)")
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda (default: cpu)")
    options = parser.parse_args()
    recorded = {
        (row["graph"], row["rate"]): row for row in robustness("--report-only", "--records", str(RECORDS))
    }
    with tempfile.TemporaryDirectory() as folder:
        found = robustness(
            *("--seeds", str(options.seeds), "--jobs", str(options.jobs), "--device", options.device),
            *("--records", str(Path(folder) / "records.jsonl")),
        )
    worse = 0
    print(f"{'case':<18}{'recorded':>18}{'bound':>8}{'now':>8}")
    for row in sorted(found, key=lambda row: (row["graph"], row["rate"])):
        known = recorded[row["graph"], row["rate"]]
        bound = known["mean"] - 2 * known["deviation"]
        fails = row["failed"] > 0 or row["mean"] < bound
        worse += fails
        case = f"{row['graph']} +{row['rate']:.0%}"
        figures = f"{known['mean']:.3f} ± {known['deviation']:.3f} ({known['seeds']})"
        print(f"{case:<18}{figures:>18}{bound:>8.3f}{row['mean']:>8.3f}{'  below' if fails else ''}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
