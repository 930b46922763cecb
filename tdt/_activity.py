"""What this process is doing, for the watchdog of runs on several processes (`tdt.distributed._watchdog`)."""

from __future__ import annotations

from dataclasses import dataclass

PREPARING = "preparing"  # data and model, until all processes begin their work


@dataclass
class Activity:
    """The main thread reports, and the watchdog's thread reads.

    Attributes:
        doing: in words, "training" or "saving"; "" while time without progress does not count. `PREPARING` may take any time,
            but others wait for it no longer than for a batch.
        step: optimizer steps so far.
        count: how often progress was reported.
    """

    doing: str = ""
    step: int = 0
    count: int = 0

    def report(self, doing: str | None = None, step: int | None = None) -> None:
        """Report progress, and, if given, what comes next.

        >>> from tdt._activity import Activity
        >>> activity = Activity()
        >>> activity.report("training", step=3)
        >>> activity.report()
        >>> activity.doing, activity.step, activity.count
        ('training', 3, 2)
        """
        self.doing = self.doing if doing is None else doing
        self.step = self.step if step is None else step
        self.count += 1


ACTIVITY = Activity()
