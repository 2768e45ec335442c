#!/usr/bin/env python3
"""Plays worlds of agents with real processes on a mount and counts the saves that come out wrong.

usage: worlds.py MOUNT [--world W,...] [--kind K,...] [--seeds N] [--seed S] [-v] [--json]
       worlds.py --self-check [--world W,...] [--kind K,...] [--seeds N] [--seed S] [--json]

A world has agents, other programs and one document. An agent has a mind: the text that it believes to be in
the document. It looks, and it saves an edit of what it has in mind; what its processes look like (one process,
a process for each call, three deep, several minds behind one process, a double fork) is its shape. After each
save the document's entries are compared with those that the agent had in mind: the merge of mind, text written
and text that was there. An entry is a mission, a key of the config or a line; it is known by its letter, and a
rewording makes a new version of it.

  wrong    the entries are not those; each of these is a part of it:
  lost     an entry that should be there is not, in any version
  undone   an entry that should not be there is
  doubled  an entry is there more often than it should be
  others   (counted apart) changes by programs that leave no doubt, a read and a write through one
           handle or an append, that came out wrong; and reads that did not give the current text
  daemon   (counted apart) saves of the hub by itself, right after it has read, that came out wrong

MOUNT's missions.md and config.yaml are overwritten; notes and queues are new files in memory/ and journal/.
With --self-check the same games are played against the rule that finds the merge base (docs/SEMANTICS.md, "Which
version has the writer seen?") as a program in memory, without a mount. -v prints each wrong save and what led to it.
"""
import argparse, collections, difflib, json, os, random, signal, socket, sys, time

LIMIT = 30  # seconds that one call may take


# --- documents

WORDS = """anchor apricot badge barley basin beacon bishop blanket bonfire bottle bramble bridge bucket cabin candle canvas
carbon castle cedar chapel cipher clover cobalt copper coral cotton cradle crystal dagger daisy desert diesel dolphin donkey
dragon ember engine fabric falcon feather fiddle filter flannel forest fossil funnel galaxy garden garlic ginger glacier
goblin granite gravel guitar hammer harbor hazel helmet hermit hollow igloo island ivory jacket jigsaw jungle kernel kettle
kitchen ladder lagoon lantern lemon linen lizard lobster locket magnet mango maple marble meadow mirror mitten monkey mosaic
muffin napkin needle nickel nutmeg oasis olive onion orchid oyster paddle panther parcel pebble pepper pigeon pillow piston
planet plasma pocket poplar puzzle quarry quartz rabbit radish raven ribbon rocket saddle saffron salmon satchel shovel
shadow silver socket spider sponge squash stable summit tablet tailor teapot temple thistle timber tomato trumpet tulip
tunnel turnip turtle umbrella valley velvet violet walnut weasel whistle willow window yogurt zephyr zipper""".split()


class Letters:
    """The entries of one game: their texts, and which entry a text is."""

    def __init__(self, rng, config):
        self.rng, self.config = rng, config
        self.stems, self.versions, self.known, self.texts, self.like = [], [], {}, {}, []

    def new(self):
        """An entry that there has not been, unlike all others."""
        n = len(self.stems)
        name = chr(97 + n) if n < 26 else "z%d" % n
        self.versions.append(0)
        for tries in range(1000):
            stem = ("_" if self.config else " ").join(self.rng.sample(WORDS, 2) + [name])
            text = stem + ": 0" if self.config else stem
            if self.apart(n, text, .44 + min(tries, 50) / 1000):
                self.stems.append(stem)
                return self.keep((n, 0), text)
        raise Fault("no new text")

    def reword(self, entry):
        """A new text of a letter."""
        n, stem = entry[0], self.stems[entry[0]]
        self.versions[n] += 1
        for tries in range(1000):
            text = "%s: %d" % (stem, self.rng.randint(1, 999)) if self.config else stem + " " + self.rng.choice(WORDS)
            if text not in self.known and (self.config or self.apart(n, text, .5) or tries > 20):
                return self.keep((n, self.versions[n]), text)
        raise Fault("no new wording of " + stem)

    def keep(self, entry, text):
        self.known[text], self.texts[entry] = entry, text
        if self.config and entry[1]:
            return entry  # its key stays
        matcher = difflib.SequenceMatcher(autojunk=False)
        matcher.set_seq2(text)
        self.like.append((entry[0], matcher))
        return entry

    def apart(self, letter, text, limit):
        """At least 0.6 like all texts of this letter, less than `limit` like those of others."""
        for other, matcher in self.like:
            matcher.set_seq1(text)
            if (matcher.ratio() < .6) if other == letter else (matcher.ratio() >= limit):
                return False
        return True

    def text(self, entry):
        return self.texts[entry]

    def short(self, entries):
        def one(e):
            return self.stems[e[0]].replace("_", " ").split()[-1] + (str(e[1]) if e[1] else "")
        return " ".join(one(e) for e in entries) or "-"


