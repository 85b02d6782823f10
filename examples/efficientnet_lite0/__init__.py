"""EfficientNet-Lite0 with ImageNet weights: the network, and photographs to calibrate and score."""
