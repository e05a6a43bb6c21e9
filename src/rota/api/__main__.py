import os

from rota.api.server import main

os._exit(main())  # a thread that waits for the write lock is left behind
