"""`rota bench`: how fast rota is on this machine, and how fast the machine would let it be."""
