"""A small convolutional network for images of 3 x 32 x 32."""

import torch
from torch import nn


class SimpleNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2, 2)),
        )
        self.classes = nn.Sequential(
            *(nn.Flatten(), nn.Linear(16 * 5 * 5, 120), nn.ReLU()),
            *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classes(self.features(images))
