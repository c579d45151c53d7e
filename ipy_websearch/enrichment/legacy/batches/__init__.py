"""`mode="batch"`: rows through the Message Batches API, at half the price and without hurry."""
