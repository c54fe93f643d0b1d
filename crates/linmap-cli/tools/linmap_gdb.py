"""The gdb command `linmap`: runs the command of that name on what gdb looks at.

    (gdb) source crates/linmap-cli/tools/linmap_gdb.py
    (gdb) linmap stat
    (gdb) linmap walk $pc
    (gdb) set linmap-source qemu:/run/vm.sock

The SOURCE is the core that gdb has, unless `linmap-source` names another. The address of `walk` is an expression.
"""

import os
import re
import subprocess

import gdb


class LinmapSource(gdb.Parameter):
    """The SOURCE that the command `linmap` reads; empty for the core that gdb has."""

    set_doc = "Set the SOURCE that the command `linmap` reads."
    show_doc = "Show the SOURCE that the command `linmap` reads."

    def __init__(self):
        super().__init__("linmap-source", gdb.COMMAND_DATA, gdb.PARAM_STRING)
        self.value = ""

    def get_set_string(self):
        return ""

    def get_show_string(self, value):
        return f"`linmap` reads {value or 'the core that gdb has'}."


def source():
    """Returns the SOURCE: the parameter, or the core of this gdb."""
    named = gdb.parameter("linmap-source")
    if named:
        return named
    core = re.search(r"core dump file:\s+`(.*)', file type", gdb.execute("info target", to_string=True))
    if core is None:
        raise gdb.GdbError("no core: `set linmap-source SOURCE` names what `linmap` reads")
    return core.group(1)


def address(expression):
    """Returns the value of an expression as an address; a name that gdb does not know is left to `linmap`."""
    try:
        return hex(int(gdb.parse_and_eval(expression)) & 0xFFFF_FFFF_FFFF_FFFF)
    except (gdb.error, ValueError):
        return expression


class Linmap(gdb.Command):
    """linmap COMMAND [ARGUMENTS]: stat, dump, check or walk of the kernel that gdb looks at."""

    COMMANDS = ("stat", "dump", "check", "walk")

    def __init__(self):
        super().__init__("linmap", gdb.COMMAND_DATA)

    def complete(self, text, word):
        return [command for command in self.COMMANDS if command.startswith(word)] if " " not in text else []

    def invoke(self, line, from_tty):
        arguments = gdb.string_to_argv(line) or ["stat"]
        command, more = arguments[0], arguments[1:]
        if command not in self.COMMANDS:
            raise gdb.GdbError(f"`linmap {command}`: the commands are {', '.join(self.COMMANDS)}")
        if command == "walk" and more:
            more[0] = address(more[0])
        program = os.environ.get("LINMAP", "linmap")
        try:
            ran = subprocess.run([program, command, source(), *more], capture_output=True, text=True, check=False)
        except OSError as error:
            raise gdb.GdbError(f"`{program}` cannot be run: {error}; LINMAP names it") from error
        gdb.write(ran.stderr, gdb.STDERR)
        gdb.write(ran.stdout)
        if ran.returncode == 2:
            raise gdb.GdbError(f"`linmap {command}` failed")


LinmapSource()
Linmap()
