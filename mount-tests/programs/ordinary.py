"""Agents of some shapes in the mount of an ordinary user, on the files of ../samples.json: each
looks, another program appends, it saves; says what is not as wanted then."""
import json
import os
import sys

import shapes

assert os.getuid() != 0
with open("../samples.json") as file:
    samples = json.load(file)
wrong = []
for sample, shape in zip(samples, ["session", "terminal", "double_fork"]):
    name = sample["name"]
    agent = shapes.Agent(shape)
    agent.look(name)
    with open("../other", "w") as file:
        file.write(sample["other"])
    shapes.double_fork(f"cat ../other >> {name}")
    with open("../new", "w") as file:
        file.write(sample["edited"])
    agent.save(name)
    os.unlink(agent.alive_name)
    with open(name) as file:
        got = file.read()
    if got != sample["wanted"]:
        wrong.append(f"{name}, {shape}: wanted\n{sample['wanted']}-- got\n{got}--")
sys.exit("\n".join(wrong) or 0)
