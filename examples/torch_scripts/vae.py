"""A variational autoencoder (Kingma and Welling, 2013) of the digits."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import digits

parser = argparse.ArgumentParser(description="VAE of the digits")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--latent", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(7)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class VAE(nn.Module):
    def __init__(self, latent):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, latent)
        self.fc22 = nn.Linear(48, latent)
        self.fc3 = nn.Linear(latent, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld, kld


images, _ = digits.load(1024)
loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True)
model = VAE(args.latent).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(args.epochs):
    model.train()
    total = divergence = 0
    for (x,) in loader:
        x = x.to(device)
        optimizer.zero_grad()
        recon, mu, logvar = model(x)
        loss, kld = loss_function(recon, x, mu, logvar)
        loss.backward()
        optimizer.step()
        total += loss.item()
        divergence += kld.item()
    print(f"====> epoch {epoch}: loss {total / len(images):.5f}, of which divergence {divergence / len(images):.5f}")

model.eval()
with torch.no_grad():
    sample = model.decode(torch.randn(16, args.latent, device=device)).cpu()
    print(f"samples: mean {sample.mean():.6f} spread {sample.std(dim=0).mean():.6f}")
