"""Measurements of syncless beside its peers. See README.md here for the method; ``python -m benchmark`` runs
them."""
