package org.apache.kafka.tools.consumer.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Runs kgtool: a process for each call, as a script does. */
final class Kgtool {
    /** Where nobody listens: what comes back is a refusal, or status 4. */
    static final String NOBODY = "127.0.0.1:1";

    /** What tests/kafka_own/departures.toml allows in this run; nothing by default. */
    static volatile String allowed = "";

    private static final String JAAS = "java.security.auth.login.config";
    private static final Set<String> CONNECTION = Set.of("--bootstrap-server", "--command-config", "--timeout");

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

    static Done run(List<String> args) {
        List<String> command = new ArrayList<>(List.of(System.getProperty("kgtool.python"), "-m", "kgtool"));
        command.addAll(args);
        if (allowed.equals("create") && args.contains("--reset-offsets"))
            command.add("--create");
        try {
            Path out = Files.createTempFile("kgtool", ".out");
            Path err = Files.createTempFile("kgtool", ".err");
            ProcessBuilder builder = new ProcessBuilder(command)
                .redirectOutput(out.toFile()).redirectError(err.toFile());
            // Kafka's tool runs inside of this JVM and sees its properties; a process is told like this.
            if (System.getProperty(JAAS) != null)
                builder.environment().put("KAFKA_OPTS", "-D" + JAAS + "=" + System.getProperty(JAAS));
            int status = builder.start().waitFor();
            Done done = new Done(status, Files.readString(out), Files.readString(err));
            Files.delete(out);
            Files.delete(err);
            return done;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new KafkaException(e);
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
