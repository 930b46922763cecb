"""`detect_anomaly`, under its module's name; made in `tdt/_anomaly.py`."""

from tdt._anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
