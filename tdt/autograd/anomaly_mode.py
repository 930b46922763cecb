"""`detect_anomaly`, under its module's name; made in `tdt/autograd/_anomaly.py`."""

from tdt.autograd._anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
