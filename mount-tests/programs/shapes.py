"""Agents of many shapes: how the process that reads and the process that saves are related.

Used as a module by steps.py, whose process is the agent. `Agent(SHAPE)` is told `look(NAME)` and
`save(NAME)`, two tool calls; a save writes the text of $SCRATCH/new. An agent's helpers (a tmux
server, a server of requests) end with the agent, whatever its end.
"""
import json
import os
import pty
import socket
import subprocess
import sys
import threading
import time

SCRATCH = os.environ["SCRATCH"]
PROGRAMS = os.environ["PYTHONPATH"]
LIMIT = 30
ORDINARY = "nobody"

# A command goes to the shell below these as $CMD, or as the word CMD of the list.
PREFIXES = {
    "session": ["bash", "-c", "CMD"],
    "timeout": ["timeout", "20", "bash", "-c", "CMD"],
    "env": ["env", "-u", "LC_ALL", "SOME=thing", "bash", "-c", "CMD"],
    "nice": ["nice", "-n", "5", "bash", "-c", "CMD"],
    "nohup": ["nohup", "bash", "-c", "CMD"],
    "script": ["script", "-qec", "CMD", "/dev/null"],
    "sudo": ["sudo", "-n", "-E", "-u", ORDINARY, "--", "bash", "-c", "CMD"],
    "runuser": ["runuser", "-u", ORDINARY, "--", "bash", "-c", "CMD"],
    "xargs": ["bash", "-c", "printf '%s\\0' \"$CMD\" true | xargs -0 -n 1 -P 2 bash -c"],
    "parallel": ["parallel", "--will-cite", "-j", "2", "eval", ":::", "CMD", "true"],
    "make": ["make", "-s", "-j", "2", "-f", os.path.join(SCRATCH, "Makefile"), "tool"],
    "bwrap": ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent",
              "bash", "-c", "CMD"],
    "unshare": ["unshare", "-p", "-f", "--mount-proc", "bash", "-c", "CMD"],
    "wrapped": ["timeout", "20", "sh", "-c", "(eval \"$CMD\"); exit $?"],
    "sandboxed": ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent",
                  "sh", "-c", "setsid -w sh -c 'eval \"$CMD\"; exit $?'; exit $?"],
    "helper": ["sh", "-c", "setsid -w sh -c 'eval \"$CMD\"; exit $?'; exit $?"],
}
# How a command saves the text of $SCRATCH/new.
WAYS = {
    "redirect": "cat '{new}' > '{name}'",
    "builtin": "t=$(cat '{new}'); echo \"$t\" > '{name}'",
    "cp": "cp '{new}' '{name}'",
    "tee": "tee '{name}' < '{new}' > /dev/null",
    "dd": "dd if='{new}' of='{name}' conv=fsync status=none",
    "rename": "cat '{new}' > '{name}.tmp' && mv '{name}.tmp' '{name}'",
    "across": "cp '{new}' '{new}.2' && mv '{new}.2' '{name}'",
    "remove": "rm '{name}'; cat '{new}' > '{name}'",
    "backup": "mv '{name}' '{name}.old'; cat '{new}' > '{name}'; rm '{name}.old'",
    "in_place": "python3 -c 'import os, sys; t = open(sys.argv[1], \"rb\").read(); f = os.open(sys.argv[2], os.O_WRONLY);"
                " os.write(f, t); os.ftruncate(f, len(t))' '{new}' '{name}'",
    "node": "node -e 'fs.writeFileSync(process.argv[2], fs.readFileSync(process.argv[1]))' '{new}' '{name}'",
}
MAKEFILE = "tool:\n\t@bash -c \"$$CMD\"\n"


def run(args, cmd, session=True):
    args = [cmd if arg == "CMD" else arg for arg in args]
    subprocess.run(args, check=True, timeout=LIMIT, start_new_session=session, env=dict(os.environ, CMD=cmd),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def on_a_terminal(cmd):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "-c", cmd])
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    # The terminal hangs up when it is closed, which would end a command that is not quite over.
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    assert code == 0, (code, cmd)


def wait_for(flag, cmd):
    """A command that nobody can wait for tells its exit code in a file."""
    end = time.monotonic() + LIMIT
    while not os.path.exists(flag):
        assert time.monotonic() < end, "no end of " + cmd
        time.sleep(0.003)
    with open(flag) as file:
        code = file.read().strip()
    os.unlink(flag)
    assert code == "0", (code, cmd)


def flagged(cmd):
    flag = os.path.join(SCRATCH, f"flag.{os.getpid()}.{time.monotonic_ns()}")
    return f"( {cmd}\n); echo $? > {flag}.part; mv {flag}.part {flag}", flag


