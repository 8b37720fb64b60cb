"""Run-time watchers: what no grammar can say, enforced while the answer is written."""
