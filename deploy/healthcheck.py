"""The health check of the image: exits with 1 if the job that runs says that it is in trouble.

Only some commands serve /healthz, and only while they run. If nothing listens on the port, there
is nothing to judge, so the container counts as healthy: the engine sees by itself when it ends.
The port is INGOT_METRICS_PORT, else 9464; a service link of Kubernetes (`tcp://...`) names none.
"""

import http.client
import os
import sys

TIMEOUT = 5  # seconds; less than the timeout of HEALTHCHECK
USUAL_PORT = 9464


def find_trouble(port: int) -> str | None:
    """Return why the job is not healthy, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        body = response.read(1000).decode(errors="replace").strip()
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from port {port}: {error}"
    finally:
        connection.close()
    return None if response.status == 200 else f"{response.status}: {body}"


if __name__ == "__main__":
    stated = os.environ.get("INGOT_METRICS_PORT", "")
    sys.exit(find_trouble(int(stated) if stated.isdecimal() else USUAL_PORT))
