"""Metrics, computed over a whole dataset rather than as a mean over batches."""

from tdt.train.metrics.base import Loss as Loss
from tdt.train.metrics.base import Mean as Mean
from tdt.train.metrics.base import Metric as Metric
from tdt.train.metrics.base import Reading as Reading
from tdt.train.metrics.base import add_each as add_each
from tdt.train.metrics.base import scores_of as scores_of
from tdt.train.metrics.base import tagged as tagged
from tdt.train.metrics.classes import F1 as F1
from tdt.train.metrics.classes import Accuracy as Accuracy
from tdt.train.metrics.classes import Dice as Dice
from tdt.train.metrics.classes import IoU as IoU
from tdt.train.metrics.classes import Perplexity as Perplexity
from tdt.train.metrics.classes import Precision as Precision
from tdt.train.metrics.classes import Recall as Recall
from tdt.train.metrics.classes import TopK as TopK
from tdt.train.metrics.ranking import AUROC as AUROC
from tdt.train.metrics.ranking import AveragePrecision as AveragePrecision
from tdt.train.metrics.regression import MAE as MAE
from tdt.train.metrics.regression import MSE as MSE
from tdt.train.metrics.regression import R2 as R2
from tdt.train.metrics.regression import RMSE as RMSE
