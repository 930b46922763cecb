"""A graph convolutional network (Kipf and Welling, 2016): semi-supervised classification of nodes, 10 % of them labelled."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter

torch.manual_seed(42)
n, k, features = 150, 3, 12


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        output = torch.spmm(adj, torch.mm(input, self.weight))
        return output if self.bias is None else output + self.bias

    def __repr__(self):
        return f"{self.__class__.__name__} ({self.in_features} -> {self.out_features})"


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def make_graph():
    labels = torch.arange(n) % k
    same = labels[:, None] == labels[None, :]
    chance = torch.where(same, 0.15, 0.02)
    upper = torch.triu(torch.bernoulli(chance), diagonal=1)
    adj = upper + upper.t() + torch.eye(n)
    degree = adj.sum(1).pow(-0.5)
    x = torch.randn(n, features) + 0.6 * F.one_hot(labels, features).float()
    return x, (degree.view(-1, 1) * adj * degree.view(1, -1)).to_sparse(), labels


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    return preds.eq(labels).double().sum() / len(labels)


x, adj, labels = make_graph()
order = torch.randperm(n)
idx_train, idx_test = order[:15], order[15:]
model = GCN(features, 16, k, dropout=0.5)
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(60):
    model.train()
    optimizer.zero_grad()
    output = model(x, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    if (epoch + 1) % 15 == 0:
        print(f"epoch {epoch + 1:04d} loss_train: {loss_train.item():.6f}")

model.eval()
output = model(x, adj)
loss_test = F.nll_loss(output[idx_test], labels[idx_test])
print(f"test set: loss= {loss_test.item():.6f} accuracy= {accuracy(output[idx_test], labels[idx_test]).item():.4f}")
