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
    """Connect to Ray and print its resources."""
    import ray

    ray.init("ray://" + os.environ["ENDPOINT"], logging_level="ERROR")
    total = ray.cluster_resources()
    cores, gpus = (int(total.get(name, 0)) for name in ("CPU", "GPU"))
    has = f"nodes: {len(ray.nodes())}, cores: {cores}, GPUs: {gpus}"
    print(f"{has}, Ray {ray.__version__}, Python {platform.python_version()}")


def try_token(token, seconds=None):
    """Return what a client with a token finds; "" if it does not get in."""
    command = [sys.executable, os.path.abspath(__file__), "join"]
    environment = dict(os.environ, RAY_AUTH_TOKEN=token)
    try:
        answer = subprocess.check_output(
            command, env=environment, stderr=subprocess.DEVNULL, timeout=seconds
        )
    except subprocess.SubprocessError:
        return ""
    return answer.decode().strip().split("\n")[-1]


def has_tokens():
    """Return True if this Ray has tokens, and what its clients need."""
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError:
        return False
    return tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 52)


def main():
    """Wait for Ray's token, then try it."""
    if not has_tokens():
        sys.exit("serve: this needs Ray 2.52 or newer, and grpcio: pip install 'ray[client]'")
    token, has = os.environ["TOKEN"], ""
    while not has:  # on a busy node, Ray's server is not there at once
        has = try_token(token)
        time.sleep(0 if has else 2)
    if try_token(os.urandom(24).hex(), SECONDS):
        sys.exit("serve: ray lets everybody in: it answers without the token")
    os.umask(0o077)
    for name, text in ((".joined", token), ("has", has)):
        with open(os.path.join(os.environ["FOLDER"], name), "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    join() if sys.argv[1:] == ["join"] else main()
