"""The farm's own fusion rules, as YAML: a file for each group of the list of patterns."""
