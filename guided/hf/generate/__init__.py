"""The adapter to model.generate: logits processor, stopping criterion, inputs and outputs."""