class Kind:
    """How a document of entries looks, and what the merge makes of it."""
    head, tail, mark, bag = "", "", "", False

    def render(self, letters, entries):
        return self.head + "".join(self.line(letters, e) for e in entries) + self.tail

    def line(self, letters, entry):
        return self.mark + letters.text(entry) + "\n"

    def parse(self, letters, text):
        """The entries in their order, and the lines that should not be there."""
        entries, odd = [], []
        tail = self.tail.split("\n")
        for i, line in enumerate(text.split("\n")):
            if line.startswith(self.mark) and line[len(self.mark):] in letters.known and not (
                    self.tail and tail[1] in text.split("\n")[:i]):
                entries.append(letters.known[line[len(self.mark):]])
            elif line and line not in self.head.split("\n") and line not in tail:
                odd.append(line)
        return entries, odd

    def edit(self, letters, text, old, new):
        """The text with one entry replaced, removed (`new` is None) or added (`old` is None)."""
        fresh = self.line(letters, new) if new else ""
        if old:
            return text.replace(self.line(letters, old), fresh, 1)
        at = text.rfind(self.tail) if self.tail else -1
        return text + fresh if at < 0 else text[:at] + fresh + text[at:]

    def merge(self, base, wrote, now):
        """By letter: what the writer changed counts, but a removal never beats a change."""
        b, w, n = dict(base), dict(wrote), dict(now)
        for letter in [*b, *(x for x in w if x not in b)]:
            if b.get(letter) == w.get(letter):
                continue
            if letter in w:
                n[letter] = w[letter]
            elif n.get(letter) == b[letter]:
                del n[letter]
        return list(n.items())

    def blind(self, wrote, now):
        return now + [e for e in wrote if e not in now]

    def meant(self, wrote, now):
        """What a program that has never looked means."""
        letters = {e[0] for e in now}
        return now + [e for e in wrote if e[0] not in letters]


class Missions(Kind):
    head, tail, mark = "# Missions\n\n## Pending\n\n", "\n## In Progress\n\n## Done\n", "- "


class Config(Kind):
    head = "version: 1\n"

    def blind(self, wrote, now):
        return list({**dict(now), **dict(wrote)}.items())


class Note(Kind):
    head = "# Notes\n\n"

    def blind(self, wrote, now):
        return list(wrote)

    def meant(self, wrote, now):
        return list(wrote)  # a text that is overwritten by who has not read it is replaced


class Queue(Kind):
    """Each line stands for itself: additions are all kept, equal ones too, and so are two edits of one line."""
    bag = True

    def merge(self, base, wrote, now):
        out, gone = [], collections.Counter(base) - collections.Counter(wrote)
        for e in now:
            if gone[e] > 0:
                gone[e] -= 1
            else:
                out.append(e)
        return out + list((collections.Counter(wrote) - collections.Counter(base)).elements())

    def blind(self, wrote, now):
        return now + list(wrote)

    def meant(self, wrote, now):
        return now + list(wrote)


