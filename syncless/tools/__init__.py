"""Plain Python on top of the engine: pools, groups, results, conditions."""
