"""What `log` shows in TensorBoard beyond numbers: histograms, images, confusion, curves, embeddings, the graph."""
