"""The decode loop: sampling, recording, streaming."""
