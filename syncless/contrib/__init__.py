"""Places in other products where syncless fits in: a file for each product. Nothing else of syncless imports
them."""
