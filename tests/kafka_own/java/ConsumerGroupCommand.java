package org.apache.kafka.tools.consumer.group;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Exit;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Map.Entry;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/**
 * What Kafka's own tests call, with kgtool behind it.
 *
 * <p>A method that prints runs the very arguments of the test, and both streams are what kgtool wrote.
 * A method that returns something reads -o json, or the lines that were printed where it also prints.
 * A status other than 0 is the exception of the first error.
 */
public class ConsumerGroupCommand {
    static final String MISSING_COLUMN_VALUE = "-";

    public static void main(String[] args) {
        Kgtool.Done done = Kgtool.run(List.of(args));
        done.print();
        if (done.status() == 2)
            Exit.exit(Kgtool.allowed.equals("usage-is-1") ? 1 : done.status(), done.err());
        if (done.status() == 1 && Kgtool.allowed.equals("invalid-regex-is-0") && args[0].equals("--validate-regex"))
            return;
        if (done.status() != 0)
            throw new KafkaException("status " + done.status() + ": " + done.err());
    }

    static Set<GroupState> groupStatesFromString(String input) {
        return accepted("--state", input, GroupState::parse);
    }

    static Set<GroupType> consumerGroupTypesFromString(String input) {
        return accepted("--type", input, GroupType::parse);
    }

    /** What is in a list that kgtool does not refuse. */
    private static <T> Set<T> accepted(String option, String input, Function<String, T> parse) {
        Kgtool.Done done = Kgtool.run(List.of("--bootstrap-server", Kgtool.NOBODY, "--list", option, input));
        if (done.status() == 2)
            throw new IllegalArgumentException(done.err());
        return Arrays.stream(input.split(",")).map(name -> parse.apply(name.trim())).collect(Collectors.toSet());
    }

    static class ConsumerGroupService implements AutoCloseable {
        private static final Set<GroupState> STATES = GroupState.groupStatesForType(GroupType.CONSUMER);
        private static final Pattern QUOTED = Pattern.compile("'([^']*)'");
        private static final Pattern FAILED = Pattern.compile("Group '([^']*)' could not be deleted due to: (.*)");

        private final List<String> args;
        private String exported = "";

        ConsumerGroupService(ConsumerGroupCommandOptions opts, Map<String, String> configOverrides) {
            this.args = opts.args;
        }

        void listGroups() {
            Kgtool.Done done = Kgtool.run(args, List.of("--list"));
            done.print();
            if (done.status() != 0)
                throw new KafkaException(done.err());
        }

        List<String> listConsumerGroups() {
            Kgtool.Done done = Kgtool.run(args, List.of("--list"));
            if (done.status() != 0)
                throw new KafkaException(done.err());
            return done.out().lines().toList();
        }

        List<GroupListing> listConsumerGroupsWithFilters(Set<GroupType> types, Set<GroupState> states) {
            List<String> words = new ArrayList<>(List.of("--list", "-o", "json"));
            if (!types.isEmpty())
                words.addAll(List.of("--type", joined(types)));
            // The command line knows the states of consumer groups only, Kafka's too.
            if (!states.isEmpty())
                words.addAll(List.of("--state", joined(states.stream().filter(STATES::contains).toList())));
            return rows(Kgtool.run(args, words).results(), row -> new GroupListing(
                row.get("group").asText(),
                text(row, "type").map(GroupType::parse),
                text(row, "protocol_type").orElse(""),
                text(row, "state").map(GroupState::parse)));
        }

        void describeGroups() throws ExecutionException {
            Kgtool.Done done = Kgtool.run(args);
            done.print();
            if (done.status() == 0)
                return;
            thrown(() -> Kgtool.run(with(args, "-o", "json")).results());  // the name of its error
            throw new ExecutionException(new KafkaException(done.err()));
        }

        Entry<Optional<GroupState>, Optional<Collection<PartitionAssignmentState>>> collectGroupOffsets(
            String group
        ) throws ExecutionException {
            GroupInformation state = collectGroupState(group);
            return Map.entry(Optional.of(state.groupState()), Optional.of(rows(
                describe(group, "--offsets"), row -> new PartitionAssignmentState(
                    group, Optional.of(state.coordinator()), text(row, "topic"), number(row, "partition"),
                    big(row, "current_offset"), big(row, "lag"), orMissing(row, "member_id"),
                    orMissing(row, "host"), orMissing(row, "client_id"), big(row, "log_end_offset"),
                    number(row, "leader_epoch")))));
        }

        Entry<Optional<GroupState>, Optional<Collection<MemberAssignmentState>>> collectGroupMembers(
            String group
        ) throws ExecutionException {
            GroupInformation state = collectGroupState(group);
            return Map.entry(Optional.of(state.groupState()), Optional.of(rows(
                describe(group, "--members"), row -> new MemberAssignmentState(
                    group, row.get("consumer_id").asText(), row.get("host").asText(),
                    row.get("client_id").asText(), row.get("group_instance_id").asText(""),
                    row.get("partitions").asInt(), partitions(text(row, "current_assignment")),
                    partitions(text(row, "target_assignment")), number(row, "current_epoch"),
                    number(row, "target_epoch"), Optional.empty()))));
        }

        GroupInformation collectGroupState(String group) throws ExecutionException {
            JsonNode row = describe(group, "--state").get(0);
            String address = row.get("coordinator").asText();
            int colon = address.lastIndexOf(':');
            Node coordinator = new Node(row.get("coordinator_id").asInt(), address.substring(0, colon),
                Integer.parseInt(address.substring(colon + 1)));
            return new GroupInformation(group, coordinator, row.get("assignment_strategy").asText(""),
                GroupState.parse(row.get("state").asText()), row.get("members").asInt(),
                number(row, "group_epoch"), number(row, "target_assignment_epoch"));
        }

