"""signing: keys, DSSE envelopes, in-toto statements, and the process that alone reads a private key."""
