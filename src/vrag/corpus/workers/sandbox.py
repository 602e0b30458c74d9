"""Restrictions that a process puts on itself before it reads an untrusted file, enforced by the kernel.

On Linux: Landlock leaves it the files that its policy names, and neither network nor signals to others; a
seccomp filter leaves it the system calls that reading a file takes; it has no capabilities, cannot gain any,
and, when it was started as root, is another user. Nothing of it can be undone, and all of it holds for what
the process starts. macOS and Windows have nothing comparable that a program may use without an
installer: there this module does nothing and says so.

The filter of workers is a list of what is allowed. Other system calls fail as if they were not permitted, and
those that are newer than this list as if the kernel did not have them: a newer C library then takes the older
call, so that an update of the system costs no document. A process is killed only for system calls of
another architecture. LibreOffice, which starts programs and uses far more of the system, has a list of what
is refused.

Why no library: `pyseccomp` needs libseccomp, a package of the system, and `landlock` on PyPI covers a part of
one of the two interfaces, which are a few system calls each. This module imports only the standard library,
because it is also a program that restricts itself and then becomes another: `sandbox.py POLICY COMMAND…`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

if sys.platform != "win32":
    import pwd
    import resource

MAX_DESCRIPTORS = 256
MAX_FILE_BYTES = 16 * 2**30
"""Size of a file that a process may write: a clip of a video."""

# Names of system calls with their numbers on x86-64 and ARM64; -1 where there is none.
_ALLOWED = """
read 0 63 write 1 64 readv 19 65 writev 20 66 pread64 17 67 pwrite64 18 68 preadv 295 69 pwritev 296 70
preadv2 327 286 lseek 8 62 close 3 57 close_range 436 436 dup 32 23 dup2 33 -1 dup3 292 24 access 21 -1
faccessat 269 48 faccessat2 439 439 stat 4 -1 lstat 6 -1 fstat 5 80 newfstatat 262 79 statx 332 291
statfs 137 43 fstatfs 138 44 readlink 89 -1 readlinkat 267 78 getdents 78 -1 getdents64 217 61 getcwd 79 17
ftruncate 77 46 fadvise64 221 223 mmap 9 222 munmap 11 215 mprotect 10 226 mremap 25 216 madvise 28 233
brk 12 214 mincore 27 232 membarrier 324 283 futex 202 98 futex_waitv 449 449 set_robust_list 273 99
get_robust_list 274 100 set_tid_address 218 96 rseq 334 293 sched_yield 24 124 sched_getaffinity 204 123
sched_getparam 143 121 sched_getscheduler 145 120 sched_get_priority_max 146 125
sched_get_priority_min 147 126 getcpu 309 168 rt_sigaction 13 134 rt_sigprocmask 14 135 rt_sigreturn 15 139
rt_sigpending 127 136
rt_sigtimedwait 128 137 rt_sigsuspend 130 133 sigaltstack 131 132 restart_syscall 219 128 exit 60 93
exit_group 231 94 getpid 39 172 gettid 186 178 getppid 110 173 getuid 102 174 geteuid 107 175 getgid 104 176
getegid 108 177 getresuid 118 148 getresgid 120 150 getgroups 115 158 getpgrp 111 -1 getpgid 121 155
getsid 124 156 getrlimit 97 163 getrusage 98 165 times 100 153 uname 63 160 sysinfo 99 179 getrandom 318 278
clock_gettime 228 113 clock_getres 229 114 clock_nanosleep 230 115 nanosleep 35 101 gettimeofday 96 169
time 201 -1 poll 7 -1 ppoll 271 73 select 23 -1 pselect6 270 72 recvmsg 47 212 recvfrom 45 207
arch_prctl 158 -1
"""
_REFUSED = """
ptrace 101 117 process_vm_readv 310 270 process_vm_writev 311 271 process_madvise 440 440 kcmp 312 272
pidfd_getfd 438 438 pidfd_send_signal 424 424 mount 165 40 umount2 166 39 pivot_root 155 41 chroot 161 51
move_mount 429 429 open_tree 428 428 fsopen 430 430 fsconfig 431 431 fsmount 432 432 fspick 433 433
mount_setattr 442 442 unshare 272 97 setns 308 268 bpf 321 280 perf_event_open 298 241 io_uring_setup 425 425
io_uring_enter 426 426 io_uring_register 427 427 userfaultfd 323 282 keyctl 250 219 add_key 248 217
request_key 249 218 init_module 175 105 finit_module 313 273 delete_module 176 106 kexec_load 246 104
kexec_file_load 320 294 reboot 169 142 swapon 167 224 swapoff 168 225 settimeofday 164 170
clock_settime 227 112 adjtimex 159 171 clock_adjtime 305 266 acct 163 89 quotactl 179 60 iopl 172 -1
ioperm 173 -1 personality 135 92 name_to_handle_at 303 264 open_by_handle_at 304 265 fanotify_init 300 262
lookup_dcookie 212 18 sethostname 170 161 setdomainname 171 162 syslog 103 116 vhangup 153 58 mknod 133 -1
mknodat 259 33 modify_ldt 154 -1 connect 42 203 sendto 44 206 sendmsg 46 211 sendmmsg 307 269
"""
_CHECKED = """
open 2 -1 openat 257 56 fcntl 72 25 ioctl 16 29 prctl 157 167 prlimit64 302 261 clone 56 220 clone3 435 435
tgkill 234 131 socket 41 198 socketpair 53 199 bind 49 200 listen 50 201
"""
_NEWEST = 450
"""The highest number of a system call that these lists were made with."""
_MACHINES = {"x86_64": (0, 0xC000003E, 317, 126), "aarch64": (1, 0xC00000B7, 277, 91)}
"""Column of the lists, architecture of the audit system, numbers of `seccomp` and `capset`."""
_X32 = 0x40000000
"""Bit of the numbers of a second set of system calls on x86-64."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Landlock's system calls."""
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_MAKE_CHAR, _MAKE_BLOCK, _MAKE_LINK, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 12, 1 << 15
_FILE_RIGHTS = 0b111 | 1 << 14 | _IOCTL_DEVICE
"""Rights that a rule for a file may have: execute, write, read, truncate, ioctl."""
_FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""Rights that a version of Landlock knows; since the fifth all of 16."""
_NET_RIGHTS, _SCOPES = 0b11, 0b11
"""Binding and connecting (TCP), since version 4; abstract sockets and signals, since version 6."""

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NOTHING = 0x00050000
"""The call succeeds without having done anything."""
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06

_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020000
_OPEN_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0o20000000
"""Flags of `open`: whatever creates or changes a file, `O_TMPFILE` too."""
_FCNTL = (0, 1, 2, 3, 4, 1030)
"""Duplicate a descriptor; read and set its flags."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, of which size; how much is there to read; blocking; close on exec."""
_PRCTL = (3, 15, 16, 21, 23, 39, 0x53564D41)
"""Read attributes; name threads and memory."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""`TIOCSTI` and `TIOCLINUX`, which type into a terminal."""

