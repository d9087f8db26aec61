"""The types of the interpreter that the patch changes in place."""