KINDS = {"missions": Missions(), "config": Config(), "note": Note(), "queue": Queue()}


# --- the rule in memory: what a mount is measured by

SEEN = 16  # versions that are asked


class Version:
    """A text and its entries."""
    def __init__(self, text, entries):
        self.text, self.list = text, entries
        self.set, self.by = set(entries), dict(entries)

    def distance(self, other):
        return sum(self.by.get(x) != other.by.get(x) for x in self.by.keys() | other.by.keys())

    def evidence(self, other):
        """How many entries of this one the other one has, or has reworded."""
        return len(self.by.keys() & other.by.keys())


class Observation:
    def __init__(self, at, chain, version, saved):
        self.at, self.chain, self.version, self.saved, self.used = at, chain, version, saved, False


class Memory:
    """Stands for a mount: processes are numbers, the document is a variable, the merge base is what the rule says."""

    def __init__(self):
        self.pids = 100

    def begin(self, kind, letters, tree, text):
        self.kind, self.letters, self.text = kind, letters, text
        self.seen, self.chains = [], {}
        for name, parent in tree:
            self.chains[name] = [self.pid()] + (self.chains[parent] if parent else [1])
        self.observe([self.pid(), self.pid(), 1], text, True)

    def end(self):
        pass

    def pid(self):
        self.pids += 1
        return self.pids

    def chain(self, who):
        node, depth = who
        return [self.pid() for _ in range(depth)] + (self.chains[node] if node else [self.pid(), 1])

    def version(self, text):
        return Version(text, self.kind.parse(self.letters, text)[0])

    def observe(self, chain, text, saved):
        self.seen.append(Observation(len(self.seen), chain, self.version(text), saved))

    # what the game asks for
    def current(self):
        return self.text

    def read(self, who):
        self.observe(self.chain(who), self.text, False)
        return self.text

    def pause(self):
        pass

    def stranger(self, text, _line):
        """Somebody changes the document through one handle, or appends."""
        self.text = text

    def save(self, who, text, look=False, anew=False):
        chain = self.chain(who)
        if look:
            self.observe(chain, self.text, False)
        wrote, now = self.version(text), self.version(self.text).list
        base = self.base(chain, wrote, anew)
        got = self.kind.merge(base.list, wrote.list, now) if base else self.kind.blind(wrote.list, now)
        self.text = self.kind.render(self.letters, got)
        self.observe(chain, text, True)
        return "base " + (self.letters.short(base.list) if base else "none")

    # the rule
    def base(self, chain, wrote, anew):
        base = self.choose(chain, wrote, anew)
        if base:
            from_it = [o for o in self.seen if not o.used and o.version.text == base.text]
            if from_it:
                def nearness(o):
                    met = [i for i, p in enumerate(chain) if p in o.chain]
                    return (-met[0] if met else -99, o.at)
                max(from_it, key=nearness).used = True
        return base

    def choose(self, chain, wrote, anew):
        live, me = [o for o in self.seen if not o.used], chain[0]
        among = [o for o in last_versions([o for o in live if me in o.chain])
                 if o.chain[0] == me or o.version.evidence(wrote)]
        if not any(o.saved and o.chain[0] == me for o in self.seen):
            for ancestor in chain[1:-1]:
                kin = [o for o in live if ancestor in o.chain]
                if kin:
                    emptied = self.kind.bag and not wrote.list
                    if emptied:
                        return kin[-1].version
                    kin = [o for o in last_versions(kin) if half(o.version, wrote, min)]
                    among = sorted({*among, *kin}, key=lambda o: o.at)
                    break
        if among:
            return self.nearest(among, wrote)
        if anew:
            return self.version(self.text)
        among = [o for o in [self.seen[0]] + last_versions(live) if half(o.version, wrote, max)]
        if among and all(o.version.text != wrote.text for o in among):
            return self.nearest(among, wrote)
        return None

    def nearest(self, among, wrote):
        """`among`: observations, oldest first."""
        texts = list(dict.fromkeys(o.version.text for o in reversed(among)))[::-1]
        known, floor, met = set(), 0, set()
        for o in self.seen:
            v = o.version
            if v.text not in met:
                met.add(v.text)
                came = v.set - known
                known |= v.set
                if v.text in texts and 2 * len(came & wrote.set) > len(came):
                    floor = max(floor, texts.index(v.text))
        texts = texts[floor:]
        by = {o.version.text: o.version for o in among}
        if len(texts) > 1 and wrote.text in texts:
            when = max(o.at for o in among if o.version.text == wrote.text)
            saves = [o.at for o in among if o.saved and o.at > when]
            if not saves:
                return by[texts[-1]]
            texts = list(dict.fromkeys(o.version.text for o in reversed(among) if o.at >= saves[-1]))[::-1]
        elif not any(by[t].evidence(wrote) for t in texts):
            return by[texts[-1]]
        return min((by[t] for t in texts), key=lambda v: v.distance(wrote))  # the first, so the oldest, of equals