_SET_DUMPABLE, _SET_NO_NEW_PRIVILEGES = 4, 38
_CAPABILITY_VERSION = 0x20080522


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The rights that remain to a process."""

    readable: tuple[str, ...] = ()
    """Files, and folders with all below them. Those that do not exist are left out."""
    executable: tuple[str, ...] = ()
    """The same, for programs, which may be read as well."""
    writable: tuple[str, ...] = ()
    """Folders in which files may be read, made, changed and removed."""
    programs: bool = False
    """True if it may start programs: the filter of LibreOffice."""
    user: str = ""
    """User that it becomes when it was started as root; empty to stay who it is."""
    needed: tuple[str, ...] = ()
    """Files that this user must be able to read: otherwise the process stays root, without capabilities."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The restrictions of a process that are in force."""

    landlock: int = 0
    """Version of Landlock; 0 for none."""
    seccomp: bool = False
    user: str = ""
    """User that it became; empty if it is the user that started it."""
    missing: tuple[str, ...] = ()
    """The reasons for what is not in force, as sentences."""

    @property
    def is_complete(self) -> bool:
        """True if the kernel refuses both files and system calls."""
        return bool(self.landlock and self.seccomp)


SandboxMode = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The restrictions of the processes that this one starts to read files."""

    mode: SandboxMode = "auto"
    """`auto` for what the system offers, `on` to read nothing where it offers too little, `off` for none."""
    user: str = "nobody"
    """User that they become when this process is root; empty to stay root."""


_options = SandboxOptions()


def configure_sandbox(options: SandboxOptions) -> None:
    """Set the restrictions of the processes that this one starts from now on to read files."""
    global _options  # noqa: PLW0603 - of the process, as the processes are that it starts
    _options = options


def sandbox_options() -> SandboxOptions:
    """Return the restrictions of the processes that this one starts to read files."""
    return _options


def protect(policy: SandboxPolicy) -> Protection:
    """Restrict this process, which must have one thread. What the system does not offer is left out."""
    if sys.platform != "linux":
        return Protection(missing=("This system offers no restrictions of processes that vrag can use.",))
    missing: list[str] = []
    machine = _MACHINES.get(platform.machine())
    if machine is None or sys.maxsize < 2**32:
        return Protection(missing=(f"There is no list of system calls for {platform.machine()}.",))
    _set_limits()
    user = _change_user(policy, missing)
    _syscall(machine[3], struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)
    landlock = _restrict_files(policy, missing)
    _prctl(_SET_DUMPABLE, 0)
    column, architecture, seccomp, _ = machine
    instructions = _filter_programs(column) if policy.programs else _filter_reader(column)
    has_filter = _install(seccomp, [*_head(architecture, column), *instructions], missing)
    return Protection(landlock, has_filter, user, tuple(missing))


def _syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Make a system call. Returns its result, or the negative number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *values))
    return -ctypes.get_errno() if result < 0 else result


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(
        option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )


def _set_limits() -> None:
    for limit, most in (
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (value, value))


@dataclass(frozen=True, slots=True)
class LowerUser:
    """The user that a process of root becomes."""

    name: str
    uid: int
    gid: int


def find_lower_user(policy: SandboxPolicy) -> LowerUser | str | None:
    """Return the user that a process of root becomes, or the reason why it stays root; None elsewhere."""
    if sys.platform == "win32" or not policy.user or os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(policy.user)
    except KeyError:
        return f"There is no user {policy.user}: the process stays root, without capabilities."
    user = LowerUser(policy.user, entry.pw_uid, entry.pw_gid)
    for path in policy.needed:
        if not _can_read(user, path):
            return f"The user {user.name} cannot read {path}: the process stays root, without capabilities."
    return user


def _can_read(user: LowerUser, path: str) -> bool:
    """Return whether a user may read a file, by the modes of it and of the folders above."""
    path, right = os.path.realpath(path), 4
    while True:
        status = os.stat(path)  # noqa: PTH116 - pathlib takes long to import
        shift = 6 if status.st_uid == user.uid else 3 if status.st_gid == user.gid else 0
        if not status.st_mode >> shift & right:
            return False
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return True
        path, right = parent, 1


def _change_user(policy: SandboxPolicy, missing: list[str]) -> str:
    """Become the user of the policy where this is root. Returns its name, or nothing."""
    user = find_lower_user(policy)
    if isinstance(user, LowerUser):
        try:
            os.setgroups([])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        except OSError as error:  # a container whose root may not change users
            user = f"The process cannot become the user {user.name}: {error.strerror}."
        else:
            return user.name
    if user:
        missing.append(user)
    return ""


def _restrict_files(policy: SandboxPolicy, missing: list[str]) -> int:
    """Apply Landlock. Returns its version, or 0."""
    version = _syscall(_CREATE, 0, 0, 1)
    if version < 1:
        missing.append(f"The kernel has no Landlock, or does not allow it here ({os.strerror(-version)}).")
        return 0
    rights = _FS_RIGHTS.get(version, (1 << 16) - 1)
    attributes = struct.pack(
        "=QQQ", rights, _NET_RIGHTS if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _syscall(_CREATE, attributes, size, 0)
    if rules < 0:
        missing.append(f"Landlock refuses its rules ({os.strerror(-rules)}).")
        return 0
    reading = _READ_FILE | _READ_DIR
    for paths, allowed in (
        (policy.readable, reading),
        (policy.executable, reading | _EXECUTE),
        (policy.writable, rights & ~(_MAKE_CHAR | _MAKE_BLOCK | _MAKE_LINK | _IOCTL_DEVICE)),
    ):
        for path in paths:
            _add_rule(rules, path, allowed)
    status = _syscall(_RESTRICT, rules, 0)
    os.close(rules)
    if status < 0:
        missing.append(f"Landlock cannot be applied ({os.strerror(-status)}).")
        return 0
    return version


def _add_rule(rules: int, path: str, allowed: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib takes long to import
            allowed &= _FILE_RIGHTS
        _syscall(_ADD, rules, 1, struct.pack("=Qi", allowed, descriptor), 0)
    finally:
        os.close(descriptor)


Instruction = tuple[int, int, int, int]
"""An instruction of the filter: code, jumps if true and if false, operand."""


def _return(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _numbers(table: str, column: int) -> dict[str, int]:
    """Read a list of system calls: name → number on this machine."""
    words = table.split()
    found = zip(words[::3], words[1 + column :: 3], strict=True)
    return {name: int(number) for name, number in found if int(number) >= 0}


def _head(architecture: int, column: int) -> list[Instruction]:
    """Kill the process for another architecture, and refuse the second set of system calls of x86-64."""
    head = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), _return(_KILL), (_LOAD, 0, 0, 0)]
    return head if column else [*head, (_AT_LEAST, 0, 1, _X32), _return(_EPERM)]


def _when(number: int | None, body: list[Instruction]) -> list[Instruction]:
    """Run instructions, of which the last returns, for one system call."""
    return [] if number is None else [(_EQUAL, 0, len(body), number), *body]


def _one_of(
    argument: int, values: tuple[int, ...], otherwise: int = _EPERM, result: int = _ALLOW
) -> list[Instruction]:
    """Return `result` if an argument has one of the values: its lower 32 bits, all that the kernel reads."""
    tests = [
        (_EQUAL, len(values) - 1 - n, 0 if n < len(values) - 1 else 1, value)
        for n, value in enumerate(values)
    ]
    return [(_LOAD, 0, 0, 16 + 8 * argument), *tests, _return(result), _return(otherwise)]


def _masked(argument: int, mask: int, value: int) -> list[Instruction]:
    """Allow if the masked argument has a value."""
    check: list[Instruction] = [(_LOAD, 0, 0, 16 + 8 * argument), (_AND, 0, 0, mask), (_EQUAL, 0, 1, value)]
    return [*check, _return(_ALLOW), _return(_EPERM)]


def _filter_reader(column: int) -> list[Instruction]:
    """Allow what reading a file takes: no new processes, sockets, files to write, or signals to others."""
    call = _numbers(_CHECKED, column).get
    lines = [
        *_when(call("open"), _masked(1, _OPEN_TO_WRITE, 0)),
        *_when(call("openat"), _masked(2, _OPEN_TO_WRITE, 0)),
        *_when(call("clone"), _masked(0, _CLONE_THREAD | _CLONE_NEW, _CLONE_THREAD)),
        *_when(
            call("clone3"), [_return(_ENOSYS)]
        ),  # its flags lie in memory; the C library then takes `clone`
        *_when(call("fcntl"), _one_of(1, _FCNTL)),
        *_when(call("ioctl"), _one_of(1, _IOCTL)),
        *_when(call("prctl"), _one_of(0, _PRCTL)),
        *_when(call("prlimit64"), _one_of(0, (0,))),
        *_when(call("tgkill"), _one_of(0, (os.getpid(),))),
    ]
    for number in _numbers(_ALLOWED, column).values():
        lines += _when(number, [_return(_ALLOW)])
    return [*lines, (_AT_LEAST, 0, 1, _NEWEST + 1), _return(_ENOSYS), _return(_EPERM)]


def _filter_programs(column: int) -> list[Instruction]:
    """Refuse what no program for documents needs: network, other processes' memory, administration."""
    call = _numbers(_CHECKED, column).get
    namespaces = [
        (_LOAD, 0, 0, 16),
        (_AND, 0, 0, _CLONE_NEW),
        (_EQUAL, 0, 1, 0),
        _return(_ALLOW),
        _return(_EPERM),
    ]
    lines = [
        *_when(call("socket"), _one_of(0, (1,))),
        *_when(call("socketpair"), _one_of(0, (1,))),
        # LibreOffice makes a socket in /tmp to find a running one of the same profile, and gives up without.
        *_when(call("bind"), [_return(_NOTHING)]),
        *_when(call("listen"), [_return(_NOTHING)]),
        *_when(call("clone"), namespaces),
        *_when(call("clone3"), [_return(_ENOSYS)]),
        *_when(call("ioctl"), _one_of(1, _TERMINAL_INPUT, _ALLOW, _EPERM)),
    ]
    for number in _numbers(_REFUSED, column).values():
        lines += _when(number, [_return(_EPERM)])
    return [*lines, (_AT_LEAST, 0, 1, _NEWEST + 1), _return(_ENOSYS), _return(_ALLOW)]


def _install(seccomp: int, instructions: list[Instruction], missing: list[str]) -> bool:
    """Put a filter in force for all threads. Returns whether the kernel has taken it."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in instructions))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    status = _syscall(seccomp, 1, 1, program)
    if status:
        reason = os.strerror(-status) if status < 0 else "a thread is in the way"
        missing.append(f"The kernel takes no filter of system calls ({reason}).")
    return not status


def exec_command(policy: SandboxPolicy, command: list[str]) -> list[str]:
    """Return the command that runs another one under a policy; the same where there are no restrictions."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", __file__, json.dumps(asdict(policy)), *command]


def main(arguments: list[str]) -> None:
    """Restrict this process and become another program: `POLICY COMMAND…`."""
    policy, *command = arguments
    protect(SandboxPolicy(**json.loads(policy)))
    os.execv(command[0], command)  # noqa: S606 - our own command


if __name__ == "__main__":
    main(sys.argv[1:])
