"""What people read about a run: previews, reports, the proposal folder."""
