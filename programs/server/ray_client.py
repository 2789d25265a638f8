"""Join a Ray cluster as a client, once with the token and once with a wrong one.

This runs with the Python that has Ray. It writes the cluster's resources to a file, ``has``, for
the recipe's text.
"""

import os
import platform
import subprocess
import sys
import time

SECONDS = 30  # for a client with a wrong token, which would otherwise retry forever


def join():
    """Connect to Ray and print its resources."""
    import ray

    ray.init("ray://" + os.environ["ENDPOINT"], logging_level="ERROR")
    total = ray.cluster_resources()
    cores, gpus = (int(total.get(name, 0)) for name in ("CPU", "GPU"))
    resources = f"nodes: {len(ray.nodes())}, cores: {cores}, GPUs: {gpus}"
    print(f"{resources}, Ray {ray.__version__}, Python {platform.python_version()}")


def try_token(token, seconds=None):
    """Return the resources that a client with a token sees; "" if Ray refuses it.

    seconds: after which it counts as refused; None: wait for Ray's answer.
    """
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
    """Return True if this Ray has tokens, and the packages of a client are installed."""
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError:
        return False
    return tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 52)


def main():
    """Wait until Ray takes the token, and exit with an error if Ray takes a wrong one, too."""
    if not has_tokens():
        sys.exit("serve: this needs Ray 2.52 or newer, and grpcio: pip install 'ray[client]'")
    token = os.environ["TOKEN"]
    resources = try_token(token)
    while not resources:  # on a busy node, Ray's server starts late
        time.sleep(2)
        resources = try_token(token)
    if try_token(os.urandom(24).hex(), SECONDS):
        sys.exit("serve: ray lets everybody in: it answers without the token")
    os.umask(0o077)
    for name, text in ((".joined", token), ("has", resources)):
        with open(os.path.join(os.environ["FOLDER"], name), "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    join() if sys.argv[1:] == ["join"] else main()
