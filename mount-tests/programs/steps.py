"""Runs the steps that arrive on standard input, one JSON object a line, in one namespace.

A step is {"run": CODE} or {"eval": EXPRESSION}; the answer is one line: {"value": ...} or
{"error": KIND, "errno": NUMBER or null, "text": MESSAGE}. Bytes answer as latin-1 text.
"""
import json
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
space = {"__name__": "steps"}
exec("import os, sys, json, time, fcntl, mmap, struct, errno, stat", space)


def plain(value):
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


for line in sys.stdin:
    step = json.loads(line)
    try:
        if "run" in step:
            exec(step["run"], space)
            answer = {"value": None}
        else:
            answer = {"value": plain(eval(step["eval"], space))}
    except Exception as error:
        answer = {
            "error": type(error).__name__,
            "errno": getattr(error, "errno", None),
            "text": str(error),
        }
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
