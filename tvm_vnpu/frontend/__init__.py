"""What the Relax and the Relay front end share. Nothing here imports tvm."""
