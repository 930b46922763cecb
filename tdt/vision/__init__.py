"""Images: data sets (`tdt.vision.datasets`) and how to prepare them (`tdt.vision.transforms`)."""
