"""Formats in which programs exchange data: XML, YAML and TOML, web archives, mail."""
