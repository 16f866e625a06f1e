"""One process of a job: runs the program that its argument names, and writes what it returns."""

import faulthandler
import importlib
import json
import pathlib
import signal
import sys

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # the launcher asks one that takes too long where it is
    # A shell's background jobs ignore Ctrl-C, and so would what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from place import Place

    request = json.loads(sys.argv[1])
    place = Place(request["address"], request["process"], request["count"])
    result = getattr(importlib.import_module(request["module"]), request["program"])(
        place, **request["arguments"]
    )
    pathlib.Path(request["result"]).write_text(json.dumps(result))
