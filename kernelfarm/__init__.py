"""kernelfarm: what every room shares. Nouns, digests, canonical JSON, content store, errors."""
