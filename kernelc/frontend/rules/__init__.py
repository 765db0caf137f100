"""Rules of simplification: each names one equality of graphs and says where it holds."""
