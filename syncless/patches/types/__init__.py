"""Types of the interpreter that the patch changes in place."""
