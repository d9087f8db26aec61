"""What serves beside the loop that called `serve`: threads that take its connections."""