def double_fork(cmd):
    """Twice forked, below process 1 when it begins."""
    script, flag = flagged(cmd)
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            between = os.getpid()
            if os.fork() == 0:
                while os.getppid() == between:
                    time.sleep(0.002)
                os.execvp("bash", ["bash", "-c", script])
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    wait_for(flag, cmd)


def new_session_by_setsid(cmd):
    """`setsid -f`, as a shell has it."""
    script, flag = flagged(cmd)
    waiting = "while [ -e /proc/$LAUNCHER ]; do sleep 0.002; done\n"
    subprocess.run(["sh", "-c", "LAUNCHER=$$ exec setsid -f bash -c \"$CMD\""], check=True, timeout=LIMIT,
                   env=dict(os.environ, CMD=waiting + script), stdin=subprocess.DEVNULL)
    wait_for(flag, cmd)


class Tmux:
    """A tmux server of its own. A command gets a session or a window of its own, or is typed
    into one of two panes."""

    def __init__(self, agent, way):
        self.agent = agent
        self.way = way
        self.where = os.getcwd()
        self.socket = os.path.join(SCRATCH, "tmux")
        self.turn = 0
        # The server ends when the agent has.
        base = f"cat {agent.alive_name}; exec tmux -S {self.socket} kill-server"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "base", "-x", "200", "-y", "50", "-c", SCRATCH, base)
        if way == "panes":
            for name in "one", "two":
                self.tmux("new-window", "-d", "-n", name, "-c", self.where, "bash --norc --noprofile")

    def tmux(self, *args):
        subprocess.run(["tmux", "-S", self.socket, *args], check=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
                       env={k: v for k, v in os.environ.items() if not k.startswith("TMUX")} | {"TERM": "screen"})

    def __call__(self, cmd):
        script, flag = flagged(cmd)
        if self.way == "sessions":
            self.tmux("new-session", "-d", "-c", self.where, "bash", "-c", script)
        else:
            self.turn += 1
            path = os.path.join(SCRATCH, "typed")
            with open(path, "w") as file:
                file.write(script)
            # The looks are in one pane, the saves in the other one.
            pane = "base:one" if self.agent.looking else "base:two"
            self.tmux("send-keys", "-t", pane, f"bash {path}", "Enter")
        wait_for(flag, cmd)


class Requests:
    """A server like sshd: below process 1, it handles each request in a forked process with a
    session of its own, and runs a command there."""

    def __init__(self, agent):
        self.address = os.path.join(SCRATCH, "requests")
        code = f"import shapes; shapes.serve({self.address!r}, {agent.alive_name!r})"
        double_fork(f"python3 -c \"{code}\" > /dev/null 2>&1 < /dev/null & true")
        end = time.monotonic() + LIMIT
        while not os.path.exists(self.address):
            assert time.monotonic() < end, "no server"
            time.sleep(0.01)

    def __call__(self, cmd):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(LIMIT)
            line.connect(self.address)
            line.sendall(cmd.encode())
            line.shutdown(socket.SHUT_WR)
            answer = line.recv(100)
        assert answer == b"0", (answer, cmd)


def serve(address, alive):
    threading.Thread(target=lambda: (open(alive).read(), os._exit(0)), daemon=True).start()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address + ".part")
        server.listen()
        os.rename(address + ".part", address)
        while True:
            line, _ = server.accept()
            if os.fork() == 0:
                os.setsid()
                cmd = b"".join(iter(lambda: line.recv(65536), b"")).decode()
                code = subprocess.run(["bash", "-c", cmd], timeout=LIMIT, stdin=subprocess.DEVNULL).returncode
                line.sendall(str(code).encode())
                os._exit(0)
            line.close()


