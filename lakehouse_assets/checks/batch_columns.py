"""The lakehouse's columns of every batch. Belongs here: their names. Does not: what else a batch has (contracts/batch)."""

# Besides those that begin with _.
BATCH_COLUMNS = ("p_extracted_at", "extraction_seq")
