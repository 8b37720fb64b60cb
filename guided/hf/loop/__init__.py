"""The decode loop: forced runs, sampling, recording, streaming."""
