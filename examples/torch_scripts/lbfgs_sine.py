"""Two LSTM cells that predict sine waves, trained with L-BFGS on the full batch."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


class Sequence(nn.Module):
    def __init__(self, hidden):
        super(Sequence, self).__init__()
        self.hidden = hidden
        self.lstm1 = nn.LSTMCell(1, hidden)
        self.lstm2 = nn.LSTMCell(hidden, hidden)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), self.hidden, dtype=torch.double)
        c_t, h_t2, c_t2 = torch.zeros_like(h_t), torch.zeros_like(h_t), torch.zeros_like(h_t)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(outputs[-1], (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3, help="steps to run")
    opt = parser.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)
    shift = np.random.randint(-40, 40, 12).reshape(-1, 1)
    data = np.sin((np.arange(60) + shift) / 5.0).astype("float64")
    input, target = torch.from_numpy(data[3:, :-1]), torch.from_numpy(data[3:, 1:])
    test_input, test_target = torch.from_numpy(data[:3, :-1]), torch.from_numpy(data[:3, 1:])

    seq = Sequence(12)
    seq.double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=6, history_size=10)
    pred = test_input
    for i in range(opt.steps):
        print("STEP:", i)

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(input), target)
            print(f"loss: {loss.item():.8f}")
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            future = 20
            pred = seq(test_input, future=future)
            print(f"test loss: {criterion(pred[:, :-future], test_target).item():.8f}")
    print("continued:", " ".join(f"{v:.6f}" for v in pred.detach().numpy()[0, -3:]))