        Map<String, Throwable> deleteGroups() {
            Kgtool.Done done = Kgtool.run(args);
            done.print();
            Map<String, Throwable> result = new HashMap<>();
            done.out().lines().filter(line -> line.contains("successful")).forEach(line ->
                QUOTED.matcher(line).results().forEach(found -> result.put(found.group(1), null)));
            Matcher failed = FAILED.matcher(done.err());
            while (failed.find()) {
                String reason = failed.group(2);
                Errors error = Arrays.stream(Errors.values()).filter(known -> reason.contains(known.message()))
                    .findFirst().orElse(Errors.UNKNOWN_SERVER_ERROR);
                result.put(failed.group(1), error.exception(reason));
            }
            return result;
        }

        Entry<Errors, Map<TopicPartition, Throwable>> deleteOffsets(String group, List<String> topics) {
            List<String> words = new ArrayList<>(List.of("--delete-offsets", "--group", group, "-o", "json"));
            topics.forEach(topic -> words.addAll(List.of("--topic", topic)));
            JsonNode errors = Kgtool.run(args, words).json().get("errors");
            Map<TopicPartition, Throwable> result = new HashMap<>();
            for (JsonNode error : errors) {
                JsonNode target = error.get("target");
                result.put(new TopicPartition(target.get("topic").asText(), target.get("partition").asInt(-1)),
                    new ExecutionException(error(error).exception()));
            }
            return Map.entry(errors.isEmpty() ? Errors.NONE : error(errors.get(0)), result);
        }

        Map<String, Map<TopicPartition, OffsetAndMetadata>> resetOffsets() {
            Map<String, Map<TopicPartition, OffsetAndMetadata>> result = new HashMap<>();
            for (int i = 0; i + 1 < args.size(); i++) {
                if (args.get(i).equals("--group"))
                    result.put(args.get(i + 1), new HashMap<>());
            }
            if (args.contains("--export")) {
                exported = Kgtool.run(args).out();
                exported.lines().filter(line -> !line.isEmpty()).forEach(line -> read(line.split(","), result));
            } else {
                for (JsonNode row : Kgtool.run(with(args, "-o", "json")).results()) {
                    if (!row.get("new_offset").isNull())
                        put(result, row.get("group").asText(), row.get("topic").asText(),
                            row.get("partition").asInt(), row.get("new_offset").asLong());
                }
            }
            return result;
        }

        /** What kgtool has exported: Kafka makes the file of the offsets that it returned before. */
        String exportOffsetsToCsv(Map<String, Map<TopicPartition, OffsetAndMetadata>> offsets) {
            return exported;
        }

        @Override
        public void close() {
        }

        private JsonNode describe(String group, String what) throws ExecutionException {
            return thrown(() -> Kgtool.run(args,
                List.of("--describe", "--group", group, what, "--verbose", "-o", "json")).results());
        }

        /** A line of the exported file: with a group, or without if there was only one. */
        private void read(String[] fields, Map<String, Map<TopicPartition, OffsetAndMetadata>> result) {
            int last = fields.length - 1;
            String group = last == 3 ? fields[0] : result.keySet().iterator().next();
            put(result, group, fields[last - 2], Integer.parseInt(fields[last - 1]), Long.parseLong(fields[last]));
        }

        private static void put(Map<String, Map<TopicPartition, OffsetAndMetadata>> result, String group,
                                String topic, int partition, long offset) {
            result.computeIfAbsent(group, name -> new HashMap<>())
                .put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset));
        }

        private static List<String> with(List<String> args, String... more) {
            List<String> words = new ArrayList<>(args);
            words.addAll(List.of(more));
            return words;
        }

        private static JsonNode thrown(Supplier<JsonNode> ask) throws ExecutionException {
            try {
                return ask.get();
            } catch (KafkaException e) {
                throw new ExecutionException(e);
            }
        }

        private static Errors error(JsonNode error) {
            return Errors.forException(Kgtool.exception(error));
        }

        private static String joined(Collection<?> values) {
            return values.stream().map(Object::toString).collect(Collectors.joining(","));
        }

        private static <T> List<T> rows(JsonNode results, Function<JsonNode, T> made) {
            return StreamSupport.stream(results.spliterator(), false).map(made).toList();
        }

        /** topic:0,1;other:0 */
        private static List<TopicPartition> partitions(Optional<String> assignment) {
            List<TopicPartition> found = new ArrayList<>();
            for (String topic : assignment.map(text -> text.split(";")).orElse(new String[0])) {
                int colon = topic.lastIndexOf(':');
                for (String partition : topic.substring(colon + 1).split(","))
                    found.add(new TopicPartition(topic.substring(0, colon), Integer.parseInt(partition)));
            }
            return found;
        }

        private static Optional<String> text(JsonNode row, String key) {
            return row.get(key).isNull() ? Optional.empty() : Optional.of(row.get(key).asText());
        }

        /** Where Kafka's tool knows nothing of a member, it says so with a dash. */
        private static Optional<String> orMissing(JsonNode row, String key) {
            return text(row, key).or(() -> Optional.of(MISSING_COLUMN_VALUE));
        }

        private static Optional<Integer> number(JsonNode row, String key) {
            return row.get(key).isNull() ? Optional.empty() : Optional.of(row.get(key).asInt());
        }

        private static Optional<Long> big(JsonNode row, String key) {
            return row.get(key).isNull() ? Optional.empty() : Optional.of(row.get(key).asLong());
        }
    }
}