class Node:
    """A Node process that spawns each command detached; several at once if it is told so."""

    def __init__(self):
        self.process = subprocess.Popen(["node", os.path.join(PROGRAMS, "shapes.js")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)

    def __call__(self, *cmds):
        self.process.stdin.write(json.dumps(cmds) + "\n")
        self.process.stdin.flush()
        codes = json.loads(self.process.stdout.readline())
        assert codes == [0] * len(cmds), (codes, cmds)


class Tool:
    """A server of tools: a process of its own below the agent that reads and writes files itself."""

    def __init__(self):
        code = "import shapes; shapes.tool()"
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True)

    def ask(self, *request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer == "done", answer

    def look(self, name):
        self.ask("look", name)

    def save(self, name):
        self.ask("save", name)


def tool():
    for line in sys.stdin:
        what, name = json.loads(line)
        try:
            look_here(name) if what == "look" else save_here(name)
            print('"done"', flush=True)
        except OSError as error:
            print(json.dumps(str(error)), flush=True)


def look_here(name):
    with open(name) as file:
        return file.read()


def new_text(which="new"):
    with open(os.path.join(SCRATCH, which), "rb") as file:
        return file.read()


def save_here(name, which="new"):
    with open(name, "wb", buffering=0) as file:
        file.write(new_text(which))


class Agent:
    def __init__(self, shape, way="redirect"):
        self.way = way
        # Whoever waits for the end of this pipe learns of the agent's end.
        self.alive_name = os.path.join(SCRATCH, "alive")
        os.mkfifo(self.alive_name)
        self.alive = os.open(self.alive_name, os.O_RDWR)
        with open(os.path.join(SCRATCH, "Makefile"), "w") as file:
            file.write(MAKEFILE)
        here = {"look": look_here, "save": save_here}
        by = {"look": self.look_by_call, "save": self.save_by_call}
        reads, saves = by, by
        if shape in PREFIXES:
            self.call = lambda cmd: run(PREFIXES[shape], cmd)
        elif shape == "one_process":
            reads, saves = here, here
        elif shape == "one_shell":
            self.call = lambda cmd: run(PREFIXES["session"], cmd, session=False)
        elif shape == "terminal":
            self.call = on_a_terminal
        elif shape == "agent_reads_child_saves":
            self.call = lambda cmd: run(PREFIXES["session"], cmd)
            reads = here
        elif shape == "agent_reads_helper_saves":
            self.call = lambda cmd: run(PREFIXES["helper"], cmd)
            reads = here
        elif shape == "agent_reads_sandbox_saves":
            self.call = lambda cmd: run(PREFIXES["sandboxed"], cmd)
            reads = here
        elif shape == "child_reads_agent_saves":
            self.call = lambda cmd: run(PREFIXES["session"], cmd)
            saves = here
        elif shape == "double_fork":
            self.call = double_fork
        elif shape == "setsid_f":
            self.call = new_session_by_setsid
        elif shape == "tmux_sessions":
            self.call = Tmux(self, "sessions")
        elif shape == "tmux_panes":
            self.call = Tmux(self, "panes")
        elif shape == "requests":
            self.call = Requests(self)
        elif shape == "node_detached":
            self.call = Node()
        elif shape == "tool_reads_shell_saves":
            self.tool = Tool()
            self.call = lambda cmd: run(PREFIXES["session"], cmd)
            reads = {"look": self.tool.look}
        elif shape == "shell_reads_tool_saves":
            self.tool = Tool()
            self.call = lambda cmd: run(PREFIXES["session"], cmd)
            saves = {"save": self.tool.save}
        elif shape == "tool_reads_tmux_saves":
            self.tool = Tool()
            self.call = Tmux(self, "sessions")
            reads = {"look": self.tool.look}
        elif shape == "user_reads_root_saves":
            self.call = lambda cmd: run(PREFIXES["runuser" if self.looking else "session"], cmd)
        else:
            raise ValueError(shape)
        self.look, self.save = reads["look"], saves["save"]

    def look_by_call(self, name):
        self.looking = True
        self.call(f"cat '{name}' > /dev/null")

    def save_by_call(self, name):
        self.looking = False
        self.call(WAYS[self.way].format(new=SCRATCH + "/new", name=name))

    def end(self):
        """Ends what it has started, and is in nobody's way."""
        os.chdir("/")
        os.close(self.alive)
        for helper in (getattr(self, "call", None), getattr(self, "tool", None)):
            if hasattr(helper, "process"):
                helper.process.stdin.close()
                helper.process.wait(LIMIT)


def dashboard():
    """A server with a thread for each request, GET reads and PUT writes; its port."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with open("." + self.path, "rb") as file:
                text = file.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_PUT(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            with open("." + self.path, "wb") as file:
                file.write(text)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


class Browser:
    """A client of the dashboard."""

    def __init__(self, port):
        import urllib.request

        self.urllib = urllib.request
        self.base = f"http://127.0.0.1:{port}/"
        # Whatever the surroundings say about proxies.
        self.opener = self.urllib.build_opener(self.urllib.ProxyHandler({}))

    def look(self, name):
        with self.opener.open(self.base + name, timeout=LIMIT) as answer:
            return answer.read().decode()

    def save(self, name, text):
        request = self.urllib.Request(self.base + name, text.encode(), method="PUT")
        with self.opener.open(request, timeout=LIMIT) as answer:
            assert answer.status == 200
