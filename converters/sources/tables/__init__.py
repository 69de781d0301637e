"""Tables that are folders with a log, one version file by file, and tables of database servers."""
