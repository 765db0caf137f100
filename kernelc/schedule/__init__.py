"""How a kernel is cut: tiles by an analytic cost, and the transform-dialect sequence that vectorises them."""
