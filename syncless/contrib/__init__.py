"""Integrations with other products, one file each. No other part of syncless imports them."""
