"""The documents of `linmap` for drgn: page tables of the kernel that a drgn program looks at.

    >>> from linmap_drgn import stat, walk
    >>> stat(prog)["linear"]["tlb_entries"]
    >>> walk(prog, prog["jiffies"].address_of_())["translation"]["pa"]

The SOURCE is the program's core, or this machine if the program is live; `source=` names another.
"""

import json
import os
import subprocess

import drgn


class LinmapError(Exception):
    """`linmap` failed; the message is its own."""


def source_of(prog):
    """Returns the SOURCE of a drgn program as arguments: none for this machine."""
    if prog.flags & drgn.ProgramFlags.IS_LIVE:
        return []
    # Older releases do not tell the core.
    path = getattr(prog, "core_dump_path", None)
    if path is None:
        raise LinmapError("this drgn does not tell its core: name it by `source=`")
    return [os.fspath(path)]


def document(prog, command, *arguments, source=None):
    """Returns the document of a command, such as `stat`, as a dictionary. Findings are no errors."""
    program = os.environ.get("LINMAP", "linmap")
    named = source_of(prog) if source is None else [source]
    line = [program, command, *named, *arguments, "--json"]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    try:
        found = json.loads(ran.stdout)
    except ValueError:
        raise LinmapError(ran.stderr.strip()) from None
    if "error" in found:
        raise LinmapError(found["error"])
    return found


def stat(prog, **options):
    """Returns the linear map at a glance (`linmap.stat/2`)."""
    return document(prog, "stat", **options)


def check(prog, **options):
    """Returns what must not be in a map (`linmap.check/1`)."""
    return document(prog, "check", **options)


def walk(prog, address, **options):
    """Returns the translation of an address (`linmap.walk/1`): a number, a drgn object, or a symbol of VMCOREINFO."""
    if not isinstance(address, str):
        value = address.value_() if hasattr(address, "value_") else address
        address = hex(int(value) & 0xFFFF_FFFF_FFFF_FFFF)
    return document(prog, "walk", address, **options)
