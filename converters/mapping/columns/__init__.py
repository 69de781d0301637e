"""The column executor: mappings that Arrow can carry."""
