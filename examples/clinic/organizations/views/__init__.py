"""What organizations do. Each view runs in one transaction: its rows and its event are committed together."""
