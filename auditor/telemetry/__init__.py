"""Tell people and machines how a command goes: its log, metrics, progress and Grafana dashboard."""
