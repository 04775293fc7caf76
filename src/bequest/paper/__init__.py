"""The reproduction of the paper: its studies, its baseline and ablation, and the report on them.

Only ``bequest reproduce`` imports this package.
"""
