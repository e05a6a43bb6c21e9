import os

from rota.http.server import main

os._exit(main())  # a thread that waits for the write lock is left behind
