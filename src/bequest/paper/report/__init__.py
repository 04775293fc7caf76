"""The report on the studies: one page, with its figures and numbers. It reads result files only."""
