"""Ray Serve in front of Hearth: HEARTH_MAIN=…/main.ts HEARTH_MODEL=qwen3-4b serve run ray_serve:app

Each replica starts its own server on a free port and forwards requests and streams to it. Ray starts and ends replicas;
Hearth itself replaces a lost or hanging model. The nodes need Deno, a checkout of Hearth, and the Python packages of
ray[serve].
"""

import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import aiohttp
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from ray import serve

# Headers that concern one connection or that aiohttp sets, and headers that could make a caller look local.
OWN_HEADERS = {
    *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"),
    *("forwarded", "x-forwarded-for", "x-real-ip"),
}

api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)


@serve.deployment(
    num_replicas=2,
    # A large number, so that requests wait in Hearth, which batches them, and not in Ray.
    max_ongoing_requests=256,
    graceful_shutdown_timeout_s=45,
    ray_actor_options={"num_cpus": 4},
)
@serve.ingress(api)
class Hearth:
    def __init__(self, model: str):
        """Returns when the model is loaded; Ray then uses the replica."""
        command = ["deno", "run", "-A", os.environ["HEARTH_MAIN"]]
        # With --trusted-proxy, no forwarded request counts as local.
        flags = ["-m", model, "-p", "0", "--trusted-proxy", "127.0.0.1", "--drain-seconds", "25"]
        self.process = subprocess.Popen(command + flags, stdout=subprocess.PIPE, text=True)
        self.base_url = self.read_address()
        while not self.is_ready():
            self.require_process("loaded its model")
            time.sleep(1)
        self.client = None

    def read_address(self) -> str:
        for line in self.process.stdout:
            found = re.search(r"listens at (http://\S+\d)", line)
            if found:
                # Nothing reads the pipe from here on; the few lines that follow fit into it.
                return found[1]
        raise RuntimeError("Hearth ended before it listened; its log says why")

    def is_ready(self) -> bool:
        try:
            return urllib.request.urlopen(self.base_url + "/health").status == 200
        except urllib.error.HTTPError:
            return False

    def require_process(self, when: str):
        if self.process.poll() is not None:
            raise RuntimeError(f"Hearth ended while it {when}; its log says why")

    async def check_health(self):
        """Ray replaces the replica if this raises. It does not raise while Hearth reloads its model."""
        self.require_process("served")

    @api.api_route("/{path:path}", methods=["GET", "POST", "DELETE"])
    async def pass_on(self, path: str, request: Request):
        if self.client is None:
            # No limits here, since Ray and Hearth limit requests and their times.
            connector = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            self.client = aiohttp.ClientSession(
                self.base_url, connector=connector, timeout=timeout, auto_decompress=False
            )
        query = f"?{request.url.query}" if request.url.query else ""
        headers = {k: v for k, v in request.headers.items() if k not in OWN_HEADERS}
        answer = await self.client.request(
            request.method, f"/{path}{query}", headers=headers, data=await request.body()
        )
        return StreamingResponse(
            stream_bytes(answer),
            status_code=answer.status,
            headers={k: v for k, v in answer.headers.items() if k.lower() not in OWN_HEADERS},
        )

    def __del__(self):
        self.process.terminate()
        self.process.wait(timeout=40)


async def stream_bytes(answer: aiohttp.ClientResponse):
    try:
        async for part in answer.content.iter_any():
            yield part
    finally:
        # Closing the connection tells Hearth that the client has left, so that it stops computing.
        answer.close()


app = Hearth.bind(os.environ.get("HEARTH_MODEL", "qwen3-4b"))
