"""What a server writes of its requests and of itself."""
