"""The update: batches, models, losses and optimizer steps."""
