"""Workers on other hosts: the gate that they speak to, their identities, their own side of the talk."""
