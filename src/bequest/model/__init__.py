"""What a user builds: losses, networks, departures, wills. All of it immutable."""
