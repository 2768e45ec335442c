#!/usr/bin/env python3
"""Writes the text of $N to $T and never looks at what becomes of it: a file object that nobody
closes before the end."""
import os

file = open(os.environ["T"], "w")
with open(os.environ["N"]) as source:
    file.write(source.read())
