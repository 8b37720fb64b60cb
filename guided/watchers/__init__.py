"""Run-time watchers: constraints that no grammar can express, enforced while the answer is written."""
