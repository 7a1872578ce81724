"""What visitors do. Every view changes rows and says so with an event, in the one transaction of its request."""
