package org.apache.kafka.tools.consumer.group;

import org.apache.kafka.common.utils.Exit;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import joptsimple.OptionParser;

/** The arguments as they are; whether they may be so, kgtool says. */
public class ConsumerGroupCommandOptions {
    private static final Set<String> NAMES = Set.of("--bootstrap-server", "--group", "--topic");
    private static final Set<List<String>> ACCEPTED = ConcurrentHashMap.newKeySet();

    final List<String> args;

    private ConsumerGroupCommandOptions(List<String> args) {
        this.args = args;
    }

    public static ConsumerGroupCommandOptions fromArgs(String[] args) {
        List<String> words = List.of(args);
        if (!words.contains("--bootstrap-server")) {
            Kgtool.Done done = Kgtool.run(words);
            done.print();
            Exit.exit(done.status(), done.err());
        } else if (!ACCEPTED.contains(shape(words))) {
            Kgtool.Done done = Kgtool.run(toNobody(words));
            if (done.status() == 2)  // wrong usage; 4 is that nobody was there
                new OptionParser().parse("--" + done.err().trim());
            ACCEPTED.add(shape(words));
        }
        return new ConsumerGroupCommandOptions(words);
    }

    /** The arguments without names: other groups and topics don't make a new question. */
    private static List<String> shape(List<String> words) {
        List<String> shape = new ArrayList<>(words);
        for (int i = 1; i < shape.size(); i++) {
            if (NAMES.contains(words.get(i - 1)))
                shape.set(i, "");
        }
        return shape;
    }

    /** The same arguments, for an address where they can do no harm and nothing has to be waited for. */
    private static List<String> toNobody(List<String> words) {
        List<String> instead = new ArrayList<>(words);
        instead.set(words.indexOf("--bootstrap-server") + 1, Kgtool.NOBODY);
        int timeout = words.indexOf("--timeout");
        if (timeout < 0)
            instead.addAll(List.of("--timeout", "50"));
        else
            instead.set(timeout + 1, "50");
        return instead;
    }
}
