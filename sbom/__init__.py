"""What a payload carries: its bill of materials in CycloneDX 1.6 JSON, made from the payload's files and its recipe."""
