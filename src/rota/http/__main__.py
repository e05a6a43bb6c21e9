import sys

from rota.http.server import main

sys.exit(main())
