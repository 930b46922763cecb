"""REINFORCE (Williams, 1992) in a corridor: the first observation shows on which side the goal is."""

import argparse
from itertools import count

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.95, metavar="G")
parser.add_argument("--seed", type=int, default=543, metavar="N")
parser.add_argument("--episodes", type=int, default=120)
parser.add_argument("--log-interval", type=int, default=20)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Corridor:
    """Positions -4..4, a step left or right; the goal is at 4 or -4."""

    def reset(self):
        self.goal = 4 if torch.rand(1).item() < 0.5 else -4
        self.position, self.steps = 0, 0
        return self.observe()

    def observe(self):
        return torch.tensor([self.position / 4.0, float(self.goal > 0), float(self.goal < 0)])

    def step(self, action):
        self.position = max(-4, min(4, self.position + (1 if action else -1)))
        self.steps += 1
        won = self.position == self.goal
        return self.observe(), 1.0 if won else -0.02, won or self.steps >= 30


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(3, 24)
        self.affine2 = nn.Linear(24, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.log_softmax(self.affine2(torch.tanh(self.affine1(x))), dim=1)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = torch.finfo(torch.float32).eps


def select_action(state):
    log_probs = policy(state.unsqueeze(0))
    action = torch.multinomial(log_probs.exp().detach(), 1)
    policy.saved_log_probs.append(log_probs.gather(1, action).squeeze(1))
    return action.item()


def finish_episode():
    R = 0.0
    discounted: list[float] = []
    for r in policy.rewards[::-1]:
        R = r + args.gamma * R
        discounted.insert(0, R)
    returns = torch.tensor(discounted)
    if len(returns) > 1:
        returns = (returns - returns.mean()) / (returns.std() + eps)
    loss = torch.cat([-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return loss.item()


running_reward = 0.0
env = Corridor()
for episode in range(1, args.episodes + 1):
    state, ep_reward, t = env.reset(), 0.0, 0
    for t in count(1):
        state, reward, done = env.step(select_action(state))
        policy.rewards.append(reward)
        ep_reward += reward
        if done:
            break
    running_reward = 0.05 * ep_reward + 0.95 * running_reward
    loss = finish_episode()
    if episode % args.log_interval == 0:
        print(f"episode {episode} steps {t} reward {ep_reward:.2f} average {running_reward:.5f} loss {loss:.5f}")
