"""Parts that a config chooses by name, and that a user can register: estimators, filters, losses, rewards."""
