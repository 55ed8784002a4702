"""What a site does: add 1 to every element, in place."""

from typing import Any

import numpy as np
import nvflare.client as flare


def evaluate(params: dict[str, Any]) -> dict[str, float]:
    return {"weight_mean": float(np.mean([array.mean() for array in params.values()]))}


def main() -> None:
    flare.init()
    site = flare.system_info()["site_name"]
    while flare.is_running():
        model = flare.receive()
        for array in model.params.values():
            array += 1
        metrics = evaluate(model.params)
        print(f"{site}: round {model.current_round}: {metrics}")
        flare.send(flare.FLModel(params=model.params, metrics=metrics))


if __name__ == "__main__":
    main()
