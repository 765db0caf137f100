"""From a fusion group to an object file: linalg on tensors, LLVM IR, the tile function's ABI, the entry table."""
