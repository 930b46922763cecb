"""Data sets of images. Each item is a pair (image, label)."""

from tdt.vision.datasets.cifar import CIFAR10 as CIFAR10
from tdt.vision.datasets.cifar import CIFAR100 as CIFAR100
from tdt.vision.datasets.digits import Digits as Digits
from tdt.vision.datasets.folder import ImageFolder as ImageFolder
from tdt.vision.datasets.mnist import KMNIST as KMNIST
from tdt.vision.datasets.mnist import MNIST as MNIST
from tdt.vision.datasets.mnist import FashionMNIST as FashionMNIST

__all__ = ["CIFAR10", "CIFAR100", "Digits", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST"]
