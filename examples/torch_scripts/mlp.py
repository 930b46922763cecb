"""A multi-layer perceptron on the digits: data loaders, a scheduler, evaluation, saving and loading a checkpoint."""

import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split

import digits


class MLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.out = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.out(self.layers(x))


def train(model, device, loader, optimizer, epoch):
    model.train()
    total = 0.0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(data)
    print(f"epoch {epoch} train loss {total / len(loader.dataset):.6f} lr {optimizer.param_groups[0]['lr']:g}")


def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(target.view_as(output.argmax(1))[:, None]).sum().item()
    print(f"test loss {loss / len(loader.dataset):.6f} accuracy {correct}/{len(loader.dataset)}")
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = digits.load()
    train_set, test_set = random_split(TensorDataset((images - 0.5) / 0.5, labels), [len(images) - 300, 300])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=300)

    model = MLP(args.hidden).to(device)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    last = 0.0
    for epoch in range(1, args.epochs + 1):
        train(model, device, train_loader, optimizer, epoch)
        last = test(model, device, test_loader)
        scheduler.step()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mlp.pt")
        torch.save(model.state_dict(), path)
        restored = MLP(args.hidden).to(device)
        restored.load_state_dict(torch.load(path, map_location=device))
    assert test(restored, device, test_loader) == last


if __name__ == "__main__":
    main()