def last_versions(seen):
    """The observations of the newest versions, oldest first."""
    texts, out = set(), []
    for o in reversed(seen):
        if o.version.text in texts or len(texts) < SEEN:
            texts.add(o.version.text)
            out.append(o)
    return out[::-1]


def half(version, wrote, of):
    e = version.evidence(wrote)
    return e and 2 * e >= of(len(version.by), len(wrote.by))


# --- a mount: real processes

class Fault(Exception):
    """What is not the fault of a save."""


def slurp(fd):
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts).decode()


def act(path, order):
    """One call, by this very process."""
    what, text = order["do"], order.get("text")
    said = {"pid": os.getpid(), "parent": os.getppid()}
    try:
        if what == "look" or order.get("look"):
            fd = os.open(path, os.O_RDONLY)
            said["text"] = slurp(fd)
            os.close(fd)
        if what == "save":
            how = os.O_TRUNC
            if order.get("anew"):
                os.unlink(path)
                # A queue keeps its name with the lines that the remover has not read.
                how = os.O_TRUNC if order.get("kept") else os.O_EXCL
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o644)
            os.write(fd, text.encode())
            os.close(fd)
        elif what == "append":
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.write(fd, text.encode())
            os.close(fd)
        elif what == "through one handle":
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            slurp(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, text.encode(), 0)
            os.close(fd)
    except OSError as error:
        said["error"] = str(error)
    return said


def call(path, order, depth):
    """A call `depth` processes below this one, each in a session of its own."""
    if depth == 0:
        return act(path, order)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)
        os.setsid()
        os.close(r)
        os.write(w, json.dumps(call(path, order, depth - 1)).encode())
        os._exit(0)
    os.close(w)
    said = slurp(r)
    os.close(r)
    os.waitpid(pid, 0)
    return json.loads(said or '{"error": "a process died"}')


def orphaned():
    """Waits until this process hangs on pid 1."""
    end = time.monotonic() + 5
    while os.getppid() != 1:
        if time.monotonic() > end:
            return ("an orphan became a child of process %d, not of pid 1: something above is a child subreaper "
                    "(systemd --user?); play in a pid namespace: unshare --pid --fork --mount-proc" % os.getppid())
        time.sleep(.0002)


