"""What a running token build shows: log lines, metrics, health, alarms, progress, a summary."""
