"""A small convolutional network with batch normalisation on the digits."""

import torch
import torch.backends.cudnn as cudnn
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

import digits


class Digits(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, self.labels[index]


def normalize(image):
    return (image - 0.3) / 0.35


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(block(1, 16), block(16, 32))
        self.dropout = nn.Dropout2d(0.25)
        self.classifier = nn.Linear(32 * 2 * 2, 10)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.dropout(self.features(x))
        x = x.view(-1, 32 * 2 * 2)
        return nn.functional.log_softmax(self.classifier(x), dim=1)


torch.manual_seed(0)
cudnn.benchmark = True
device = "cuda" if torch.cuda.is_available() else "cpu"
images, labels = digits.load(1200)
train_loader = DataLoader(Digits(images[:1000], labels[:1000], normalize), batch_size=50, shuffle=True, num_workers=0)
test_loader = DataLoader(Digits(images[1000:], labels[1000:], normalize), batch_size=100)

net = Net().to(device)
print(f"{sum(p.numel() for p in net.parameters() if p.requires_grad)} parameters")
criterion = nn.NLLLoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)

for epoch in range(2):
    net.train()
    running_loss = 0.0
    for i, (inputs, targets) in enumerate(train_loader, 1):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(net(inputs), targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if i % 10 == 0:
            print(f"[{epoch + 1}, {i:3d}] loss: {running_loss / 10:.6f}")
            running_loss = 0.0
    scheduler.step()

    net.eval()
    correct = total = 0
    with torch.no_grad():
        for inputs, targets in test_loader:
            _, predicted = torch.max(net(inputs.to(device)), 1)
            total += targets.size(0)
            correct += (predicted == targets.to(device)).sum().item()
    print(f"accuracy: {correct} of {total}")
