"""Exact gradients: estimators, aggregations and filters on a policy small enough to enumerate."""
