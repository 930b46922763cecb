"""Files of a trained model for other programs: ONNX, `.safetensors`, and folders as Hugging Face's."""
