"""What Duebox needs at AWS, one idea a module:

network     where it lives: private, in several zones
alarms      who is told
queues      where events wait, and where those go that nobody could handle
bus         the event bus and its rules
database    PostgreSQL in two zones, and the proxy in front of it
program     what the worker and the function share: their settings and their rights
function    rounds in a Lambda function, once a minute
worker      workers on Fargate
stack       all of them together
"""
