"""The kernel compiler: an ONNX file and a target in, position-independent kernels and weights out."""
