import os

from rota.api.server import main

os._exit(main())  # without waiting for a thread that waits for the write lock
