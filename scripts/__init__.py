"""Developer commands; run one with `python -m scripts.NAME`."""
