"""Where every value and weight lies: blocked buffers with halos, packed weight segments, the static arena."""
