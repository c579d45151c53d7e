"""Fakes of the outside world: real HTTP servers on loopback that behave, and refuse, as the services do."""