def detached(work):
    """Runs `work` in a process that hangs on pid 1; its answer is what `work` returns."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            signal.alarm(LIMIT)
            os.close(r)
            wrong = orphaned()
            os.write(w, json.dumps({"fault": wrong} if wrong else work()).encode())
        os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    said = json.loads(slurp(r) or '{"fault": "a process died"}')
    os.close(r)
    if "fault" in said:
        raise Fault(said["fault"])
    return said


def serve(path, name, tree, ends):
    """A process that stays: starts those below it, then does what it is told, itself or by others."""
    below = [n for n, parent in tree if parent == name]
    for n in below:
        if os.fork() == 0:
            os.setsid()
            serve(path, n, tree, ends)
    mine = ends[name]
    low = 3
    for fd in (mine.fileno(), 1 << 16):
        os.closerange(low, fd)
        low = fd + 1
    signal.alarm(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mine.send(json.dumps({"pid": os.getpid(), "parent": os.getppid()}).encode())
    while order := mine.recv(1 << 20):
        order = json.loads(order)
        mine.send(json.dumps(call(path, order, order["depth"])).encode())
    os._exit(0)


class Mount:
    """The document of one game in a mount, and the processes of those who play."""

    def __init__(self, mount, name):
        self.mount, self.name, self.games, self.kind = mount, name, 0, None
        self.last = {}

    def begin(self, kind, letters, tree, text):
        self.games += 1
        self.kind = kind
        self.path = os.path.join(self.mount, self.name % {"n": self.games})
        self.stranger(text, None)
        pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for name, _ in tree}
        ends = {name: pair[1] for name, pair in pairs.items()}
        self.nodes = {name: pair[0] for name, pair in pairs.items()}
        self.pids = {}
        for name, parent in tree:
            if parent is None:
                pid = os.fork()
                if pid == 0:
                    os.setsid()
                    if os.fork() == 0:
                        signal.alarm(LIMIT)
                        wrong = orphaned()
                        if wrong:
                            ends[name].send(json.dumps({"fault": wrong}).encode())
                            os._exit(1)
                        serve(self.path, name, tree, ends)
                    os._exit(0)
                os.waitpid(pid, 0)
        for end in ends.values():
            end.close()
        for name, node in self.nodes.items():
            node.settimeout(LIMIT)
            self.pids[name] = self.answer(node)["pid"]

    def end(self):
        for node in self.nodes.values():
            node.close()

    def answer(self, node):
        try:
            said = node.recv(1 << 20)
        except TimeoutError:
            raise Fault("a call takes more than %d s" % LIMIT)
        said = json.loads(said or '{"fault": "a process died"}')
        if "fault" in said:
            raise Fault(said["fault"])
        return said

    def ask(self, who, order):
        node, depth = who
        if node is None:
            return detached(lambda: call(self.path, order, depth))
        self.nodes[node].send(json.dumps({**order, "depth": depth}).encode())
        return self.answer(self.nodes[node])

    def current(self):
        with open(self.path, newline="") as f:
            return f.read()

    def read(self, who):
        said = self.ask(who, {"do": "look"})
        if "error" in said:
            raise Fault("a look at %s: %s" % (self.path, said["error"]))
        return said["text"]

    def pause(self):
        """What one process has met and meets again within a second counts once."""
        time.sleep(1.05)

    def stranger(self, text, line):
        order = {"do": "append", "text": line} if line else {"do": "through one handle", "text": text}
        said = self.ask((None, 0), order)
        if "error" in said:
            raise Fault("a stranger at %s: %s" % (self.path, said["error"]))

    def save(self, who, text, look=False, anew=False):
        said = self.ask(who, {
            "do": "save", "text": text, "look": look, "anew": anew, "kept": self.kind.bag})
        return "by %s below %s%s" % (said.get("pid"), said.get("parent"),
                                     ": " + said["error"] if "error" in said else "")


# --- the games

WORLDS = {
    "mixed": "agents of all shapes",
    "editor": "one process that reads once and saves often",
    "sub": "several minds under one agent, a process for each call",
    "service": "several minds in one process",
    "poller": "a daemon above the agents reads all the time",
    "hub": "a daemon above the agents reads and saves, too",
    "template": "an installer that has never looked copies the next release of a template",
    "blind": "a child of a polling daemon writes without having looked",
    "move": "each save is an unlink and a new file, by who has not read",
    "coincide": "agents do what somebody else has done meanwhile",
}
# Not played: a queue has no template, for what is copied onto it is added whole.
# To remove a queue takes out what its remover has read; the lines that are left keep the name, so that
# to make it anew fails with EEXIST.
SHAPES = ["session", "wrapped", "parent", "child", "self", "server"]


class Agent:
    """`node`: the process that it lives in. `looks` and `saves`: whose process makes the call, and how deep below."""

    def __init__(self, shape, node):
        self.shape, self.mind, self.past = shape, None, []
        deep = {"session": (1, 1), "sub": (1, 1), "wrapped": (3, 3), "parent": (0, 1), "child": (1, 0),
                "self": (0, 0), "service": (0, 0)}
        if shape == "server":
            self.looks = self.saves = (None, 0)
        else:
            self.looks, self.saves = ((node, d) for d in deep[shape])


class Game:
    def __init__(self, world, kind_name, seed, place, tally, verbose):
        self.world, self.kind, self.place, self.tally = world, KINDS[kind_name], place, tally
        self.title, self.verbose, self.events = "%s %s seed %d" % (world, kind_name, seed), verbose, []
        self.rng = random.Random("%s %d" % (world, seed))
        self.letters = Letters(random.Random("%s %d letters" % (world, seed)), kind_name == "config")

    # what is in the document
    def entries(self, text):
        return self.kind.parse(self.letters, text)[0]

    def say(self, *words):
        if self.verbose:
            self.events.append(" ".join(str(w) for w in words))

    def short(self, text):
        return self.letters.short(self.entries(text))

    def expect(self, text, what):
        """What leaves no doubt has come out as meant; else the game goes on from what is there."""
        got = self.place.current()
        if sorted(self.entries(got)) != sorted(self.entries(text)) or self.kind.parse(self.letters, got)[1]:
            self.tally["others"] += 1
            self.report(what, text, self.entries(text), got)
        self.now = got

    def stranger(self, text, line, what):
        self.say("somebody", what)
        self.place.stranger(text, line)
        self.expect(text, "what somebody else did")

    def report(self, what, wrote, ideal, got):
        if self.verbose:
            print("%s, %s: %s" % (self.title, getattr(self.place, "path", "in memory"), what))
            for event in self.events:
                print("   ", event)
            print("    wrote %s\n    was   %s\n    got   %s\n    ideal %s" % (
                self.short(wrote), self.short(self.now), self.letters.short(sorted(self.entries(got))),
                self.letters.short(sorted(ideal))))
            odd = self.kind.parse(self.letters, got)[1]
            if odd:
                print("    odd   %r" % odd)
            print(flush=True)

    # what happens
    def begin(self):
        self.first = self.now = self.kind.render(
            self.letters, [self.letters.new() for _ in range(self.rng.randint(2, 7))])
        return self.first

    def play(self):
        rng, world = self.rng, self.world
        self.begin()
        tree, agents = [("daemon", None)], []
        if world in ("sub", "service"):
            tree.append(("host", "daemon"))
            agents = [Agent(world, "host") for _ in range(rng.choice((2, 2, 3)))]
        else:
            for i in range(1 if world == "editor" else rng.choice((1, 2, 2, 3))):
                above = "terminal %d" % i
                if world != "editor" and rng.random() < .6:
                    above = "daemon"
                else:
                    tree.append((above, None))
                tree.append(("agent %d" % i, above))
                agents.append(Agent("self" if world == "editor" else rng.choice(SHAPES), "agent %d" % i))
        self.place.begin(self.kind, self.letters, tree, self.first)
        self.say("begin", self.short(self.first), getattr(self.place, "pids", ""))
        for i, a in enumerate(agents):
            a.name = "mind %d (%s)" % (i, a.shape)
        self.looked = {}
        if world == "editor":
            self.look(agents[0])
        polls = world in ("poller", "blind") or rng.random() < .4
        for _ in range(rng.randint(3, 14)):
            self.step(agents, polls)
        self.place.end()

    def step(self, agents, polls):
        rng, world = self.rng, self.world
        k = rng.random()
        if polls and world != "editor" and rng.random() < .5:
            self.read(("daemon", 0), "daemon")
        now = sorted(self.entries(self.now))
        if k < .2:
            self.somebody(now)
        elif world == "hub" and rng.random() < .25:
            self.read(("daemon", 0), "daemon")
            text = self.kind.edit(self.letters, self.now, None, self.letters.new())
            self.save("daemon", ("daemon", 0), text, self.entries(text), "daemon")
        elif world == "template" and rng.random() < .15 and now:
            text = self.kind.edit(self.letters, self.first, None, self.letters.new())
            # What somebody took out of a template stays out.
            ideal = self.kind.merge(self.entries(self.first), self.entries(text), self.entries(self.now))
            self.save("installer", (None, 1), text, ideal)
        elif world == "blind" and rng.random() < .15 and now:
            wrote = [rng.choice(now)] + [self.letters.new() for _ in range(rng.randint(1, 4))]
            text = self.kind.render(self.letters, wrote)
            self.save("blind child", ("daemon", 1), text, self.kind.meant(wrote, self.entries(self.now)))
        else:
            a = rng.choice(agents)
            if a.mind is None or world != "editor" and rng.random() < .35:
                self.look(a)
            else:
                self.work(a)

    def somebody(self, now):
        """A program that nobody here is related to."""
        q = self.rng.random()
        if q < .6 or not now:
            e = self.letters.new()
            line = self.kind.line(self.letters, e)
            self.stranger(self.kind.edit(self.letters, self.now, None, e), line, "adds " + self.letters.short([e]))
        else:
            e = self.rng.choice(now)
            new = self.letters.reword(e) if q < .8 else None
            self.stranger(self.kind.edit(self.letters, self.now, e, new), None,
                          "rewords or removes " + self.letters.short([e]))

    def read(self, who, name):
        text = self.place.read(who)
        self.say(name, "reads", self.short(text))
        if sorted(self.entries(text)) != sorted(self.entries(self.now)):
            self.tally["others"] += 1
            self.report("a stale read", text, self.entries(self.now), text)
        return text

    def look(self, a):
        if a.shape == "service" and self.looked.get(self.now) not in (None, a):
            self.place.pause()
        self.looked[self.now] = a
        a.mind = self.read(a.looks, a.name)

    def change(self, a):
        rng, text = self.rng, a.mind
        for _ in range(rng.choice((1, 1, 1, 2))):
            k, has = rng.random(), sorted(self.entries(text))
            if k < .35 and has:
                e = rng.choice(has)
                text = self.kind.edit(self.letters, text, e, self.letters.reword(e))
            elif k < .65 and has:
                text = self.kind.edit(self.letters, text, rng.choice(has), None)
            elif k < .9:
                text = self.kind.edit(self.letters, text, None, self.letters.new())
            elif a.past:
                return a.past[-1]
        return text

    def work(self, a):
        rng = self.rng
        text = self.change(a)
        if text == a.mind:
            return
        if self.world == "coincide" and rng.random() < .4:
            mind = self.entries(a.mind)
            others = sorted(e for e in self.entries(self.now) if e not in mind)
            if len(others) > 1:
                e = rng.choice(others)
                same = [x for x in self.entries(text) if x[0] == e[0]]
                text = self.kind.edit(self.letters, text, same[0] if same else None, e)
        look = self.world != "editor" and rng.random() < .4 and a.shape in ("self", "parent", "child")
        ideal = self.kind.merge(self.entries(a.mind), self.entries(text), self.entries(self.now))
        self.save(a.name, a.saves, text, ideal, look=look, anew=self.world == "move")
        self.looked[text] = a
        a.past.append(a.mind)
        a.mind = text

    def save(self, name, who, text, ideal, counts="", look=False, anew=False):
        said = self.place.save(who, text, look, anew)
        got = self.place.current()
        entries, odd = self.kind.parse(self.letters, got)
        self.say(name, "looks once more and" if look else "", "saves", self.short(text), said)
        n, i, t = collections.Counter(entries), collections.Counter(ideal), self.tally
        wrong = n != i or bool(odd)
        if wrong:
            self.report(name + " saves", text, ideal, got)
        if counts:
            t[counts + "_saves"] += 1
            t[counts + "_wrong"] += wrong
        else:
            letters, wanted = collections.Counter(e[0] for e in entries), collections.Counter(e[0] for e in ideal)
            t["saves"] += 1
            t["wrong"] += wrong
            t["lost"] += any(x not in letters for x in wanted)
            t["undone"] += any(x not in wanted for x in letters)
            t["doubled"] += any(m > wanted[x] for x, m in letters.items() if x in wanted)
            t["refused"] += ": [Errno" in said
        self.now = got
        if odd or not self.kind.bag and len(dict(entries)) < len(entries):
            # Doubled entries are two that cannot be told apart: somebody tidies up, and the game goes on.
            kept = list(dict(sorted(entries)).items())
            self.stranger(self.kind.render(self.letters, kept), None, "tidies up")


def place_for(mount, kind):
    if mount is None:
        return Memory()
    if kind in ("note", "queue"):
        folder = "memory" if kind == "note" else "journal"
        os.makedirs(os.path.join(mount, folder), exist_ok=True)
        return Mount(mount, "%s/world-%d-%d-%%(n)d.md" % (folder, os.getpid(), time.monotonic_ns() // 1000))
    return Mount(mount, "missions.md" if kind == "missions" else "config.yaml")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mount", nargs="?")
    p.add_argument("--self-check", action="store_true")
    p.add_argument("--world", default=",".join(WORLDS))
    p.add_argument("--kind", default=",".join(KINDS))
    p.add_argument("--seeds", type=int, default=100)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", action="store_true", help="print the text with which each game begins")
    p.add_argument("--seconds", type=float, help="begin no further game after this time, in each world and kind")
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("--json", action="store_true")
    o = p.parse_args()
    if (o.mount is not None) + o.self_check + o.first != 1:
        p.error("either a mount, --self-check or --first")
    for world in o.world.split(","):
        for kind in o.kind.split(","):
            if o.first:
                for seed in range(o.seed, o.seed + o.seeds):
                    print(json.dumps(Game(world, kind, seed, None, {}, False).begin()))
                continue
            tally, place, begin = collections.Counter(), place_for(o.mount, kind), time.monotonic()
            for seed in range(o.seed, o.seed + o.seeds):
                if o.seconds and time.monotonic() - begin > o.seconds:
                    break
                try:
                    Game(world, kind, seed, place, tally, o.verbose).play()
                except Fault as fault:
                    sys.exit("%s %s seed %d: %s" % (world, kind, seed, fault))
                tally["games"] += 1
            took = time.monotonic() - begin
            if o.json:
                print(json.dumps({"world": world, "kind": kind, "seconds": round(took, 1), **{
                    k: tally[k] for k in "games saves wrong lost undone doubled refused others daemon_saves daemon_wrong".split()}}), flush=True)
            else:
                n = max(tally["saves"], 1)
                print("%-8s %-8s %6d saves in %.1f s," % (world, kind, tally["saves"], took), *(
                    "%s %.2f%%" % (k, 100 * tally[k] / n) for k in "wrong lost undone doubled".split()),
                    "refused %(refused)d others %(others)d daemon %(daemon_wrong)d of %(daemon_saves)d" % tally, flush=True)


if __name__ == "__main__":
    main()
