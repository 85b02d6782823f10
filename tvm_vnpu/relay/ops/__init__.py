"""One module per operator family: how a matched composite becomes NpuGraph operators."""
