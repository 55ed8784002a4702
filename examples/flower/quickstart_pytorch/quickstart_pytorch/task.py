"""A small CNN, and seeded tensors of the shape of CIFAR-10 in the place of the data set."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import relu
from torch.utils.data import DataLoader, TensorDataset

IMAGES_PER_NODE = 256


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images: Any) -> Any:
        x = self.pool(relu(self.conv1(images)))
        x = self.pool(relu(self.conv2(x)))
        x = relu(self.fc1(x.flatten(1)))
        return self.fc3(relu(self.fc2(x)))


def load_data(seed: int, batch_size: int) -> tuple[Any, Any]:
    """Return images for training (80 %) and for validation."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (IMAGES_PER_NODE,), generator=chance)
    # Each class is a little brighter than the one before, so that there is something to learn.
    noise = torch.rand((IMAGES_PER_NODE, 3, 32, 32), generator=chance)
    images = noise - 0.5 + labels[:, None, None, None] / 10
    split = IMAGES_PER_NODE * 4 // 5
    training = TensorDataset(images[:split], labels[:split])
    validation = TensorDataset(images[split:], labels[split:])
    return DataLoader(training, batch_size=batch_size), DataLoader(validation, batch_size)


def train(net: Any, loader: Any, epochs: int, lr: float) -> float:
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    running_loss = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
    return running_loss / (epochs * len(loader))


def test(net: Any, loader: Any) -> tuple[float, float]:
    """Return loss and accuracy."""
    criterion = nn.CrossEntropyLoss()
    correct, loss = 0, 0.0
    net.eval()
    with torch.no_grad():
        for images, labels in loader:
            outputs = net(images)
            loss += criterion(outputs, labels).item()
            correct += int((outputs.argmax(1) == labels).sum())
    return loss / len(loader), correct / len(loader.dataset)
