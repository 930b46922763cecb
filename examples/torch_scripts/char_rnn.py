"""A character-level LSTM, trained on a few proverbs and then used to generate text."""

import math

import torch
import torch.nn as nn

TEXT = """
a bird in the hand is worth two in the bush. a stitch in time saves nine. a watched pot never boils.
actions speak louder than words. all that glitters is not gold. better late than never. birds of a feather
flock together. do not count your chickens before they hatch. every cloud has a silver lining. fortune favours
the bold. haste makes waste. honesty is the best policy. look before you leap. make hay while the sun shines.
many hands make light work. practice makes perfect. the early bird catches the worm. two heads are better than one.
when in rome, do as the romans do. where there is smoke, there is fire. you cannot judge a book by its cover.
"""

torch.manual_seed(5)
chars = sorted(set(TEXT))
stoi = {c: i for i, c in enumerate(chars)}
itos = dict(enumerate(chars))
data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)
device = "cuda" if torch.cuda.is_available() else "cpu"


class CharRNN(nn.Module):
    def __init__(self, n_tokens, n_hidden=48, n_layers=2, dropout=0.1):
        super().__init__()
        self.n_layers, self.n_hidden = n_layers, n_hidden
        self.embed = nn.Embedding(n_tokens, 24)
        self.rnn = nn.LSTM(24, n_hidden, n_layers, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(n_hidden, n_tokens)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.embed(x), hidden)
        return self.decoder(out.contiguous().view(-1, self.n_hidden)), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters())
        return (
            weight.new_zeros(self.n_layers, batch_size, self.n_hidden),
            weight.new_zeros(self.n_layers, batch_size, self.n_hidden),
        )


def batches(batch_size, length):
    n = len(data) // batch_size
    rows = data[: n * batch_size].view(batch_size, n)
    for start in range(0, n - 1, length):
        stop = min(start + length, n - 1)
        yield rows[:, start:stop].to(device), rows[:, start + 1 : stop + 1].reshape(-1).to(device)


model = CharRNN(len(chars)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
criterion = nn.CrossEntropyLoss()
for epoch in range(20):
    model.train()
    hidden = model.init_hidden(8)
    losses, norm = [], torch.zeros(())
    for x, y in batches(8, 24):
        hidden = tuple(h.detach() for h in hidden)
        model.zero_grad()
        output, hidden = model(x, hidden)
        loss = criterion(output, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    mean = sum(losses) / len(losses)
    if epoch % 4 == 3:
        print(f"epoch {epoch} loss {mean:.6f} perplexity {math.exp(mean):.4f} last gradient {norm:.5f}")

model.eval()
generator = torch.Generator().manual_seed(3)
with torch.no_grad():
    hidden = model.init_hidden(1)
    x = torch.tensor([[stoi["t"]]], device=device)
    text = "t"
    for _ in range(40):
        logits, hidden = model(x, hidden)
        x = torch.multinomial(torch.softmax(logits / 0.8, dim=-1).cpu(), 1, generator=generator).to(device)
        text += itos[int(x)]
print(repr(text))
