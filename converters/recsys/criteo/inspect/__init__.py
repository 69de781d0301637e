"""What a folder of preprocessed Criteo data says in figures, and a page of them."""
