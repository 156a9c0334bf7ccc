"""Published results with their replies: made from runs, checked by playing them again, shown as pages."""
