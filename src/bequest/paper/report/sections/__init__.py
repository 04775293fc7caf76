"""One section per item of the paper."""
