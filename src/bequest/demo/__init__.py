"""What ``bequest demo`` shows: silos that leave with their digits."""
