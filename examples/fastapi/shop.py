"""A FastAPI application with rota's HTTP API mounted below /rota. Run it with: uvicorn shop:api"""

from contextlib import asynccontextmanager

from fastapi import FastAPI

from rota import App
from rota.api.app import create

app = App()
rota_api = create(hosts=["127.0.0.1", "localhost", "shop.example"])  # the names this server is reached by


@app.task(queue="tag")
def tag(path: str) -> dict[str, int]:
    return {"tags": len(path)}


@asynccontextmanager
async def lifespan(_: FastAPI):
    yield
    await rota_api.close()
    app.close()


api = FastAPI(lifespan=lifespan)
api.mount("/rota", rota_api)


@api.post("/songs")
def add_song(path: str) -> dict[str, int]:
    """The application's own route: it adds a job with its own code, in its own thread."""
    return {"job": tag.enqueue(path).id}
