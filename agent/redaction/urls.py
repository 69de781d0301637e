"""What opens doors in the URLs of a message; all else of it stays as it is."""

import re

from ingot.agent.redaction.network import query_values, url_credentials

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")


def without_credentials(text: str) -> str:
    """The text with the credentials and the secret query values of its URLs replaced.

    Paths and names are not looked at: people have to find their own files.
    """
    return _URL.sub(lambda found: _closed(found[0]), text)


def _closed(url: str) -> str:
    spans = [(*span, "[credentials]") for span in url_credentials(url)]
    spans += [(*span, "[secret]") for span in query_values(url)]
    for start, end, kind in sorted(spans, reverse=True):
        url = f"{url[:start]}{kind}{url[end:]}"
    return url
