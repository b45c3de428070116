"""A Dockerfile's steps in a folder, for machines without an engine. It knows ARG, FROM (of one stage, whatever base is
given), RUN (with bind mounts of the context), COPY, USER, WORKDIR, ENV, LABEL, ENTRYPOINT and CMD, and refuses others."""
import glob
import json
import os
import re
import shlex
import shutil


def steps(path):
    """[(instruction, rest)] without comments, continued lines joined."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if not re.match(r"\s*(#|$)", line)]
    out = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        instruction, rest = line.split(None, 1)
        out.append((instruction.upper(), rest))
    return out


class Image:
    """What a Dockerfile has made of a folder."""

    def __init__(self, path, context, folder):
        self.folder, self.user, self.work, self.environment, self.command, self.arguments = folder, "root", "/", {}, [], []
        for instruction, rest in steps(path):
            step = getattr(self, "do_" + instruction.lower(), None)
            if step is None:
                raise SystemExit(f"{path}: wanted an instruction that this check knows, got {instruction}")
            step(rest, context)

    def run(self, arguments=None, filtered=False):
        """As an engine starts it: with `arguments`, or those of CMD."""
        return self._in_it(shlex.join(self.command + (self.arguments if arguments is None else arguments)), filtered)

    def _in_it(self, command, filtered=False):
        settings = "".join(f"export {name}={shlex.quote(value)}; " for name, value in self.environment.items())
        return self.folder.run(f"{settings}cd {shlex.quote(self.work)} && {command}", user=self.user, filtered=filtered)

    def do_arg(self, rest, context):
        pass  # of the base alone

    def do_from(self, rest, context):
        pass

    def do_label(self, rest, context):
        pass

    def do_run(self, rest, context):
        shown = list(self.folder.shown)
        while mount := re.match(r"--mount=(\S+)\s+", rest):
            keys = dict(part.split("=", 1) for part in mount.group(1).split(","))
            if keys.get("type") != "bind":
                raise SystemExit(f"Dockerfile: wanted a mount of type bind, got {mount.group(1)}")
            self.folder.shown.append((os.path.join(context, keys["source"]), keys["target"]))
            rest = rest[mount.end():]
        did = self._in_it(rest)
        for _, there in self.folder.shown[len(shown):]:
            os.rmdir(self.folder.path + there)
        self.folder.shown = shown
        if did.code != 0:
            raise SystemExit(f"Dockerfile: RUN {rest}: ended with {did.code}: {did.out[-3000:]}")

    def do_copy(self, rest, context):
        *sources, target = rest.split()
        for source in [name for pattern in sources for name in glob.glob(os.path.join(context, pattern))]:
            into = self.folder.path + os.path.join(self.work, target)
            if target.endswith("/") or len(sources) > 1:
                os.makedirs(into, exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, into, dirs_exist_ok=True)
            else:
                shutil.copy(source, into)

    def do_env(self, rest, context):
        self.environment.update(part.split("=", 1) for part in shlex.split(rest))

    def do_user(self, rest, context):
        self.user = rest.strip()

    def do_workdir(self, rest, context):
        self.work = os.path.join(self.work, rest.strip())
        os.makedirs(self.folder.path + self.work, exist_ok=True)

    def do_entrypoint(self, rest, context):
        self.command = json.loads(rest)

    def do_cmd(self, rest, context):
        self.arguments = json.loads(rest)
