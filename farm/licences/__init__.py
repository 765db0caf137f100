"""The licence gate at work: what a payload consists of, scans of it, waivers, the verdict that is signed."""
