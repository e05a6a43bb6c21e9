"""What `rota chaos` and `rota bench` run; nothing but their commands imports it.

`chaos` breaks a real crew and checks what must still hold; `bench` measures rota beside the raw limits of the
machine.
"""
