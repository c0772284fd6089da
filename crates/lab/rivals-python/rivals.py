"""What each of these programs prints: a line of JSON.

``seconds``: from the file's name to the counts, without the imports. ``squares``: the sum of the
squares of the flows' counts, which differs where two flows were taken for one.
"""

import json


def tell(seconds: float, counts: list) -> None:
    """Prints the result."""
    squares = sum(count * count for count in counts)
    said = {"seconds": seconds, "packets": sum(counts), "flows": len(counts), "squares": squares}
    print(json.dumps(said))
