"""Multi-hot sparse features as MLPerf draws them."""
