"""Tables and queries of database servers: PostgreSQL and MySQL."""
