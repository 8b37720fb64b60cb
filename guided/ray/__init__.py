"""Replicas of ``guided serve`` on Ray Serve: a deployment for each model, and one that shares requests out."""
