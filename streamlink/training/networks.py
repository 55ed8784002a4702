"""The networks: ResNet18 for images of 32 x 32 pixels, and a small CNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["CNN", "ResNet18"]

_KERNEL, _POOL = 5, 2


class _Block(nn.Module):
    """Two convolutions beside a shortcut (He et al., "Deep residual learning", 2016, figure 2)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, images: Tensor) -> Tensor:
        inner = torch.relu(self.bn1(self.conv1(images)))
        return torch.relu(self.bn2(self.conv2(inner)) + self.shortcut(images))


class ResNet18(nn.Module):
    """ResNet with 18 layers whose first convolution has 3 x 3 pixels, as CIFAR-10 needs it.

    11,173,962 parameters with 3 channels and 10 classes, and 20 batch norms.

    Args:
        num_channel: channels of an image.
        num_classes: outputs.
    """

    def __init__(self, num_channel: int = 3, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(_Block(64, 64, 1), _Block(64, 64, 1))
        self.layer2 = nn.Sequential(_Block(64, 128, 2), _Block(128, 128, 1))
        self.layer3 = nn.Sequential(_Block(128, 256, 2), _Block(256, 256, 1))
        self.layer4 = nn.Sequential(_Block(256, 512, 2), _Block(512, 512, 1))
        self.linear = nn.Linear(512, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, num_classes) from (batch, num_channel, height, width)."""
        hidden = torch.relu(self.bn1(self.conv1(images)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            hidden = layer(hidden)
        return self.linear(hidden.mean(dim=(2, 3)))


class CNN(nn.Module):
    """Two convolutions and two linear layers, for MNIST and such.

    Args:
        num_channel: channels of an image.
        num_classes: outputs.
        num_pixel: height and width of an image; at least 16.
    """

    def __init__(self, num_channel: int = 1, num_classes: int = 10, num_pixel: int = 28) -> None:
        super().__init__()
        side = num_pixel
        for _ in range(2):
            side = (side - _KERNEL + 1) // _POOL
        if side < 1:
            raise ValueError(f"num_pixel is {num_pixel}; two convolutions need at least 16")
        self.conv1 = nn.Conv2d(num_channel, 32, _KERNEL)
        self.conv2 = nn.Conv2d(32, 64, _KERNEL)
        self.pool = nn.MaxPool2d(_POOL)
        self.fc1 = nn.Linear(64 * side * side, 512)
        self.fc2 = nn.Linear(512, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, num_classes) from (batch, num_channel, num_pixel, num_pixel)."""
        hidden = self.pool(torch.relu(self.conv1(images)))
        hidden = self.pool(torch.relu(self.conv2(hidden)))
        return self.fc2(torch.relu(self.fc1(hidden.flatten(1))))
