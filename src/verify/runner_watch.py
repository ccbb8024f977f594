"""Tells what the code under test has altered of the runner that judges it.

Standard library only, Python 3.8 and newer. Functions and classes of the runner are looked at before code of the project is imported and again when
the report is written. What differs is named, and the judge compares it with what differs at base: a project may bend its runner as it always has,
a patch may not bend it further. What is altered and taken back within the tests is not seen.
"""

import builtins
import os
import sys
import sysconfig
import types

RUNNERS = {"unittest", "doctest", "pytest", "_pytest", "pluggy"}
TRUSTED = {"builtins", "contextlib", "hmac", "re"}
LIMIT = 1000
GONE = object()
HERE = os.getcwd()
PLACES = [path for key, path in sysconfig.get_paths().items() if key in ("stdlib", "purelib", "platlib")]
PLACES += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
INSTALLED = tuple(os.path.realpath(path) + os.sep for path in PLACES)


def owner(name):
    return str(name).split(".", 1)[0]


def is_active(value):
    """Whether it can be called, or stands in a class for what can."""
    return callable(value) or hasattr(type(value), "__get__")


def parts(value):
    """The thing itself and, of a function, what can be exchanged inside."""
    function = getattr(value, "__func__", value)
    if isinstance(function, types.FunctionType):
        return value, function.__code__, function.__defaults__, function.__kwdefaults__
    if isinstance(value, property):
        return value, value.fget
    return (value,)


def same(one, other):
    return len(one) == len(other) and all(a is b for a, b in zip(one, other))


class Watch:
    """What is watched, as it was at first."""

    def __init__(self, *own):
        """With our own modules, of which every value is watched."""
        self.own = own
        self.seen = {}
        self.tests = []
        self.objects = []
        self.modules = {}
        self.found = set()
        self.methods = {name: parts(one) for name, one in vars(Watch).items() if is_active(one)}
        self.look()

    def look(self):
        """Takes what is here now for right, except what was altered by anything but an installed plugin."""
        before, self.seen = self.seen, self.now()
        for name, value in self.seen.items():
            if name in before and not same(before[name], value) and not is_installed(value):
                self.found.add(name)

    def now(self):
        seen = {}
        for name, module in list(sys.modules.items()):
            if owner(name) in RUNNERS | TRUSTED:
                self.take(seen, name, module, owner(name), False)
        for module in self.own:
            self.take(seen, module.__name__, module, owner(module.__name__), True)
        return seen

    def take(self, seen, path, module, whose, everything):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if everything and not name.startswith("__") or is_active(value):
                seen[path + "." + name] = parts(value)
            if isinstance(value, type) and owner(value.__module__) == whose:
                for inner, member in list(vars(value).items()):
                    if is_active(member):
                        seen[path + "." + name + "." + inner] = parts(member)

    def test(self, name, holder, attribute):
        """Watches a function that is a test, and what its file has imported and defined."""
        self.tests.append((str(name), holder, attribute, parts(plain(holder, attribute))))
        module = sys.modules.get(type(holder).__module__) if attribute != "obj" else getattr(holder, "module", None)
        if module is not None and id(module) not in self.modules:
            kinds = (types.ModuleType, types.FunctionType, type)
            self.modules[id(module)] = module, {key: one for key, one in vars(module).items() if isinstance(one, kinds)}

    def object(self, name, value):
        """Watches an object that must not get functions of its own."""
        self.objects.append((str(name), value, functions_in(value)))

    def altered(self):
        """The names of what differs now or did so when this was asked before."""
        for name, value in self.methods.items():
            if not same(parts(vars(Watch).get(name, GONE)), value):
                self.found.add("watch " + name)
        self.found.update("equal to anything: " + name for name in equal_to_anything())
        now = self.now()
        modules = {name.rsplit(".", 1)[0] for name in self.seen}
        for name, value in self.seen.items():
            if not same(now.get(name, (GONE,)), value):
                self.found.add(name)
        for name in now.keys() - self.seen.keys():
            path, _, last = name.rpartition(".")
            is_in_class = path in self.seen and isinstance(self.seen[path][0], type)
            if is_in_class or path in modules and path in sys.modules and path != "builtins" and hasattr(builtins, last):
                self.found.add(name)
        for name, holder, attribute, value in self.tests:
            if not same(parts(plain(holder, attribute)), value):
                self.found.add("test " + name)
        for module, known in self.modules.values():
            gone = [key for key, one in known.items() if vars(module).get(key) is not one]
            self.found.update("name in a test file %s.%s" % (module.__name__, key) for key in gone)
        for name, value, functions in self.objects:
            self.found.update(name + "." + key for key in functions_in(value) - functions)
        return sorted(name[:500] for name in self.found)[:LIMIT]


def equal_to_anything():
    """The classes outside of tests and installed packages whose objects say that they equal things which differ."""
    kinds, names = [object], set()
    while kinds:
        kind = kinds.pop()
        kinds.extend(kind.__subclasses__() if kind is not type else ())
        equal = vars(kind).get("__eq__")
        code = getattr(equal, "__code__", None)
        if code is None or is_installed((equal,)) or is_of_tests(code.co_filename):
            continue
        try:
            one = kind.__new__(kind)
            said = [equal(one, other) for other in (982451653, -77, 0.125, object())]
        except Exception:
            continue
        if sum(answer is True for answer in said) > 1:
            names.add(str(kind.__module__) + "." + str(kind.__qualname__))
    return names


def is_of_tests(path):
    parts_of_path = os.path.relpath(path, HERE).split(os.sep)
    return any(part.startswith(("test", "conftest")) or "_test" in part for part in parts_of_path)


def plain(holder, attribute):
    """What an attribute is in its class or object, and no bound method, which is a new one each time."""
    found = getattr(holder, attribute, GONE)
    return getattr(found, "__func__", found)


def functions_in(value):
    return {key for key, one in list(vars(value).items()) if callable(one) and not isinstance(one, type)}


def is_installed(value):
    """Whether the code of a function or property is a file of Python or of an installed package."""
    one = value[1] if isinstance(value[0], property) else value[0]
    code = getattr(getattr(one, "__func__", one), "__code__", None)
    return code is not None and os.path.realpath(code.co_filename).startswith(INSTALLED)
