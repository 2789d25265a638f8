"""Join a Ray cluster as a client, once with the token and once with a wrong one.

It runs with the Python that has Ray. What the cluster has is noted for the recipe's text.
"""

import os
import platform
import subprocess
import sys
import time

SECONDS = 30  # for a client with a wrong token, which Ray lets try again and again


def join():
    import ray

    ray.init("ray://" + os.environ["ENDPOINT"], logging_level="ERROR")
    total = ray.cluster_resources()
    cores, gpus = (int(total.get(name, 0)) for name in ("CPU", "GPU"))
    has = f"nodes: {len(ray.nodes())}, cores: {cores}, GPUs: {gpus}"
    print(f"{has}, Ray {ray.__version__}, Python {platform.python_version()}")


def can_join(token, seconds=None):
    """Return what a client with a token finds; None if it does not get in."""
    command = [sys.executable, os.path.abspath(__file__), "join"]
    try:
        answer = subprocess.run(
            command,
            env=dict(os.environ, RAY_AUTH_TOKEN=token),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    return answer.stdout.decode().strip().split("\n")[-1] if answer.returncode == 0 else None


def main():
    try:
        import grpc  # noqa: F401
        import ray

        too_old = tuple(map(int, ray.__version__.split(".")[:2])) < (2, 52)
    except ImportError:
        too_old = True
    if too_old:
        sys.exit(
            "serve: this needs Ray 2.52 or newer, which has tokens, and grpcio: "
            "pip install 'ray[client]'"
        )
    token = os.environ["TOKEN"]
    has = can_join(token)
    while has is None:  # on a busy node, Ray's server is not there at once
        time.sleep(2)
        has = can_join(token)
    if can_join(os.urandom(24).hex(), SECONDS) is not None:
        sys.exit("serve: ray lets everybody in: it answers without the token")
    os.umask(0o077)
    for name, text in ((".joined", token), ("has", has)):
        with open(os.path.join(os.environ["FOLDER"], name), "w") as file:
            file.write(text + "\n")


if sys.argv[1:] == ["join"]:
    join()
elif __name__ == "__main__":
    main()
