"""Whether a proposal may be converted: trials, gates, second opinions, schema drift."""
