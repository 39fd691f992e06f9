"""What outlives the ranks: when a run saves itself, where, and how it is found again."""
