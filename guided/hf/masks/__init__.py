"""Token masks applied to score tensors, on the CPU and on accelerators."""
