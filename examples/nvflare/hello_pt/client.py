"""What a site does: train the network for an epoch on images made from a seed."""

import nvflare.client as flare
import torch
from hello_network import SimpleNetwork  # type: ignore[import-not-found]  # beside this file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

IMAGES, BATCH = 64, 16


def images_of(seed: int) -> TensorDataset:
    """Return images and labels of CIFAR-10's shape."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(IMAGES, 3, 32, 32, generator=generator)
    return TensorDataset(images, torch.randint(10, (IMAGES,), generator=generator))


def main() -> None:
    flare.init()
    site = flare.system_info()["site_name"]
    torch.manual_seed(0)
    model, loss = SimpleNetwork(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = DataLoader(images_of(int(site.rsplit("-", 1)[1])), batch_size=BATCH)
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        total = 0.0
        for images, labels in data:
            optimizer.zero_grad()
            cost = loss(model(images), labels)
            cost.backward()
            optimizer.step()
            total += cost.item()
        print(f"{site}: round {received.current_round}: loss {total / len(data):.6f}")
        flare.send(
            flare.FLModel(
                params=model.state_dict(),
                metrics={"accuracy": 0.0, "loss": total / len(data)},
                meta={"NUM_STEPS_CURRENT_ROUND": len(data)},
            )
        )


if __name__ == "__main__":
    main()
