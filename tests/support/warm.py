"""Kafka's own tools in a JVM that stays warm: a process of its own takes a second for each run.

Where a tool's main ends the JVM, its thread ends instead.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from kgtool.sandbox.broker import log_flags
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.tools import tool_class
from tests.protocol.jvm import jvm_of

EXITS = {
    "4.3.1": "org.apache.kafka.common.utils.Exit",
    "4.4.0": "org.apache.kafka.common.utils.internals.Exit",
}
"""Kafka's class ``Exit`` of the versions that are kept warm."""
LIMIT_MS = 120_000
EXIT = "kgtool's tests: the end of a tool"
"""What ``Exit`` throws; where a tool shows it, it runs again in a process of its own."""


@contextmanager
def warm_tools() -> Iterator[Callable[[Sandbox], Sandbox]]:
    """What lets ``run_tool`` of a cluster use such a JVM; the first tool starts it."""
    with ExitStack() as stack:
        jvms: dict[str, _Jvm] = {}

        def run(cluster: Sandbox, tool: str, *args: str, **options: Any) -> Any:
            name = tool_class(tool, cluster.version)
            # Scala's println keeps the first System.out.
            if options or not name.startswith("org.apache.kafka.tools."):
                return Sandbox.run_tool(cluster, tool, *args, **options)
            version = cluster.version
            if version not in jvms:
                gateway = stack.enter_context(jvm_of(version, *log_flags("off")))
                jvms[version] = _Jvm(gateway, EXITS[version])
            done = jvms[version].run(cluster.bootstrap, name, *args)
            return done or Sandbox.run_tool(cluster, tool, *args)

        def warm(cluster: Sandbox) -> Sandbox:
            if cluster.version in EXITS:
                cluster.run_tool = partial(run, cluster)  # type: ignore[method-assign]
            return cluster

        yield warm


class _Jvm:
    """Runs one tool after the other."""

    def __init__(self, gateway: Any, exit_class: str) -> None:
        self._java, self._exit_class = gateway.jvm.java, exit_class
        self._exit = getattr(gateway.jvm, exit_class)
        handles, any_object = self._java.lang.invoke.MethodHandles, self._class("java.lang.Object")
        thrown = self._java.lang.RuntimeException(EXIT)
        self._throw = handles.throwException(any_object, thrown.getClass()).bindTo(thrown)
        self._nothing = handles.constant(any_object, None)

    def run(self, bootstrap: str, name: str, *args: str) -> subprocess.CompletedProcess[str] | None:
        """Run the main of a class; None where it can't be told how a process would have ended."""
        given = any(word.split("=")[0] == "--bootstrap-server" for word in args)
        words = list(args) if given else ["--bootstrap-server", bootstrap, *args]
        status, out, err = self._run(name, words)
        if status is None or EXIT in out + err:
            return None
        return subprocess.CompletedProcess([name, *words], status, out, err)

    def _run(self, name: str, words: list[str]) -> tuple[int | None, str, str]:
        """The status, stdout and stderr of a main; no status: what it threw is not its ``Exit``."""
        exits, failures = self._java.util.ArrayList(), self._java.util.ArrayList()
        procedure = self._proxy(f"{self._exit_class}$Procedure", exits, self._throw)
        self._exit.setExitProcedure(procedure)
        out, err = self._java.io.ByteArrayOutputStream(), self._java.io.ByteArrayOutputStream()
        self._java.lang.System.setOut(self._java.io.PrintStream(out, True, "UTF-8"))
        self._java.lang.System.setErr(self._java.io.PrintStream(err, True, "UTF-8"))
        thread = self._java.lang.Thread(self._main(name, words))
        handler = "java.lang.Thread$UncaughtExceptionHandler"
        thread.setUncaughtExceptionHandler(self._proxy(handler, failures, self._nothing))
        thread.setDaemon(True)
        thread.start()
        thread.join(LIMIT_MS)
        assert not thread.isAlive(), (name, words)
        # A tool that has ended with a status may go on: the first one counts.
        status = exits[0][0] if len(exits) else None if len(failures) else 0
        return status, out.toString("UTF-8"), err.toString("UTF-8")

    def _main(self, name: str, words: list[str]) -> Any:
        """A Runnable that is a class's main."""
        invoke = self._java.lang.invoke
        strings = self._array("java.lang.String", words)
        kind = invoke.MethodType.methodType(
            self._java.lang.Void.TYPE, self._class("[Ljava.lang.String;")
        )
        main = invoke.MethodHandles.publicLookup().findStatic(self._class(name), "main", kind)
        bound = invoke.MethodHandles.insertArguments(
            main.asFixedArity(), 0, self._array("java.lang.Object", [strings])
        )
        return invoke.MethodHandleProxies.asInterfaceInstance(
            self._class("java.lang.Runnable"), bound
        )

    def _proxy(self, interface: str, calls: Any, answer: Any) -> Any:
        """An object whose methods add their arguments to a list and then do as a handle does."""
        lang, handles = self._java.lang, self._java.lang.invoke.MethodHandles
        kinds = [self._class(kind) for kind in ("java.lang.Object", "java.lang.reflect.Method")]
        arguments = self._class("[Ljava.lang.Object;")
        add = handles.publicLookup().findVirtual(
            calls.getClass(), "add", lang.invoke.MethodType.methodType(lang.Boolean.TYPE, kinds[0])
        )
        kind = lang.invoke.MethodType.methodType(lang.Void.TYPE, arguments)
        seen = handles.dropArguments(
            add.bindTo(calls).asType(kind), 0, self._array("java.lang.Class", kinds)
        )
        then = handles.dropArguments(answer, 0, self._array("java.lang.Class", [*kinds, arguments]))
        interfaces = self._array("java.lang.Class", [self._class(interface)])
        return lang.reflect.Proxy.newProxyInstance(
            interfaces[0].getClassLoader(),
            interfaces,
            lang.invoke.MethodHandleProxies.asInterfaceInstance(
                self._class("java.lang.reflect.InvocationHandler"),
                handles.foldArguments(then, seen),
            ),
        )

    def _array(self, kind: str, items: list[Any]) -> Any:
        found = self._java.lang.reflect.Array.newInstance(self._class(kind), len(items))
        for at, item in enumerate(items):
            found[at] = item
        return found

    def _class(self, name: str) -> Any:
        return self._java.lang.Class.forName(name)
