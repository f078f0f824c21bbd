"""Tell people and machines how a command goes: log, metrics, progress, the Grafana dashboard."""
