"""The contracts of ingot as data: JSON Schemas; nothing here runs."""
