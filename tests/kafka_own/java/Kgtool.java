package org.apache.kafka.tools.consumer.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Runs kgtool: a process for each call, as a script does. */
final class Kgtool {
    /** Where nobody listens: what comes back is a refusal, or status 4. */
    static final String NOBODY = "127.0.0.1:1";

    /** What tests/kafka_own/departures.toml allows in this run; nothing by default. */
    static volatile String allowed = "";

    private static final String JAAS = "java.security.auth.login.config";
    private static final Set<String> CONNECTION = Set.of("--bootstrap-server", "--command-config", "--timeout");

    private static final Warm WARM = new Warm();

    private Kgtool() {
    }

    /** What a process left behind. */
    record Done(int status, String out, String err) {
        /** Hand both streams to whoever captures them; Kafka's tool has its errors on stdout. */
        void print() {
            System.out.print(out);
            (allowed.equals("errors-on-stdout") ? System.out : System.err).print(err);
        }

        JsonNode json() {
            try {
                return new ObjectMapper().readTree(out);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** The rows of -o json; the exception of its first error if there is one. */
        JsonNode results() {
            JsonNode document = json();
            if (!document.get("errors").isEmpty())
                throw exception(document.get("errors").get(0));
            return document.get("results");
        }
    }

    static synchronized Done run(List<String> args) {
        List<String> words = new ArrayList<>(args);
        if (allowed.equals("create") && args.contains("--reset-offsets"))
            words.add("--create");
        Map<String, String> environ = new HashMap<>(System.getenv());
        // Kafka's tool runs inside of this JVM and sees its properties; a process is told like this.
        if (System.getProperty(JAAS) != null)
            environ.put("KAFKA_OPTS", "-D" + JAAS + "=" + System.getProperty(JAAS));
        try {
            Path out = Files.createTempFile("kgtool", ".out");
            Path err = Files.createTempFile("kgtool", ".err");
            int status = WARM.run(Map.of("argv", words, "environ", environ,
                "out", out.toString(), "err", err.toString()));
            Done done = new Done(status, Files.readString(out), Files.readString(err));
            Files.delete(out);
            Files.delete(err);
            return done;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Forks a process for each run: see tests/support/warm_kgtool.py. */
    private static final class Warm {
        private final BufferedWriter jobs;
        private final BufferedReader answers;

        Warm() {
            try {
                Process process = new ProcessBuilder(
                    System.getProperty("kgtool.python"), "-m", "tests.support.warm_kgtool"
                ).redirectError(ProcessBuilder.Redirect.INHERIT).start();
                jobs = process.outputWriter();
                answers = process.inputReader();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** The exit status of a run. */
        int run(Map<String, Object> job) throws IOException {
            jobs.write(new ObjectMapper().writeValueAsString(job) + "\n");
            jobs.flush();
            answers.readLine();  // the process id
            return new ObjectMapper().readTree(answers.readLine()).get(0).asInt();
        }
    }

    /** Run something else with the connection of the same arguments. */
    static Done run(List<String> args, List<String> instead) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i + 1 < args.size(); i++) {
            if (CONNECTION.contains(args.get(i)))
                words.addAll(args.subList(i, i + 2));
        }
        words.addAll(instead);
        return run(words);
    }

    /** The exception that Kafka's client throws for an error of -o json. */
    static KafkaException exception(JsonNode error) {
        String message = error.get("message").asText();
        if (!error.get("code").isNull())
            return Errors.forCode((short) error.get("code").asInt()).exception(message);
        return switch (error.get("name").asText()) {
            case "TIMEOUT" -> new TimeoutException(message);
            case "AUTHENTICATION_FAILED" -> new AuthenticationException(message);
            default -> new ApiException(error.get("name").asText() + ": " + message);
        };
    }
}
