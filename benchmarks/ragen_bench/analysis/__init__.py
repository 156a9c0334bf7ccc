"""What agents did, judged by the exact oracle: regret, luck, and where episodes were lost."""
