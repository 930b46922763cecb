"""Hogwild: several processes train one perceptron in shared memory, without locks."""

import argparse

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

import digits


def train(rank, model, args):
    torch.manual_seed(args.seed + rank)
    torch.set_num_threads(1)
    images, labels = digits.load()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.5)
    for _ in range(args.epochs):
        for rows in torch.randperm(len(images)).split(args.batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()


@torch.no_grad()
def evaluate(model):
    images, labels = digits.load()
    output = model(images)
    return F.cross_entropy(output, labels).item(), (output.argmax(dim=1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    mp.set_start_method("spawn")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    model.share_memory()
    print("before: loss {:.4f} accuracy {:.4f}".format(*evaluate(model)))
    processes = [mp.Process(target=train, args=(rank, model, args)) for rank in range(args.processes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("after: loss {:.4f} accuracy {:.4f}".format(*evaluate(model)))


if __name__ == "__main__":
    main()
