package org.apache.kafka.tools.consumer.group;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Answers the lines of stdin: "Class#method ALLOWED" runs the method and tells {"runs", "failures",
 * "seconds"}; "Class" tells the names of its methods.
 */
public final class Judge {
    private static final Launcher LAUNCHER = LauncherFactory.create();

    private Judge() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);  // whatever else is printed is no answer
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Object answer = line.contains("#") ? run(line) : methods(line);
            answers.println(new ObjectMapper().writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);  // what a failed test left running is nothing to wait for
    }

    private static Object run(String name) throws ClassNotFoundException {
        String[] parts = name.split("[# ]", -1);
        Class<?> type = Class.forName(parts[0]);
        DiscoverySelector[] selectors = Arrays.stream(type.getDeclaredMethods())
            .filter(method -> method.getName().equals(parts[1]))
            .map(method -> DiscoverySelectors.selectMethod(type, method))
            .toArray(DiscoverySelector[]::new);
        Listener listener = new Listener();
        Kgtool.allowed = parts[2];
        long began = System.nanoTime();
        LAUNCHER.execute(request(selectors), listener);
        return Map.of("runs", listener.runs, "failures", listener.failures,
            "seconds", (System.nanoTime() - began) / 1e9);
    }

    private static Object methods(String name) {
        Set<String> found = new TreeSet<>();
        LAUNCHER.discover(request(DiscoverySelectors.selectClass(name))).accept(new TestPlan.Visitor() {
            @Override
            public void visit(TestIdentifier test) {
                test.getSource().filter(MethodSource.class::isInstance)
                    .ifPresent(source -> found.add(((MethodSource) source).getMethodName()));
            }
        });
        return found;
    }

    private static LauncherDiscoveryRequest request(DiscoverySelector... selectors) {
        return LauncherDiscoveryRequestBuilder.request().selectors(selectors)
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true").build();
    }

    private static final class Listener implements TestExecutionListener {
        private final List<String> failures = new ArrayList<>();
        private int runs;

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (test.isTest())
                runs++;
            result.getThrowable().ifPresent(thrown -> {
                StringWriter trace = new StringWriter();
                thrown.printStackTrace(new PrintWriter(trace));
                failures.add(test.getDisplayName() + ": " + trace);
            });
        }
    }
}
