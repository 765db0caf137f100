"""The licence gate: what ships, was linked or served as a tool, judged by a policy over SPDX expressions."""
